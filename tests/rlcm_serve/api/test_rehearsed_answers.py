"""How answers are replayed and compared: beside the answering, and without choosing among them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from rlcm_serve.api.monitoring import comparisons, replays
from rlcm_serve.errors import DatabaseRefused, WorkerFailed
from tests.rlcm_serve.api.serving import PATIENCE, Running, serving
from tests.rlcm_serve.api.test_rehearsals import (
    CANDIDATE,
    DECLINES,
    STOPS_EARLY,
    ask,
    rehearsed,
    said,
    settings,
    until_running,
)

pytestmark = pytest.mark.anyio


async def call_right(running: Running, *ids: str) -> None:
    labels = [{"id": one, "right": True} for one in ids]
    await running.client.post("/feedback", json={"answers": labels})


async def test_an_answer_does_not_wait_for_its_replay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right, goes_on, threads = replays.replayed, threading.Event(), []

    def slow(*args: Any) -> Any:
        threads.append(threading.get_ident())
        goes_on.wait(PATIENCE)
        return right(*args)

    monkeypatch.setattr(replays, "replayed", slow)
    async with serving(STOPS_EARLY, settings=settings(tmp_path)) as running:
        await until_running(running)
        async with asyncio.timeout(PATIENCE / 2):
            await ask(running, 1)
            while not threads:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        goes_on.set()
        assert (await rehearsed(running, saved=1))["questions"] == 1
    assert threads != [threading.get_ident()]


async def test_a_replay_that_fails_is_logged_and_loses_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    right = replays.replayed

    def wrong(*args: Any) -> Any:
        raise ZeroDivisionError("a mistake of ours")

    async with serving(STOPS_EARLY, settings=settings(tmp_path)) as running:
        await until_running(running)
        monkeypatch.setattr(replays, "replayed", wrong)
        first = await ask(running, 1)
        assert first in await said(caplog, "is not rehearsed")
        monkeypatch.setattr(replays, "replayed", right)
        await ask(running, 2)
        assert (await rehearsed(running, saved=1))["questions"] == 1


async def test_an_answer_without_a_place_counts_in_no_figure_that_needs_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it is declined, which no comparison is needed for."""
    async with serving(DECLINES, settings=settings(tmp_path)) as running:
        await until_running(running)
        with monkeypatch.context() as full:
            full.setattr(comparisons, "MOST_HELD", 0)
            without = await ask(running, 1)
        await call_right(running, without, await ask(running, 2))
        level = await rehearsed(running, lost=1)
    assert (level["questions"], level["answered"]["of"]) == (2, 2)


async def test_a_comparison_that_fails_is_missing_and_frees_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Fails:
        async def classes_async(self, answers: Sequence[str | None]) -> list[int]:
            raise WorkerFailed("the grader hung")

    monkeypatch.setattr(comparisons, "MOST_HELD", 1)
    async with serving(STOPS_EARLY, settings=settings(tmp_path)) as running:
        await until_running(running)
        with monkeypatch.context() as broken:
            broken.setattr(comparisons, "verdicts_of", lambda *_: Fails())
            first = await ask(running, 1)
            said_of_it = await said(caplog, f"the comparison of {first} gave no result")
            assert "the grader hung" in said_of_it
        await call_right(running, first, await ask(running, 2))
        async with asyncio.timeout(PATIENCE):
            while (level := await rehearsed(running, lost=2))["missing"] != 1:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    assert (level["lost"]["value"], level["wrong"]["value"]) == (1, 1)
    assert level["lost"]["low"] < 0.1, "at best one of two was lost"


async def test_what_is_compared_is_stored_once_the_database_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rlcm_serve.solving.shadow.background.PAUSE", 0.01)
    async with serving(STOPS_EARLY, settings=settings(tmp_path)) as running:
        await until_running(running)
        assert running.context.rehearsals is not None
        stored = running.context.rehearsals.stored
        right, tries = stored.compared, 0

        def refuses_twice(*args: Any) -> None:
            nonlocal tries
            tries += 1
            if tries < 3:
                raise DatabaseRefused("the disk is gone", "the disk is gone")
            right(*args)

        monkeypatch.setattr(stored, "compared", refuses_twice)
        await call_right(running, await ask(running, 1))
        async with asyncio.timeout(PATIENCE):
            while (await rehearsed(running, lost=1))["missing"]:  # noqa: ASYNC110
                await asyncio.sleep(0.01)


async def test_a_certificate_is_not_activated_where_its_figures_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*_: Any) -> None:
        raise DatabaseRefused("the disk is gone", "the disk is gone")

    async with serving(STOPS_EARLY, settings=settings(tmp_path)) as running:
        await until_running(running)
        assert running.context.rehearsals is not None
        monkeypatch.setattr(running.context.rehearsals.stored, "levels", refuses)
        done = await running.client.post(f"/certificates/{CANDIDATE.id}/activate")
        assert done.status_code == 503
        assert (await running.solve(problem="Dial 1?")).json()["guarantee"] is None
