"""`Idempotency-Key`: a repeated request is answered with the first response, and costs nothing."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.datastructures import Headers

from calibration import FULL_BUDGET
from rlcm_serve.api.idempotency.header import HEADER, LONGEST, digest_of, key_in
from rlcm_serve.api.idempotency.kept import SHARE, KeptResponses, Place, Response
from rlcm_serve.errors import KeyReused, RequestRefused, StillRunning
from tests.rlcm_serve.api.serving import PROBLEM, THROUGH_RAY, Running, serving
from tests.rlcm_serve.jobs.problem_engine import SCRIPTS
from tests.rlcm_serve.scripted_engine import Script, certificate

QUESTION = {"problem": PROBLEM, "alpha": 0.1}
CHAT = {"model": "scripted", "messages": [{"role": "user", "content": PROBLEM}]}
RESPONSE = {"model": "scripted", "input": PROBLEM}
BODIES = {"/solve": QUESTION, "/v1/chat/completions": CHAT, "/v1/responses": RESPONSE}
REPLAYED = "idempotent-replayed"


@pytest.fixture
async def ready() -> AsyncIterator[Running]:
    async with serving(Script(c_end=0.6)) as running:
        yield running


async def ask(
    running: Running, body: dict[str, Any], key: str = "one", path: str = "/solve"
) -> httpx.Response:
    return await running.client.post(path, json=body, headers={HEADER: key})


def events(text: str) -> list[str]:
    return [part for part in text.split("\n\n") if part]


async def test_a_repeat_gets_the_first_response_and_generates_nothing(ready: Running) -> None:
    first, repeat = await ask(ready, QUESTION), await ask(ready, QUESTION)
    assert (first.status_code, repeat.status_code) == (200, 200)
    assert repeat.content == first.content
    assert (first.headers.get(REPLAYED), repeat.headers[REPLAYED]) == (None, "true")
    assert repeat.headers["x-request-id"] != first.headers["x-request-id"]
    assert len(ready.engine.policies) == 1


async def test_a_guarantee_that_no_longer_stands_is_not_given_again(tmp_path: Path) -> None:
    made = certificate({0.1: FULL_BUDGET})
    made.save(tmp_path / "one.json")
    async with serving(Script(c_end=0.6), certificates=[tmp_path / "one.json"]) as ready:
        first, repeat = await ask(ready, QUESTION), await ask(ready, QUESTION)
        assert first.json()["guarantee"]["certificate"] == made.id
        assert repeat.content == first.content
        await ready.client.post(f"/certificates/{made.id}/deactivate")
        again = await ask(ready, QUESTION)
        assert REPLAYED not in again.headers
        assert again.json()["guarantee"] is None


async def test_without_a_key_or_with_another_one_it_is_a_new_question(ready: Running) -> None:
    await ask(ready, QUESTION)
    await ask(ready, QUESTION, key="two")
    await ready.solve()
    assert len(ready.engine.policies) == 3


async def test_a_key_belongs_to_one_route(ready: Running) -> None:
    await ask(ready, QUESTION)
    chat = await ask(ready, CHAT, path="/v1/chat/completions")
    repeat = await ask(ready, CHAT, path="/v1/chat/completions")
    assert (chat.status_code, repeat.content) == (200, chat.content)
    assert len(ready.engine.policies) == 2


@pytest.mark.parametrize("path", BODIES)
async def test_another_body_under_the_key_is_422(ready: Running, path: str) -> None:
    body = BODIES[path]
    await ask(ready, body, path=path)
    refused = await ask(ready, body | {"alpha": 0.2}, path=path)
    assert refused.status_code == 422
    problem = refused.json() if path == "/solve" else refused.json()["error"]["rlcm"]
    assert problem["type"] == "urn:rlcm:problem:idempotency-key-reused"
    assert len(ready.engine.policies) == 1


@pytest.mark.parametrize("path", BODIES)
async def test_a_repeat_of_a_running_request_is_409(ready: Running, path: str) -> None:
    body = BODIES[path]
    ready.engine.hold(1)
    first = asyncio.create_task(ask(ready, body, path=path))
    await ready.engine.all_held.wait()
    repeat = await ask(ready, body, path=path)
    assert repeat.status_code == 409
    assert int(repeat.headers["retry-after"]) > 0
    assert "x-should-retry" not in repeat.headers, "OpenAI's clients shall retry it"
    assert (await ask(ready, body | {"alpha": 0.2}, path=path)).status_code == 422
    ready.engine.held = 0
    ready.engine.killed.set()
    assert (await first).status_code == 200
    assert (await ask(ready, body, path=path)).content == first.result().content
    assert len(ready.engine.policies) == 1


async def test_a_repeated_stream_gets_its_start_and_its_end(ready: Running) -> None:
    asked = QUESTION | {"stream": True, "stream_tokens": True}
    first, repeat = await ask(ready, asked), await ask(ready, asked)
    told = events(first.text)
    assert len(told) > 4
    assert events(repeat.text) == [told[0], told[-1]]
    assert told[-1].startswith("event: done\n")
    assert repeat.headers["content-type"] == first.headers["content-type"]


async def test_a_repeated_chat_stream_gets_all_but_the_thinking(ready: Running) -> None:
    asked = CHAT | {"stream": True, "stream_options": {"include_usage": True}}
    first = await ask(ready, asked, path="/v1/chat/completions")
    repeat = await ask(ready, asked, path="/v1/chat/completions")
    told = events(first.text)
    kept = [one for one in told if '"reasoning":' not in one or '"rlcm":' in one]
    assert len(kept) < len(told)
    assert events(repeat.text) == kept
    assert kept[-1] == "data: [DONE]"


async def test_a_repeated_response_gets_all_but_the_deltas_of_the_thinking(ready: Running) -> None:
    asked = RESPONSE | {"stream": True}
    first = await ask(ready, asked, path="/v1/responses")
    repeat = await ask(ready, asked, path="/v1/responses")
    told = events(first.text)
    kept = [one for one in told if not one.startswith("event: response.reasoning_text.delta")]
    assert len(kept) < len(told)
    assert events(repeat.text) == kept
    assert kept[-1].startswith("event: response.completed\n")
    assert len(ready.engine.policies) == 1


async def test_what_failed_may_be_asked_again(ready: Running) -> None:
    bad = await ask(ready, QUESTION | {"alpha": 1.5})
    assert bad.status_code == 422
    assert (await ask(ready, QUESTION)).status_code == 200, "nothing was kept"
    late = QUESTION | {"timeout_s": 0.05}
    ready.engine.hold(1)
    assert (await ask(ready, late, key="late")).status_code == 504
    stream = await ask(ready, late | {"stream": True}, key="stream")
    assert events(stream.text)[-1].startswith("event: error\n")
    ready.engine.held = 0
    ready.engine.killed.set()
    assert (await ask(ready, late, key="late")).status_code == 200
    stream = await ask(ready, late | {"stream": True}, key="stream")
    assert events(stream.text)[-1].startswith("event: done\n")


BLANK = pytest.param(" ", marks=pytest.mark.skipif(THROUGH_RAY, reason="no HTTP client sends it"))


@pytest.mark.parametrize("key", ["", BLANK, '""', "x" * (LONGEST + 1), "ключ".encode()])
async def test_a_key_must_be_some_ascii(ready: Running, key: str | bytes) -> None:
    headers = {HEADER.encode(): key if isinstance(key, bytes) else key.encode()}
    response = await ready.client.post("/solve", json=QUESTION, headers=headers)
    assert response.status_code == 422
    assert response.json()["errors"][0]["field"] == HEADER


def test_quotation_marks_do_not_count_and_two_keys_are_refused() -> None:
    def shown(*values: bytes) -> Headers:
        return Headers(raw=[(HEADER.lower().encode(), value) for value in values])

    assert key_in(shown()) is None
    assert key_in(shown(b"abc")) == key_in(shown(b'"abc"')) == "abc"
    assert key_in(shown(b'"a\\"b\\\\c"')) == 'a"b\\c'
    with pytest.raises(RequestRefused, match="2 Idempotency-Key"):
        key_in(shown(b"a", b"b"))


def test_digests_of_other_parts_differ() -> None:
    assert digest_of(b"ab", b"c") != digest_of(b"a", b"bc")
    assert digest_of(b"") != digest_of()


class Shelves:
    """Kept responses with a clock, and what was told of them."""

    def __init__(self, seconds: float = 10, max_bytes: int = 2**20) -> None:
        self.now = 0.0
        self.told: list[str] = []
        self.kept = KeptResponses(seconds, max_bytes, self.told.append, lambda: self.now)

    def keep(self, name: str, body: bytes = b"", caller: str = "k", digest: str = "d") -> None:
        assert self.kept.begin(Place(caller, name), digest) is None
        self.kept.end(Place(caller, name), Response(200, (), body))

    def has(self, name: str, caller: str = "k", digest: str = "d") -> bool:
        place = Place(caller, name)
        if self.kept.begin(place, digest) is not None:
            return True
        self.kept.end(place, None)
        return False


def test_a_response_is_kept_for_its_time() -> None:
    shelves = Shelves(seconds=10)
    shelves.keep("a", b"x")
    shelves.now = 9.9
    assert shelves.has("a")
    shelves.now = 10
    assert not shelves.has("a")
    assert shelves.kept.size == 0
    assert shelves.told == ["answered", "replayed", "failed"]


def test_a_caller_never_sees_what_is_kept_for_another() -> None:
    shelves = Shelves()
    shelves.keep("a", caller="k")
    assert not shelves.has("a", caller="other")
    assert not shelves.has("a", caller="other", digest="another body"), "nor that it exists"


def test_running_and_reused_are_told_apart() -> None:
    shelves = Shelves()
    place = Place("k", "a")
    shelves.kept.begin(place, "d")
    with pytest.raises(StillRunning):
        shelves.kept.begin(place, "d")
    with pytest.raises(KeyReused):
        shelves.kept.begin(place, "e")
    shelves.kept.end(place, Response(200, (), b""))
    with pytest.raises(KeyReused):
        shelves.kept.begin(place, "e")
    assert shelves.told == ["running", "reused", "answered", "reused"]


def test_memory_is_bounded_and_one_caller_displaces_only_its_own() -> None:
    most = 400_000
    shelves = Shelves(max_bytes=most)
    shelves.keep("mine", b"x" * 1000, caller="me")
    for number in range(1000):
        shelves.keep(f"{number}", b"y" * 9000, caller="flood")
        assert shelves.kept.size <= most // SHARE + 3000
    assert shelves.has("mine", caller="me")
    assert shelves.has("999", caller="flood")
    assert not shelves.has("900", caller="flood")
    for other in range(2 * SHARE):  # more callers than have a full share
        for number in range(20):
            shelves.keep(f"{number}", b"y" * 9000, caller=f"c{other}")
        assert shelves.kept.size <= most
    assert shelves.has("mine", caller="me")


def test_what_was_answered_or_begun_before_is_forgotten() -> None:
    shelves = Shelves()
    shelves.keep("a")
    begun, later = Place("k", "b"), Place("k", "c")
    shelves.kept.begin(begun, "d")
    shelves.kept.forget()
    shelves.kept.begin(later, "d")
    for place in (begun, later):
        shelves.kept.end(place, Response(200, (), b""))
    assert [shelves.has(name) for name in "abc"] == [False, False, True]
    assert shelves.told[:4] == ["answered", "displaced", "answered", "displaced"]


def test_a_response_that_is_too_large_is_not_kept() -> None:
    shelves = Shelves(max_bytes=SHARE * 4000)
    shelves.keep("small", b"x")
    shelves.keep("large", b"x" * 4000)
    assert not shelves.has("large")
    assert shelves.has("small")


def lines(count: int = 40) -> bytes:
    rows = [{"id": f"p{n}", "problem": f"Problem {n}", "answer": "7"} for n in range(count)]
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


async def post(
    running: Running, content: bytes, key: str | None = "one", **query: Any
) -> httpx.Response:
    headers = {"content-type": "application/x-ndjson"} | ({} if key is None else {HEADER: key})
    return await running.client.post(
        "/calibrations", params={"alphas": 0.2} | query, content=content, headers=headers
    )


async def test_a_calibration_is_posted_once() -> None:
    async with serving(*SCRIPTS) as running:
        first, *others = await asyncio.gather(*(post(running, lines()) for _ in range(4)))
        assert [one.status_code for one in (first, *others)] == [202] * 4
        assert {one.json()["id"] for one in others} == {first.json()["id"]}
        assert others[0].headers["location"] == first.headers["location"]
        for content, query in ((lines(41), {}), (lines(), {"delta": 0.2})):
            assert (await post(running, content, **query)).status_code == 422
        assert (await post(running, lines(), key=None)).json()["id"] != first.json()["id"]
        jobs = (await running.client.get("/calibrations")).json()["calibrations"]
        assert len(jobs) == 2
