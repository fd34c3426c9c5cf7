"""Runs the command line inside the test's process, which is faster."""

import sys

import pytest

from rlcm_serve.cli import main


class Rlcm:
    """Runs `rlcm` with the words of a command."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch, self._capsys = monkeypatch, capsys

    def __call__(self, command: str) -> tuple[int, str, str]:
        """Exit status, stdout and stderr."""
        self._monkeypatch.setattr(sys, "argv", ["rlcm", *command.split()])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = self._capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return ended.value.code, out, err
