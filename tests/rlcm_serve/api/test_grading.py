"""References of labels that take long to grade: who waits for them, and who does not."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from rlcm_serve.admission import Tenant
from rlcm_serve.answers.grader import AnswerGrader
from rlcm_serve.api.monitoring import grading
from rlcm_serve.api.monitoring.grading import Grading
from rlcm_serve.errors import NotReady
from rlcm_serve.settings import Settings
from rlcm_serve.store.caller import Scope
from tests.rlcm_serve.api.serving import PATIENCE, Running, serving

pytestmark = pytest.mark.anyio
SLOW = "9^{9^{9^9}}+i"


class Held:
    """Comparisons with `SLOW` that take until `release`."""

    def __init__(self) -> None:
        self.began, self.release = threading.Event(), threading.Event()
        self.by: list[AnswerGrader] = []

    def equal(self, grader: AnswerGrader, answer: str, other: str) -> bool:
        if other == SLOW:
            self.by.append(grader)
            self.began.set()
            assert self.release.wait(PATIENCE)
        return answer == other


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[Held]:
    found = Held()
    monkeypatch.setattr(AnswerGrader, "equal", lambda *args: found.equal(*args))
    yield found
    found.release.set()


async def post(running: Running, key: str, id_: str, reference: str) -> httpx.Response:
    labels = [{"id": id_, "reference": reference}]
    return await running.client.post(
        "/feedback", json={"answers": labels}, headers={"X-API-Key": key}
    )


async def test_slow_references_of_one_key_hold_up_no_votes_and_no_other_key(
    tmp_path: Path, held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grading, "MOST_WAITING", 12)
    settings = Settings(state=tmp_path, auth="on", audit_share=1, audit_texts=True)
    async with serving(settings=settings) as running:
        scopes = [Scope.SOLVE, Scope.LABEL]
        slow, other = (running.context.keys.create(name, scopes)[0] for name in ("slow", "other"))
        body = {"problem": "A dial shows 4.", "alpha": 0.1, "on_infeasible": "full_budget"}

        async def solved() -> Any:
            answer = await running.client.post("/solve", json=body, headers={"X-API-Key": other})
            assert answer.status_code == 200, answer.text
            return answer.json()["id"]

        id_ = await solved()
        sent = [asyncio.create_task(post(running, slow, id_, SLOW)) for _ in range(14)]
        await asyncio.to_thread(held.began.wait, PATIENCE)
        async with asyncio.timeout(PATIENCE):
            await solved()
            await asyncio.to_thread(str)  # a vote would wait for such a thread
            assert (await post(running, other, id_, "7")).json()["labelled"] == 1
            unknown = await post(running, slow, "nothing", SLOW)  # needs no grading
        assert unknown.json()["unknown"] == ["nothing"]
        assert len(held.by) == 1, "one request of a key at a time"
        assert running.context.service.grader not in held.by
        done, _ = await asyncio.wait(sent, return_when=asyncio.FIRST_COMPLETED, timeout=PATIENCE)
        (refused,) = [one.result() for one in done]
        assert (refused.status_code, int(refused.headers["retry-after"]) > 0) == (429, True)
        held.release.set()
        statuses = [one.status_code for one in await asyncio.gather(*sent)]
    assert sorted(statuses) == [200] * 13 + [429]


async def test_what_waits_ends_with_the_service(held: Held) -> None:
    one = Grading()

    def work(grader: AnswerGrader) -> bool:
        return grader.equal("7", SLOW)

    tasks = [asyncio.create_task(one.run(Tenant("key"), work)) for _ in range(2)]
    await asyncio.to_thread(held.began.wait, PATIENCE)
    one.close()
    with pytest.raises(NotReady):
        await tasks[1]
    held.release.set()
    assert not await tasks[0]
