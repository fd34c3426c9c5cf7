"""Fuzzed requests over every route: none is a fault of the service, unanswered, or granted."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.attack

REQUESTS = 2000
LIMIT = 480
"""Seconds; it takes half a minute on two idle cores, and a start of the service."""


def test_no_fuzzed_request_is_a_fault(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "studies.serving.siege", "fuzz", "--requests", str(REQUESTS)]
    done = subprocess.run(
        [*command, "--seed", "2", "--out", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    found = json.loads((tmp_path / "siege-fuzz.json").read_text())
    assert sum(sum(counts.values()) for counts in found["routes"].values()) == REQUESTS
    assert found["faults"] == []
