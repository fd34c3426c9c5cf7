"""What an operator's log says of processes that ended."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from rlcm_serve.engine.clients.cause import cause_of_death

FORK = multiprocessing.get_context("fork")
CORE = "(EngineCore pid=71)"
LOGGED = f"""\
{CORE} INFO 11-23 18:27:42 [core.py:380] init engine took 0.44 s
{CORE} ERROR 11-23 18:28:01 [core.py:1100] EngineCore encountered a fatal error.
{CORE} ERROR 11-23 18:28:01 [core.py:1100] Traceback (most recent call last):
{CORE} ERROR 11-23 18:28:01 [core.py:1100]   File "core.py", line 3, in step
{CORE} ERROR 11-23 18:28:01 [core.py:1100] RuntimeError: no block is free
(MainProcess pid={os.getpid()}) ERROR 11-23 18:28:01 [async_llm.py:7] the core has died
"""


def started(what: Callable[[], object]) -> BaseProcess:
    process = FORK.Process(target=what, name="EngineCore")
    process.start()
    return process


def ended(what: Callable[[], object]) -> BaseProcess:
    process = started(what)
    process.join()
    return process


def kill_self() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def exit_with_seven() -> None:
    os._exit(7)


@pytest.mark.parametrize(
    ("what", "said"),
    [
        (kill_self, "was ended by SIGKILL (the kernel does so when memory runs out)"),
        (exit_with_seven, "exited with status 7"),
    ],
)
def test_the_exit_of_a_process_is_named(what: Callable[[], object], said: str) -> None:
    process = ended(what)
    assert cause_of_death([process], None) == f"EngineCore (process {process.pid}) {said}"


def test_the_last_errors_of_the_others_are_quoted(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    log.write_text(LOGGED)
    cause = cause_of_death([ended(exit_with_seven)], log)
    assert "exited with status 7; vLLM's last errors: EngineCore encountered" in cause
    assert "a fatal error. | RuntimeError: no block is free; its output is in" in cause
    assert "the core has died" not in cause, "this process knows only that"
    assert "Traceback" not in cause
    assert str(log) in cause


def test_without_an_error_the_last_line_is_quoted(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    first, *_, own = LOGGED.splitlines()
    log.write_text(f"{first}\nterminate called after throwing\n\n{own}\n")
    assert "logged no error: its last line is 'terminate called" in cause_of_death([], log)


def test_a_progress_bar_is_not_the_last_line(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    bar = "(EngineCore pid=7) \rLoading safetensors checkpoint shards: 100% Completed | 1/1 "
    log.write_text(f"terminate called after throwing\n{bar}[00:00<00:00, 120.28it/s]\n\n")
    assert "logged no error: its last line is 'terminate called" in cause_of_death([], log)


def test_a_long_message_is_cut_and_a_lost_log_is_no_error(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    assert "vLLM has stopped running; vLLM logged no error; " in cause_of_death([], log)
    log.write_text(LOGGED.replace("no block", "no block" * 20_000))
    assert len(cause_of_death([], log)) < 1000


def test_a_process_that_still_runs_is_not_waited_for_long() -> None:
    process = started(signal.pause)
    began = time.monotonic()
    assert cause_of_death([process], None) == "vLLM has stopped running"
    assert time.monotonic() - began >= 1, "it had its time to end"
    process.kill()
    process.join()
    process.close()
    assert cause_of_death([process], None) == "vLLM has stopped running"
