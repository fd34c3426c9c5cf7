"""Clients that leave and ask again, and clients that guess the idempotency keys of others."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from rlcm_serve.settings import Settings
from rlcm_serve.store.caller import Scope
from tests.rlcm_serve.api.serving import PROBLEM, Running
from tests.rlcm_serve.scripted_engine import Script
from tests.service.listening import listening

pytestmark = pytest.mark.attack

QUESTION = {"problem": PROBLEM, "alpha": 0.1}
MINE = {"Idempotency-Key": "mine"}


@pytest.fixture
def service(tmp_path: Path) -> Iterator[tuple[str, Running]]:
    settings = Settings(state=tmp_path, auth="on")
    with listening(tmp_path, Script(c_end=0.6), settings=settings) as served:
        yield served


def client_of(service: tuple[str, Running], name: str) -> httpx.Client:
    url, running = service
    key, _ = running.context.keys.create(name, [Scope.SOLVE])
    return httpx.Client(base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=20)


@pytest.mark.parametrize("stream", [False, True])
def test_who_leaves_and_asks_again_gets_the_one_answer(
    service: tuple[str, Running], stream: bool
) -> None:
    engine, body = service[1].engine, QUESTION | {"stream": stream}
    with client_of(service, "impatient") as client:
        engine.hold(1)
        for _ in range(3):
            with suppress(httpx.ReadTimeout):
                repeat = client.post("/solve", json=body, headers=MINE, timeout=0.5)
                assert repeat.status_code == 409
        assert (engine.thinking, engine.aborted) == (1, 0), "it goes on"
        engine.held = 0
        loop = engine.killed._loop  # type: ignore[attr-defined]
        loop.call_soon_threadsafe(engine.killed.set)
        deadline = time.monotonic() + 10
        while (answer := client.post("/solve", json=body, headers=MINE)).status_code == 409:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    assert answer.headers["idempotent-replayed"] == "true"
    assert '"answer":"7"' in answer.text
    assert len(engine.policies) == 1


def test_the_same_key_of_another_caller_is_another_request(service: tuple[str, Running]) -> None:
    with client_of(service, "me") as me, client_of(service, "other") as other:
        mine = me.post("/solve", json=QUESTION | {"return_trace": True}, headers=MINE)
        for body in (QUESTION, QUESTION | {"return_trace": True}):
            theirs = other.post("/solve", json=body, headers=MINE)
            if body == QUESTION:
                assert theirs.status_code == 200, "nor a 422, which would tell that it exists"
                assert "idempotent-replayed" not in theirs.headers
            else:
                assert theirs.status_code == 422
        assert me.post("/solve", json=QUESTION | {"return_trace": True}, headers=MINE).content == (
            mine.content
        )


def test_a_crowd_with_one_key_pays_once(service: tuple[str, Running]) -> None:
    engine = service[1].engine
    with client_of(service, "crowd") as client, ThreadPoolExecutor(32) as crowd:
        posts = [
            crowd.submit(client.post, "/solve", json=QUESTION, headers=MINE) for _ in range(64)
        ]
        statuses = {post.result().status_code for post in posts}
    assert statuses <= {200, 409}
    assert len(engine.policies) == 1
