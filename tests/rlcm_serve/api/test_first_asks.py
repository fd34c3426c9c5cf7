"""A question that is asked again: what a client of the service is promised then."""

import asyncio
import json
import re
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

from rlcm_serve.api.wire.headers import HEADER
from rlcm_serve.core import Question
from rlcm_serve.errors import WorkerFailed
from rlcm_serve.settings import Settings
from rlcm_serve.solving import first_asks
from rlcm_serve.solving.unanswered import digest_of_ask
from rlcm_serve.store.caller import Scope
from tests.rlcm_serve.api.serving import PROBLEM, THROUGH_RAY, Running
from tests.rlcm_serve.scripted_engine import Script, ScriptedEngine

DECLINES = Script(c_end=0.2)
ANSWERS = Script(c_end=0.6)
SAID = "the question was asked before and not answered"


@asynccontextmanager
async def served(certified: Path, *scripts: Script, **settings: Any) -> AsyncIterator[Running]:
    """The app, with its database beside the certificate."""
    chosen = Settings(state=certified.parent, **settings)
    running = Running(ScriptedEngine(*scripts), certified.parent, [certified], chosen)
    async with running.app.router.lifespan_context(running.app), running.client:
        await running.until_settled()
        yield running
    running.context.database.close()


async def chat(running: Running, text: str = PROBLEM, **changes: Any) -> dict[str, Any]:
    turns = [{"role": "user", "content": text}]
    body = {"model": "scripted", "messages": turns} | changes
    response = await running.client.post("/v1/chat/completions", json=body)
    assert response.status_code == 200, response.text
    answered: dict[str, Any] = response.json()
    return answered


async def guaranteed(running: Running, **changes: Any) -> bool:
    response = await running.solve(**changes)
    assert response.status_code == 200, response.text
    assert (response.headers[HEADER] == "none") == (response.json()["guarantee"] is None)
    return response.json()["guarantee"] is not None


async def test_a_larger_alpha_after_an_abstention_comes_without_a_guarantee(
    certified: Path,
) -> None:
    async with served(certified, DECLINES, ANSWERS) as running:
        first = (await running.solve()).json()
        second = await running.solve(alpha=0.2)
    assert (first["answer"], first["guarantee"]["alpha_certified"]) == (None, 0.1)
    body = second.json()
    assert (body["answer"], body["guarantee"], body["saved"]) == ("7", None, None)
    assert second.headers[HEADER] == "none"
    assert re.fullmatch(
        SAID + r" \(\d{4}-\d\d-\d\d \d\d:\d\d UTC\): a guarantee is for the first ask of a "
        r"question, because questions on which the service abstained are harder than the average; "
        r"ask once, with the largest alpha that you accept; from \d{4}-\d\d-\d\d \d\d:\d\d UTC on "
        r"it counts as new",
        body["no_guarantee_reason"],
    )


async def test_retries_at_the_same_alpha_come_without_a_guarantee(certified: Path) -> None:
    async with served(certified, DECLINES, DECLINES, ANSWERS, ANSWERS) as running:
        promised = [await guaranteed(running) for _ in range(4)]
    assert promised == [True, False, False, False]


async def test_a_question_that_was_answered_may_be_asked_again(certified: Path) -> None:
    async with served(certified, ANSWERS) as running:
        assert [await guaranteed(running) for _ in range(3)] == [True] * 3


async def test_a_question_is_recognised_with_other_spaces_and_through_other_routes(
    certified: Path,
) -> None:
    async with served(certified, DECLINES, ANSWERS) as running:
        declined = await chat(running)
        assert declined["rlcm"]["guarantee"] is not None
        spaced = await running.solve(problem=f"  {PROBLEM.replace(' ', '  ')}\n")
        again = await chat(running, alpha=0.2)
        other = await running.solve(problem=PROBLEM.upper())
    assert spaced.json()["no_guarantee_reason"].startswith(SAID)
    assert again["rlcm"]["guarantee"] is None
    assert again["rlcm"]["no_guarantee_reason"].startswith(SAID)
    assert again["rlcm"]["no_guarantee_code"] == "asked_before"
    assert other.json()["guarantee"] is not None, "other letters are another question"


async def test_streams_say_so_from_their_first_event(certified: Path) -> None:
    async with served(certified, DECLINES, ANSWERS) as running:
        await running.solve()
        body = {"problem": PROBLEM, "alpha": 0.2, "stream": True}
        async with running.client.stream("POST", "/solve", json=body) as response:
            lines = [line async for line in response.aiter_lines()]
    start, *_, done = [json.loads(line[6:]) for line in lines if line.startswith("data: ")]
    assert response.headers[HEADER] == "none"
    assert start["guarantee"] is done["guarantee"] is None
    assert start["no_guarantee_reason"].startswith(SAID)


@pytest.mark.skipif(THROUGH_RAY, reason="through a proxy the second ask may come after the first")
async def test_of_two_asks_at_once_only_one_has_a_guarantee(certified: Path) -> None:
    async with served(certified, ANSWERS) as running:
        both = await asyncio.gather(running.solve(), running.solve(alpha=0.2))
        answers = [response.json() for response in both]
    earlier, later = sorted(answers, key=lambda answer: answer["guarantee"] is None)
    assert earlier["guarantee"] is not None
    assert later["guarantee"] is None
    assert later["no_guarantee_reason"].startswith("another ask of the same question is still")


async def test_a_client_that_leaves_or_runs_out_of_time_has_asked(certified: Path) -> None:
    async with served(certified, Script(stays=True), ANSWERS) as running:
        response = await running.solve(timeout_s=0.1)
        problem = response.json()
        assert response.status_code == 504
        assert problem["guarantee"] is None
        assert (
            "it is not an abstention of the certified procedure" in problem["no_guarantee_reason"]
        )
        assert not await guaranteed(running)


async def test_a_question_that_was_cut_while_it_waited_was_not_asked(certified: Path) -> None:
    async with served(certified, ANSWERS, max_running=1) as running:
        running.engine.hold(1)
        first = asyncio.create_task(running.solve(problem="Another 7", timeout_s=0.5))
        await running.engine.all_held.wait()
        response = await running.solve(timeout_s=0.1)
        assert response.status_code == 504
        assert "no_guarantee_reason" not in response.json()
        running.engine.hold(0)
        await first
        assert await guaranteed(running)


async def test_a_failure_of_the_service_is_no_ask(certified: Path) -> None:
    async with served(certified, ANSWERS) as running:
        running.engine.hold(1)
        asking = asyncio.create_task(running.solve())
        await running.engine.all_held.wait()
        running.engine.kill()
        assert (await asking).status_code == 503
        assert stored(running) == []


async def test_answers_that_stop_the_process_that_compares_them_count_as_an_ask(
    certified: Path,
) -> None:
    async with served(certified, ANSWERS) as running:
        prepared = running.context.service.solver.prepare(Question(PROBLEM, alpha=0.1))
        digest = digest_of_ask(prepared.terms.asked)
        with pytest.raises(WorkerFailed):
            async with running.context.first_asks.ask(prepared, digest):
                raise WorkerFailed("the process that compares answers was killed")
        assert not await guaranteed(running)


async def test_a_locked_database_costs_an_abstention_neither_its_answer_nor_a_place(
    certified: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The questions have a second and one place; each write waits for two, all together."""
    monkeypatch.setattr(first_asks, "PATIENCE", 2.0)
    async with served(certified, DECLINES, max_running=1) as running:
        await running.solve(problem="Unlocked")
        with closing(sqlite3.connect(certified.parent / "rlcm.db", isolation_level=None)) as lock:
            lock.execute("BEGIN IMMEDIATE")
            asked = (running.solve(problem=f"Dial {n}", timeout_s=1) for n in range(4))
            found = await asyncio.gather(*asked)
            lock.execute("ROLLBACK")
    assert [(one.status_code, one.json()["abstained"]) for one in found] == [(200, True)] * 4


def stored(running: Running) -> list[tuple[Any, ...]]:
    """The rows of unanswered questions."""
    with running.context.database.reading() as session:
        rows = session.connection().exec_driver_sql("SELECT * FROM rlcm_unanswered").all()
    return [tuple(row) for row in rows]


async def test_what_no_guarantee_covers_is_remembered_if_it_is_declined(certified: Path) -> None:
    async with served(certified, DECLINES, ANSWERS) as running:
        assert not await guaranteed(running, temperature=0.1)
        declined = (await running.solve()).json()
    assert declined["no_guarantee_reason"].startswith(SAID)


async def test_each_key_has_a_memory_of_its_own(certified: Path) -> None:
    async with served(certified, DECLINES, ANSWERS, auth="on") as running:
        keys = [running.context.keys.create(name, [Scope.SOLVE])[0] for name in ("a", "b")]
        one, other = ({"Authorization": f"Bearer {key}"} for key in keys)
        body = {"problem": PROBLEM, "alpha": 0.1}
        replies = [
            await running.client.post("/solve", json=body, headers=headers)
            for headers in (one, other, one)
        ]
    assert [reply.json()["guarantee"] is not None for reply in replies] == [True, True, False]


async def test_it_outlives_a_restart_and_ends_with_its_time(certified: Path) -> None:
    async with served(certified, DECLINES) as running:
        await running.solve()
    database = certified.parent / "rlcm.db"
    assert database.exists()
    async with served(certified, ANSWERS) as running:
        assert not await guaranteed(running)
    with closing(sqlite3.connect(database)) as stored, stored:
        stored.execute("UPDATE rlcm_unanswered SET asked = asked - 3600")
    async with served(certified, ANSWERS, unanswered_s=3500) as running:
        assert await guaranteed(running)


async def test_no_text_of_a_question_is_stored(certified: Path) -> None:
    async with served(certified, DECLINES) as running:
        await running.solve()
        rows = stored(running)
    assert [(len(digest), key) for digest, key, _ in rows] == [(32, "")]


async def test_nobody_is_promised_anything_while_the_memory_cannot_be_read(
    certified: Path,
) -> None:
    async with served(certified, ANSWERS) as running:
        (certified.parent / "rlcm.db").rename(certified.parent / "away.db")
        response = await running.solve()
        (certified.parent / "away.db").rename(certified.parent / "rlcm.db")
        assert await guaranteed(running)
    assert (response.status_code, response.json()["answer"]) == (200, "7")
    assert response.json()["no_guarantee_reason"] == (
        "nobody knows whether the service abstained before, because the database file was "
        "removed while the service was running: ask again later"
    )


async def test_what_cannot_be_stored_is_remembered_by_the_process(certified: Path) -> None:
    async with served(certified, DECLINES, ANSWERS, database_wait_s=0.05) as running:
        with closing(sqlite3.connect(certified.parent / "rlcm.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            assert (await running.solve()).json()["answer"] is None
            assert not await guaranteed(running)
        assert not await guaranteed(running)
