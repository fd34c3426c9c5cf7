"""What becomes of work that nobody waits for."""

from __future__ import annotations

import asyncio

import pytest

from rlcm_serve.errors import DatabaseRefused
from rlcm_serve.solving.shadow import background
from rlcm_serve.solving.shadow.background import BackgroundTasks, attempt, stored


async def fails(error: Exception) -> None:
    async with attempt("the run", 60):
        raise error


@pytest.mark.parametrize(
    ("error", "why"),
    [(ValueError("no answer"), "no answer"), (TimeoutError(), "TimeoutError")],
)
async def test_a_failure_is_logged_with_its_reason(
    error: Exception, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    await fails(error)
    assert caplog.messages == [f"the run gave no result: {why}"]


async def test_what_takes_too_long_says_so(caplog: pytest.LogCaptureFixture) -> None:
    async with attempt("the run", 0.01):
        await asyncio.Event().wait()
    assert caplog.messages == ["the run gave no result: it took over 0.01 s"]


async def test_a_task_that_the_stop_ends_stores_what_it_knows(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stored: list[str] = []

    async def run() -> None:
        async with attempt("the run", 60):
            await asyncio.Event().wait()
        await asyncio.sleep(0)
        stored.append("missing")

    tasks = BackgroundTasks()
    tasks.start(run())
    await asyncio.sleep(0)
    await tasks.close()
    assert stored == ["missing"]
    assert not caplog.messages


@pytest.mark.parametrize("tries", [1, 3, 4])
async def test_what_is_not_stored_is_tried_again_for_some_time(
    tries: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(background, "PAUSE", 0.0)
    monkeypatch.setattr(background, "TRIES", 3)
    made = 0

    async def write() -> bool:
        nonlocal made
        made += 1
        if made == 2:
            raise DatabaseRefused("the disk is gone", "the disk is gone")
        return made == tries

    await stored(write, "the run")
    assert made == min(tries, 3)
    assert caplog.messages == (["the run was not stored"] if tries > 3 else [])
