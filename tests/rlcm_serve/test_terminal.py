import io
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from rich.console import Console

from rlcm_serve.own_files import own_log
from rlcm_serve.terminal import StageClock, default_engine_log, output_to, progress_bar


def test_the_log_lies_in_the_users_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert default_engine_log() == Path("/somewhere/rlcm-serve/engine.log")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/someone")
    assert default_engine_log() == Path("/home/someone/.cache/rlcm-serve/engine.log")


def test_what_is_written_meanwhile_goes_to_the_log(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "new" / "engine.log"
    os.write(1, b"before\n")
    with output_to(log):
        os.write(1, b"to stdout\n")
        os.write(2, b"to stderr\n")
        child = [sys.executable, "-c", "import time; time.sleep(0.2); print('from a child')"]
        process = subprocess.Popen(child)
    os.write(1, b"after\n")
    process.wait()
    assert capfd.readouterr() == ("before\nafter\n", "")
    assert log.read_text() == "to stdout\nto stderr\nfrom a child\n"


def test_an_error_gives_the_terminal_back(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    own_log(tmp_path / "engine.log")  # stays open
    open_before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(RuntimeError), output_to(tmp_path / "engine.log"):
        raise RuntimeError
    os.write(1, b"after\n")
    assert capfd.readouterr().out == "after\n"
    assert len(list(Path("/proc/self/fd").iterdir())) == open_before


def test_without_a_log_it_goes_to_stderr(capfd: pytest.CaptureFixture[str]) -> None:
    with output_to(None):
        os.write(1, b"inside\n")
    os.write(1, b"a result\n")
    assert capfd.readouterr() == ("a result\n", "inside\n")


@pytest.fixture
def vllm_logger() -> Iterator[logging.Logger]:
    """vLLM's logger as vLLM makes it at its import: it writes to stdout, past all others."""
    logger = logging.getLogger("vllm")
    kept = logger.handlers, logger.propagate, logger.level
    logger.handlers, logger.propagate = [], False
    yield logger
    logger.handlers, logger.propagate, level = kept
    logger.setLevel(level)


def test_what_vllm_logs_here_stays_off_stdout(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], vllm_logger: logging.Logger
) -> None:
    log = tmp_path / "engine.log"
    vllm_logger.addHandler(logging.StreamHandler(sys.stdout))
    core = logging.getLogger("vllm.v1.engine.core_client")
    with output_to(log):
        pass
    core.error("the core died")
    core.info("throughput: 3 tokens/s")
    assert log.read_text() == "the core died\n"
    assert capfd.readouterr() == ("", "")
    with output_to(None):
        pass
    core.error("it died again")
    assert capfd.readouterr() == ("", "it died again\n")


def test_each_stage_gets_one_line() -> None:
    console = Console(file=io.StringIO(), width=100)
    clock = StageClock(console)
    for stage in ("starting", "starting", "loading [1/2]", "ready"):
        clock(stage)
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert [line.split("] ", 1)[1] for line in lines] == ["starting", "loading [1/2]", "ready"]
    assert all(line.startswith("[  0.") and " s] " in line for line in lines)


def test_the_bar_counts() -> None:
    console = Console(file=io.StringIO(), width=100, force_terminal=True)
    with progress_bar(console) as progress:
        bar = progress.add_task("recording", total=8)
        progress.update(bar, completed=3)
    assert "3/8" in console.file.getvalue()  # type: ignore[attr-defined]


def test_an_error_stands_alone() -> None:
    console = Console(file=io.StringIO(), width=100)
    with suppress(ValueError), progress_bar(console) as progress:
        progress.add_task("reading", total=8)
        raise ValueError("line 3 is no rollout")
    assert console.file.getvalue().strip() == ""  # type: ignore[attr-defined]


def test_an_interruption_leaves_the_count() -> None:
    console = Console(file=io.StringIO(), width=100)
    with suppress(KeyboardInterrupt), progress_bar(console) as progress:
        progress.update(progress.add_task("recording", total=8), completed=3)
        raise KeyboardInterrupt
    assert "3/8" in console.file.getvalue()  # type: ignore[attr-defined]


def test_in_a_log_the_count_is_written_every_half_minute() -> None:
    console = Console(file=io.StringIO(), width=100)
    clock = [0.0]
    progress = progress_bar(console)
    progress.get_time = lambda: clock[0]
    with progress:
        bar = progress.add_task("recording", total=8)
        for clock[0] in (10.0, 31.0, 32.0, 60.0, 62.0):
            progress.advance(bar)
        written = console.file.getvalue()  # type: ignore[attr-defined]
    counts = [line.split()[-4:-2] for line in written.splitlines()]
    assert counts == [["2/8", "2.9/min"], ["5/8", "4.0/min"]]
