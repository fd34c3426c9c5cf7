"""Two services as users start them, with one state folder and one name for vLLM's log."""

from __future__ import annotations

import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.served import RLCM, Served, serving

pytestmark = pytest.mark.engine


def log_of(service: Served) -> Path:
    """Where the service says that vLLM writes."""
    (line,) = [line for line in service.log.read_text().splitlines() if "vLLM writes to" in line]
    return Path(line.partition("vLLM writes to ")[2].partition('"')[0])


def test_each_keeps_its_files_while_the_other_starts_works_and_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with TemporaryDirectory() as folder:  # sockets need a short path
        check(tmp_path, Path(folder), monkeypatch)


def check(tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    shared = ["--state", str(tmp_path / "state"), "--engine-log", str(tmp_path / "engine.log")]
    shared += ["--evidence"]
    with serving(tmp_path / "one", *shared) as one:
        first = log_of(one)
        written = first.read_text()
        (its,) = temporary.glob("rlcm-own-*")
        with serving(tmp_path / "two", *shared) as two:
            assert (first, log_of(two)) == (tmp_path / "engine.log", tmp_path / "engine-2.log")
            assert first.read_text().startswith(written)
            assert its.is_dir()
            (own,) = {*temporary.glob("rlcm-own-*")} - {its}
            assert (one.solve().status_code, two.solve().status_code) == (200, 200)
            one.process.kill()
            assert two.solve().status_code == 200
            assert own.is_dir()
            assert log_of(two).stat().st_size > 0
    verify = [RLCM, "evidence", "verify", tmp_path / "state" / "evidence"]
    done = subprocess.run(verify, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
