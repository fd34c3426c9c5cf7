import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rlcm_serve.command_line import Rlcm


@pytest.fixture
def rlcm(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Iterator[Rlcm]:
    """`rlcm` in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)  # typer sets its own
    on_stop = signal.getsignal(signal.SIGTERM)
    yield Rlcm(monkeypatch, capsys)
    signal.signal(signal.SIGTERM, on_stop)
