import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Annotated, Any

import httpx
import pytest
from fastapi import Depends, FastAPI, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rlcm_serve import core
from rlcm_serve.api import access
from rlcm_serve.api.access import (
    LONGEST_QUERY,
    MOST_HEADERS,
    AccessMiddleware,
    cap_question,
    require_admin,
    require_solve,
)
from rlcm_serve.api.error_responses import add_handlers
from rlcm_serve.core import Question
from rlcm_serve.errors import BodyTooLarge, RequestRefused
from rlcm_serve.settings import Settings
from rlcm_serve.store.caller import ANYONE, Caller, Limits
from rlcm_serve.store.caller import Scope as AccessScope
from rlcm_serve.store.database import Database
from rlcm_serve.store.keys import Keys
from tests.rlcm_serve.api.serving import detail_of, serving

SAID, LONG = (core.Message(core.Role.ASSISTANT, "a" * size) for size in (1, 3001))
OPEN = Settings()
CLOSED = Settings(auth="on", max_body_bytes=1000, max_upload_bytes=5000)


def toy(settings: Settings, keys: Keys) -> FastAPI:
    """One route of each kind behind the middleware."""
    app = FastAPI(docs_url=None, redoc_url=None)

    @app.post("/solve")
    async def solve(body: dict[str, Any], caller: Annotated[Caller, Depends(require_solve)]) -> Any:
        return {"key": caller.key_id, "body": body}

    @app.post("/v1/chat/completions")
    @app.post("/v1/responses")
    async def complete(body: dict[str, Any]) -> None: ...

    @app.post("/aggregate")
    async def aggregate(request: Request) -> dict[str, int]:
        return {"bytes": sum([len(part) async for part in request.stream()])}

    @app.delete("/keys")
    async def delete(caller: Annotated[Caller, Depends(require_admin)]) -> None: ...

    @app.get("/")
    @app.get("/health")
    @app.get("/readyz")
    @app.get("/metrics")
    async def show(request: Request) -> list[str]:
        return sorted(request.state.caller.scopes)

    add_handlers(app)
    app.add_middleware(AccessMiddleware, settings=settings, keys=keys)
    return app


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Sends back each part as it comes."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    more = True
    while more:
        message = await receive()
        more = message["more_body"]
        await send({"type": "http.response.body", "body": message["body"], "more_body": more})


@pytest.fixture
def keys(tmp_path: Path) -> Iterator[Keys]:
    database = Database(f"sqlite:///{tmp_path}/rlcm.db")
    yield Keys(database)
    database.close()


def client_of(app: FastAPI, **headers: str) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers)


@pytest.fixture
async def client(keys: Keys) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(toy(CLOSED, keys)) as opened:
        yield opened
    await keys.close()


def bearer(text: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {text}"}


async def test_without_keys_anyone_may_do_everything(keys: Keys) -> None:
    async with client_of(toy(OPEN, keys), **bearer("whatever the client sends")) as client:
        assert (await client.post("/solve", json={})).json()["key"] is None
        assert (await client.delete("/keys")).status_code == 200
        assert (await client.get("/metrics")).json() == ["admin", "label", "metrics", "solve"]


async def test_a_head_that_takes_long_to_read_is_refused(keys: Keys) -> None:
    async with client_of(toy(OPEN, keys)) as client:
        most = [(f"x-{number}", "a") for number in range(MOST_HEADERS - 8)]
        assert (await client.get("/health", headers=most)).status_code == 200
        many = [*most, *((f"y-{number}", "a") for number in range(9))]
        told = detail_of(
            await client.get("/health", headers=many), 431, "request-header-fields-too-large"
        )
        assert f"headers: send at most {MOST_HEADERS}" in told
        assert (await client.get(f"/health?{'a' * LONGEST_QUERY}")).status_code == 200
        long = await client.get(f"/health?{'a' * (LONGEST_QUERY + 1)}")
        told = detail_of(long, 414, "request-uri-too-long")
        assert f"the query has {LONGEST_QUERY + 1} bytes" in told


async def test_a_character_that_databases_refuse_is_refused_in_the_head(
    database_url: str, tmp_path: Path
) -> None:
    targets = [
        ("GET", "/certificates/%00"),
        ("GET", "/certificates/571b667eda0c%00/report"),
        ("GET", "/calibrations/%00"),
        ("DELETE", "/calibrations/%00"),
        ("POST", "/calibrations?extend=%00"),
        ("GET", "/health?%00"),
    ]
    async with serving(settings=Settings(state=tmp_path, database=database_url)) as running:
        for method, target in targets:
            told = detail_of(await running.client.request(method, target), 400, "bad-request")
            assert "U+0000 (%00): remove it" in told
        unknown = await running.client.get("/certificates/%2500")
    detail_of(unknown, 404, "not-found")


@pytest.mark.parametrize("as_header", [bearer, lambda text: {"X-API-Key": text}])
async def test_a_key_opens_what_its_scope_is_for(
    client: httpx.AsyncClient, keys: Keys, as_header: Any
) -> None:
    solve, record = keys.create("solver", [AccessScope.SOLVE])
    admin, _ = keys.create("operator", [AccessScope.ADMIN])
    response = await client.post("/solve", json={"a": 1}, headers=as_header(solve))
    assert response.json() == {"key": record.id, "body": {"a": 1}}
    assert (await client.delete("/keys", headers=as_header(admin))).status_code == 200
    assert (await client.post("/solve", json={}, headers=as_header(admin))).status_code == 200
    detail = detail_of(await client.delete("/keys", headers=as_header(solve)), 403, "forbidden")
    assert "needs a key with scope admin, and yours has solve" in detail
    assert "`rlcm keys new --name NAME --scope admin`" in detail


async def test_the_scheme_is_read_in_any_case(client: httpx.AsyncClient, keys: Keys) -> None:
    text, _ = keys.create("solver", [AccessScope.SOLVE])
    response = await client.post("/solve", json={}, headers={"Authorization": f"bearer   {text} "})
    assert response.status_code == 200


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        ([], "there is no API key: send one as `Authorization: Bearer KEY`"),
        ([("X-API-Key", "")], "there is no API key"),
        ([("Authorization", "Basic eDp5")], "header's scheme is 'Basic': send one as"),
        ([("Authorization", "Bearer")], "the API key is not valid"),
        ([("Authorization", "Bearer rlcm_0_0")], "the API key is not valid"),
        ([("X-API-Key", "rlcm_0_0")], "the API key is not valid"),
        ([("Authorization", "Bearer a"), ("Authorization", "Bearer b")], "2 Authorization headers"),
    ],
)
async def test_without_a_good_key_there_is_401(
    client: httpx.AsyncClient, headers: list[tuple[str, str]], said: str
) -> None:
    for path in ("/solve", "/metrics", "/nowhere"):
        response = await client.post(path, json={}, headers=headers)
        assert said in detail_of(response, 401, "unauthenticated")
        assert response.headers["www-authenticate"].startswith("Bearer")
        assert "rlcm_0_0" not in response.text


async def test_a_wrong_key_is_not_made_good_by_the_other_header(
    client: httpx.AsyncClient, keys: Keys
) -> None:
    text, _ = keys.create("solver", [AccessScope.SOLVE])
    headers = bearer("rlcm_0_0") | {"X-API-Key": text}
    detail_of(await client.post("/solve", json={}, headers=headers), 401, "unauthenticated")


@pytest.mark.parametrize("name", ["api_key", "key", "token", "access_token", "X-API-Key"])
async def test_a_key_in_the_url_is_never_accepted(
    client: httpx.AsyncClient, keys: Keys, name: str
) -> None:
    text, _ = keys.create("solver", [AccessScope.SOLVE])
    response = await client.post("/solve", json={}, params={name: text})
    assert "there is no API key" in detail_of(response, 401, "unauthenticated")


async def test_openai_clients_read_their_envelope(client: httpx.AsyncClient) -> None:
    response = await client.post("/v1/chat/completions", json={})
    assert response.status_code == 401
    error = response.json()["error"]
    assert error["type"] == "authentication_error"
    assert "there is no API key" in error["message"]


async def test_open_paths_are_open(client: httpx.AsyncClient) -> None:
    for path in ("/", "/health", "/readyz"):
        response = await client.get(path)
        assert (response.status_code, response.json()) == (200, [])
    assert (await client.get("/openapi.json")).status_code == 200
    for path in ("/health/", "/healthy", "/metrics"):
        assert (await client.get(path)).status_code == 401


async def test_metrics_take_any_key_or_none_if_they_are_open(
    client: httpx.AsyncClient, keys: Keys
) -> None:
    text, _ = keys.create("prometheus", [AccessScope.SOLVE])
    assert (await client.get("/metrics", headers=bearer(text))).status_code == 200
    settings = CLOSED.model_copy(update={"metrics_open": True})
    async with client_of(toy(settings, keys)) as other:
        assert (await other.get("/metrics")).status_code == 200


async def test_openapi_says_how_to_show_a_key(client: httpx.AsyncClient) -> None:
    document = (await client.get("/openapi.json")).json()
    schemes = document["components"]["securitySchemes"]
    assert {scheme["type"] for scheme in schemes.values()} == {"http", "apiKey"}
    assert set(map(str, document["paths"]["/solve"]["post"]["security"])) == {
        str({name: []}) for name in schemes
    }


class TestBodies:
    """The limits of `CLOSED`: 1000 bytes, 5000 for uploads."""

    @pytest.fixture
    def headers(self, keys: Keys) -> dict[str, str]:
        return bearer(keys.create("solver", [AccessScope.SOLVE])[0])

    @pytest.mark.parametrize(
        ("path", "limit"),
        [
            ("/solve", 1000),
            ("/aggregate", 5000),
            ("/v1/chat/completions", 1000),
            ("/v1/responses", 1000),
        ],
    )
    @pytest.mark.parametrize("is_chunked", [False, True])
    async def test_a_body_may_be_as_large_as_the_limit(
        self,
        client: httpx.AsyncClient,
        headers: dict[str, str],
        path: str,
        limit: int,
        is_chunked: bool,
    ) -> None:
        for size, expected in ((limit, 200), (limit + 1, 413)):
            body = json.dumps({"a": "x" * (size - 9)}).encode()
            assert len(body) == size

            async def parts(body: bytes = body) -> AsyncIterator[bytes]:
                for begin in range(0, len(body), 300):
                    yield body[begin : begin + 300]

            response = await client.post(
                path,
                content=parts() if is_chunked else body,
                headers=headers | {"Content-Type": "application/json"},
            )
            assert response.status_code == expected, response.text
            if expected == 413 and not path.startswith("/v1"):
                detail = detail_of(response, 413, "body-too-large")
                assert (
                    detail == f"the body is over {limit} bytes: send less, or in several requests"
                )
            elif expected == 413:
                assert response.json()["error"]["code"] == "body_too_large"

    async def test_a_key_may_have_a_limit_of_its_own(
        self, client: httpx.AsyncClient, keys: Keys
    ) -> None:
        text, _ = keys.create("small", [AccessScope.SOLVE], Limits(max_body_bytes=50))
        for path in ("/solve", "/aggregate"):
            response = await client.post(path, content=b"x" * 51, headers=bearer(text))
            assert "over 50 bytes" in detail_of(response, 413, "body-too-large")
        text, _ = keys.create("large", [AccessScope.SOLVE], Limits(max_body_bytes=10**6))
        response = await client.post("/aggregate", content=b"x" * 5001, headers=bearer(text))
        assert "over 5000 bytes" in detail_of(response, 413, "body-too-large")

    async def test_a_stranger_sends_nothing(self, client: httpx.AsyncClient) -> None:
        sent = 0

        async def parts() -> AsyncIterator[bytes]:
            nonlocal sent
            for _ in range(100):
                sent += 1
                yield b"x"

        detail_of(await client.post("/aggregate", content=parts()), 401, "unauthenticated")
        assert sent == 0

    @pytest.mark.parametrize("announced", ["-5", "abc", "", "9" * 400])
    async def test_a_strange_length_is_no_way_around(
        self, keys: Keys, headers: dict[str, str], announced: str
    ) -> None:
        scope = scope_of("/aggregate", headers | {"content-length": announced})
        messages = [{"type": "http.request", "body": b"x" * 6000, "more_body": False}]
        sent = await run(toy(CLOSED, keys), scope, messages)
        assert sent[0]["status"] == 413

    async def test_nothing_is_kept_back(self, keys: Keys, headers: dict[str, str]) -> None:
        """Each part of the response comes before the next part of the request is there."""
        incoming: asyncio.Queue[Message] = asyncio.Queue()
        outgoing: asyncio.Queue[Message] = asyncio.Queue()
        serving = asyncio.create_task(
            behind_access(echo, keys)(scope_of("/", headers), incoming.get, outgoing.put)
        )
        assert await incoming_part(incoming, outgoing, b"one", start=True) == b"one"
        assert await incoming_part(incoming, outgoing, b"two") == b"two"
        await incoming.put({"type": "http.request", "body": b"", "more_body": False})
        await serving

    async def test_a_body_that_grows_too_large_cuts_a_response_that_has_begun(
        self, keys: Keys, headers: dict[str, str]
    ) -> None:
        messages = [{"type": "http.request", "body": b"x" * 400, "more_body": True}] * 3
        sent: list[Message] = []
        with pytest.raises(BodyTooLarge):
            await run(behind_access(echo, keys), scope_of("/", headers), messages, sent)
        assert sent[0]["status"] == 200
        assert sum(len(part.get("body", b"")) for part in sent[1:]) == 800
        assert sent[-1].get("more_body"), "it has no proper end"


def behind_access(app: ASGIApp, keys: Keys) -> AccessMiddleware:
    return AccessMiddleware(app, CLOSED, keys)


def scope_of(path: str, headers: dict[str, str]) -> dict[str, Any]:
    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": raw,
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 2),
    }


async def run(
    app: ASGIApp, scope: dict[str, Any], messages: list[Any], sent: list[Message] | None = None
) -> list[Message]:
    """One request through an app as a server would put it."""
    left = list(messages)
    sent = [] if sent is None else sent

    async def receive() -> Message:
        return left.pop(0) if left else await asyncio.Event().wait()  # type: ignore[return-value]

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope, receive, send)
    return sent


async def incoming_part(
    incoming: asyncio.Queue[Message],
    outgoing: asyncio.Queue[Message],
    body: bytes,
    *,
    start: bool = False,
) -> Any:
    await incoming.put({"type": "http.request", "body": body, "more_body": True})
    async with asyncio.timeout(5):
        if start:
            assert (await outgoing.get())["type"] == "http.response.start"
        return (await outgoing.get())["body"]


class TestQuestions:
    LIMITED = Caller(
        "k", frozenset({AccessScope.SOLVE}), Limits(max_n=4, max_tokens=100, timeout_s=20)
    )

    @staticmethod
    def question(**changes: Any) -> Question:
        return Question(text="p", alpha=0.1, **changes)

    def test_a_question_within_the_limits_gets_its_time(self) -> None:
        settings = Settings(timeout_s=60)
        most = self.question(samples=64, max_tokens=10**9)
        assert cap_question(ANYONE, settings, most).timeout == 60
        assert cap_question(self.LIMITED, settings, self.question(samples=4)).timeout == 20
        assert cap_question(self.LIMITED, Settings(timeout_s=10), self.question()).timeout == 10
        short = self.question(timeout=5.0, max_tokens=100)
        assert cap_question(self.LIMITED, settings, short) == short

    @pytest.mark.parametrize(
        ("changes", "field", "said"),
        [
            ({"samples": 9}, "n", "n is 9, and this service allows at most 8: lower it"),
            ({"samples": 5}, "n", "n is 5, and this key allows at most 4"),
            ({"max_tokens": 1001}, "max_tokens", "is 1001, and this service allows at most 1000:"),
            ({"max_tokens": 101}, "max_tokens", "is 101, and this key allows at most 100:"),
            ({"timeout": 61.5}, "timeout_s", "is 61.5, and this service allows at most 60:"),
            ({"timeout": 20.5}, "timeout_s", "is 20.5, and this key allows at most 20:"),
            ({"context": (SAID,) * 9}, "problem", "10 messages, and this service allows at most 9"),
            (
                {"context": (LONG,)},
                "problem",
                "3002 characters, and this service allows at most 30",
            ),
        ],
    )
    def test_more_than_the_limits_is_refused(
        self, changes: dict[str, Any], field: str, said: str
    ) -> None:
        settings = Settings(
            max_n=8, max_thinking_tokens=1000, timeout_s=60, max_messages=9, max_prompt_chars=3000
        )
        with pytest.raises(RequestRefused) as refused:
            cap_question(self.LIMITED, settings, self.question(**changes))
        assert refused.value.field == field
        assert said in str(refused.value)

    def test_the_budget_that_a_question_does_not_name_counts_too(self) -> None:
        allowed = (
            "max_tokens is 512 by default, and this key allows at most 100: give max_tokens of 100"
        )
        with pytest.raises(RequestRefused, match=allowed):
            cap_question(self.LIMITED, Settings(), self.question(), budget=512)
        assert cap_question(self.LIMITED, Settings(), self.question(max_tokens=9), budget=512)


async def test_a_body_that_drips_is_given_up(monkeypatch: pytest.MonkeyPatch, keys: Keys) -> None:
    """Each part comes in time, all of them together do not."""
    monkeypatch.setattr(access, "PATIENCE", 0.2)

    async def drips() -> AsyncIterator[bytes]:
        for _ in range(100):
            await asyncio.sleep(0.05)
            yield b"x"

    async with client_of(toy(OPEN, keys)) as client:
        response = await client.post("/aggregate", content=drips())
        detail = detail_of(response, 408, "request-timeout")
        assert "send at least 1024 bytes per second" in detail
        monkeypatch.setattr(access, "SLOWEST", 10.0)
        response = await client.post("/aggregate", content=drips())
        assert response.json() == {"bytes": 100}
