"""Each process has its own log and its own folder, in places that several processes share."""

import fcntl
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rlcm_serve.own_files import keep_last, own_log, scratch

PROCESS = """
import os, sys
from pathlib import Path
from rlcm_serve.own_files import own_log, scratch
log = own_log(Path(sys.argv[1]))
os.write(log.descriptor, f"written by {os.getpid()}".encode())
print(log.path, scratch(), flush=True)
sys.stdin.read()
"""


@contextmanager
def process(folder: Path) -> Iterator[tuple[subprocess.Popen[str], Path, Path]]:
    """A process that has taken its log and its folder, until its input ends or it is killed."""
    (folder / "tmp").mkdir(exist_ok=True)
    command = [sys.executable, "-c", PROCESS, str(folder / "engine.log")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    environment = {"TMPDIR": str(folder / "tmp"), "PYTHONPATH": ":".join(sys.path)}
    with subprocess.Popen(command, env=environment, **pipes) as started:  # type: ignore[call-overload]
        try:
            log, own = started.stdout.readline().split()
            yield started, Path(log), Path(own)
        finally:
            started.kill()


def test_processes_that_share_a_log_write_files_of_their_own(tmp_path: Path) -> None:
    with process(tmp_path) as (first, log, _), process(tmp_path) as (second, beside, _):
        assert (log, beside) == (tmp_path / "engine.log", tmp_path / "engine-2.log")
        assert log.read_text() == f"written by {first.pid}"
        assert beside.read_text() == f"written by {second.pid}"
        first.kill()
        first.wait()
        with process(tmp_path) as (third, taken, _):
            assert taken == log
            assert log.read_text() == f"written by {third.pid}"
            assert (tmp_path / "engine.log.1").read_text() == f"written by {first.pid}"


def test_what_a_killed_process_left_is_removed_and_what_a_running_one_has_is_not(
    tmp_path: Path,
) -> None:
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp" / "others").mkdir()
    with process(tmp_path) as (running, _, own), process(tmp_path) as (killed, _, left):
        (left / "large").write_text("content")
        killed.kill()
        killed.wait()
        assert left.is_dir()
        with process(tmp_path) as (ending, _, its):
            assert own.is_dir()
            assert not left.exists()
            ending.communicate()
            assert not its.exists()
        assert {path.name for path in (tmp_path / "tmp").iterdir()} == {own.name, "others"}
        running.communicate()
        assert not own.exists()


def test_a_process_keeps_its_log_and_what_it_wrote_last_time(tmp_path: Path) -> None:
    path = tmp_path / "new" / "engine.log"
    log = own_log(path)
    for text in (b"the first", b"the second"):
        os.write(log.descriptor, text)
        assert own_log(path) is log
        keep_last(log)
    keep_last(log)
    assert [file.read_text() for file in sorted(path.parent.iterdir())] == ["", "the second"]
    path.unlink()
    os.write(own_log(path).descriptor, b"again")
    assert path.read_text() == "again"


def test_a_log_that_is_no_file_may_be_shared() -> None:
    shared = Path("/dev/null")
    with shared.open("wb") as writing:
        fcntl.flock(writing, fcntl.LOCK_EX)
        log = own_log(shared)
        keep_last(log)
    assert log.path == shared


def test_a_folder_that_was_removed_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    first = scratch()
    assert scratch() == first
    first.rmdir()
    assert scratch().is_dir()
