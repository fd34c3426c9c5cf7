"""What becomes of work that nobody waits for."""

from __future__ import annotations

import asyncio

import pytest

from rlcm_serve.solving.shadow.background import BackgroundTasks, attempt


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
