import asyncio
import errno
import json
import socket
import tempfile
import threading
import time
from codecs import BOM_UTF8
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
import uvicorn
from fastapi import FastAPI
from starlette.types import Receive, Scope, Send

from rlcm_serve.admission import Admission, Tenant
from rlcm_serve.api import access
from rlcm_serve.api import aggregate as aggregating
from rlcm_serve.api.access import AccessMiddleware
from rlcm_serve.api.error_responses import add_handlers
from rlcm_serve.api.routes.aggregate import router
from rlcm_serve.api.server import threaded
from rlcm_serve.api.wire.aggregate import ROLLOUTS_EXAMPLE, ResultBody, SummaryBody
from rlcm_serve.settings import Settings
from rlcm_serve.store.caller import ANYONE, Caller
from rlcm_serve.store.caller import Scope as AccessScope
from rlcm_serve.store.database import Database
from rlcm_serve.store.keys import Keys
from tests.rlcm_serve.api.serving import error_of

LINES = {"Content-Type": "application/x-ndjson"}
ROWS = [
    {"problem_id": problem, "answer": answer, "confidence": 0.5}
    for problem in ("b", "a", "c")
    for answer in ("7", "8", "7.0")
]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


def application(
    settings: Settings | None = None,
    caller: Caller = ANYONE,
    admission: Admission | None = None,
) -> App:
    """The route alone; who calls is decided before."""
    app = FastAPI()
    app.state.context = SimpleNamespace(
        settings=settings or Settings(), aggregations=admission or places()
    )
    app.include_router(router)
    add_handlers(app)

    async def let_in(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope.setdefault("state", {})["caller"] = caller
        await app(scope, receive, send)

    return let_in


def places() -> Admission:
    return Admission(threaded.MOST_AT_ONCE, threaded.MOST_WAITING, share=0.75)


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(application(), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        yield client


def lines(rows: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def parsed(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


async def test_json_in_and_out(client: httpx.AsyncClient) -> None:
    body = {"rollouts": ROLLOUTS_EXAMPLE, "vote": "confidence", "seed": 0}
    response = await client.post("/aggregate", json=body)
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    assert int(response.headers["content-length"]) == len(response.content)
    assert response.json() == {"results": [ResultBody.example()], "summary": SummaryBody.example()}


async def test_lines_in_and_out(client: httpx.AsyncClient) -> None:
    response = await client.post("/aggregate", content=lines(ROLLOUTS_EXAMPLE), headers=LINES)
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/x-ndjson"
    assert parsed(response.text) == [ResultBody.example(), {"summary": SummaryBody.example()}]


async def test_unicodes_line_ends_in_a_text_end_no_line(client: httpx.AsyncClient) -> None:
    names = ["p\u2028\u2029", "q\x85"]
    rows = [{"problem_id": name, "answer": "1", "confidence": 0.5} for name in names]
    async with client.stream("POST", "/aggregate", content=lines(rows), headers=LINES) as response:
        *results, _ = [json.loads(line) async for line in response.aiter_lines()]
    assert [result["problem_id"] for result in results] == names


@pytest.mark.parametrize("size", [1, 2, 1000])
async def test_a_byte_order_mark_is_passed_over(client: httpx.AsyncClient, size: int) -> None:
    array = json.dumps({"rollouts": ROWS}).encode()
    for content, headers in ((lines(ROWS), LINES), (array, {"Content-Type": "application/json"})):
        marked = BOM_UTF8 + content
        parts = [marked[at : at + size] for at in range(0, len(marked), size)]

        async def body(parts: list[bytes] = parts) -> AsyncIterator[bytes]:
            for part in parts:
                yield part

        plain = await client.post("/aggregate", content=content, headers=headers)
        response = await client.post("/aggregate", content=body(), headers=headers)
        assert (response.status_code, response.text) == (200, plain.text)


@pytest.mark.parametrize("where", ["the response", "the body"])
async def test_a_full_disk_is_503(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    create, made = tempfile.TemporaryFile, 0

    def file(*args: Any, **options: Any) -> Any:
        nonlocal made
        made += 1
        if made == ["the response", "the body"].index(where) + 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        return create(*args, **options)

    monkeypatch.setattr(tempfile, "TemporaryFile", file)
    content, headers = json.dumps({"rollouts": ROWS}), {"Content-Type": "application/json"}
    problem = error_of(await client.post("/aggregate", content=content, headers=headers), 503)
    assert problem["type"].endswith("storage-full")
    assert "no space is left on the disk" in problem["detail"]


@pytest.mark.parametrize("grouped", ["true", "false"])
async def test_both_formats_say_the_same(client: httpx.AsyncClient, grouped: str) -> None:
    options = {"vote": "majority", "seed": "3", "grouped": grouped}
    given = {"vote": "majority", "seed": 3, "grouped": grouped == "true", "rollouts": ROWS}
    by_lines = await client.post("/aggregate", params=options, content=lines(ROWS), headers=LINES)
    whole = (await client.post("/aggregate", json=given)).json()
    *results, last = parsed(by_lines.text)
    assert results == whole["results"]
    assert last == {"summary": whole["summary"]}
    assert [result["problem_id"] for result in results] == ["b", "a", "c"]


async def test_options_in_a_body_count_before_those_of_the_url(client: httpx.AsyncClient) -> None:
    rows = [{"problem_id": "a", "answer": "7", "confidence": 0.1}] * 2
    rows += [{"problem_id": "a", "answer": "8", "confidence": 0.9}]
    for body, answer in (({}, "7"), ({"vote": "confidence"}, "8")):
        response = await client.post(
            "/aggregate", params={"vote": "majority"}, json={"rollouts": rows, **body}
        )
        assert response.json()["results"][0]["answer"] == answer


async def test_an_empty_batch_is_one(client: httpx.AsyncClient) -> None:
    response = await client.post("/aggregate", json={"rollouts": []})
    assert response.json()["results"] == []
    assert response.json()["summary"]["problems"] == 0
    response = await client.post("/aggregate", content=b"", headers=LINES)
    assert parsed(response.text)[0]["summary"]["rollouts"] == 0


@pytest.mark.parametrize("kind", ["text/csv", "application/x-www-form-urlencoded", None])
async def test_other_media_types_are_415(client: httpx.AsyncClient, kind: str | None) -> None:
    headers = {} if kind is None else {"Content-Type": kind}
    response = await client.post("/aggregate", content=lines(ROWS), headers=headers)
    problem = error_of(response, 415)
    assert "send application/json or application/x-ndjson" in problem["detail"]


@pytest.mark.parametrize(
    ("body", "field", "detail"),
    [
        (b"", "body", "the body is not a JSON object"),
        (b"[]", "body", "the body is not a JSON object"),
        (b"{", "body", "the body is not a JSON object"),
        (b'{"vote": "majority"}', "rollouts", "rollouts is missing"),
        (b'{"rollouts": {}}', "rollouts", "give an array"),
        (b'{"rollouts": [], "vote": "best"}', "vote", "vote is 'best'"),
        (b'{"rollouts": [], "seed": "0"}', "seed", "seed is '0'"),
        (b'{"rollouts": [], "seed": -1}', "seed", "seed is -1"),
        (b'{"rollouts": [], "votes": 1}', "votes", "votes is 1"),
        (b'{"rollouts": [], "top_p": 0.5}', "top_p", "leave out top_p"),
        (b'{"rollouts": [{"problem_id": "a", "answer": 7}]}', "rollouts[0].answer", "is 7: give"),
        (
            b'{"rollouts": [{"problem_id": "a", "answer": "7"}]}',
            "rollouts[0].confidence",
            "confidence is missing",
        ),
        (
            b'{"rollouts": [{"problem_id": "a", "answer": "7", "confidence": 1.5}]}',
            "rollouts[0].confidence",
            "confidence is 1.5: give a number from 0 to 1",
        ),
        (
            b'{"rollouts": [{"problem_id": "a", "answer": "7", "confidence": 0.5}, '
            b'{"problem_id": "b", "answer": "7", "confidence": 1e999}]}',
            "rollouts[1].confidence",
            "confidence is inf: give a number from 0 to 1",
        ),
    ],
)
async def test_a_bad_object_is_422(
    client: httpx.AsyncClient, body: bytes, field: str, detail: str
) -> None:
    headers = {"Content-Type": "application/json"}
    response = await client.post("/aggregate", content=body, headers=headers)
    problem = error_of(response, 422)
    assert detail in problem["detail"]
    assert problem["errors"][0]["field"] == field


async def test_a_bad_line_is_422_before_anything_is_sent(client: httpx.AsyncClient) -> None:
    content = lines(ROWS) + b'{"problem_id": "z", "answer": 7}\n'
    response = await client.post("/aggregate", content=content, headers=LINES)
    problem = error_of(response, 422)
    assert problem["detail"] == "line 10: answer is 7: give a string, or null if there is no answer"


async def test_a_message_says_no_more_than_the_start_of_a_value(client: httpx.AsyncClient) -> None:
    for row in (
        {"problem_id": "z", "answer": "7", "reference": " " * 2**20},
        {"problem_id": "z", "answer": "7", "x" * 2**20: 1},
    ):
        body = {"vote": "majority", "rollouts": [row]}
        for response in (
            await client.post("/aggregate?vote=majority", content=lines([row]), headers=LINES),
            await client.post("/aggregate", json=body),
        ):
            error_of(response, 422)
            assert len(response.content) < 1000


async def test_half_a_surrogate_pair_in_a_name_is_422(client: httpx.AsyncClient) -> None:
    row = {"problem_id": "z", "answer": "7", "confidence": 0.5, "\ud800": 1}
    response = await client.post("/aggregate", content=lines([row]), headers=LINES)
    problem = error_of(response, 422)
    assert r"there is no field '\ud800'" in problem["detail"]
    assert problem["errors"][0]["field"] == "?"


async def test_a_bad_option_of_the_url_is_422(client: httpx.AsyncClient) -> None:
    for options, field in (({"vote": "best"}, "vote"), ({"top": "1"}, "top")):
        response = await client.post(
            "/aggregate", params=options, content=lines(ROWS), headers=LINES
        )
        assert error_of(response, 422)["errors"][0]["field"] == field


async def test_a_large_object_is_413(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = json.dumps({"rollouts": ROWS}).encode()
    monkeypatch.setattr(aggregating, "LONGEST_ARRAY", len(body))
    headers = {"content-type": "application/json"}
    assert (await client.post("/aggregate", content=body, headers=headers)).status_code == 200
    response = await client.post("/aggregate", content=b" " + body, headers=headers)
    assert response.status_code == 413
    assert f"over {len(body)} bytes" in response.json()["detail"]


@pytest.mark.parametrize(
    "options", [{"grader": "a" * aggregating.LONGEST_OPTION}, {f"f{n}": 1 for n in range(101)}]
)
async def test_options_are_few_and_short(
    client: httpx.AsyncClient, options: dict[str, Any]
) -> None:
    response = await client.post("/aggregate", json={"rollouts": ROWS} | options)
    assert response.status_code == 422
    assert "send only rollouts and options" in response.json()["detail"]
    assert len(response.content) < 1000


async def test_too_many_rollouts_are_413_with_the_remedy(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aggregating, "MAX_ROLLOUTS", 8)
    for response in (
        await client.post("/aggregate", content=lines(ROWS), headers=LINES),
        await client.post("/aggregate", json={"rollouts": ROWS}),
    ):
        detail = error_of(response, 413)["detail"]
        assert "over 8 rollouts" in detail
        assert "rlcm aggregate" in detail


async def test_the_document_describes_both_formats() -> None:
    app = FastAPI()
    app.include_router(router)
    operation = app.openapi()["paths"]["/aggregate"]["post"]
    for content in (operation["requestBody"]["content"], operation["responses"]["200"]["content"]):
        assert set(content) == {"application/json", "application/x-ndjson"}
    assert "$ref" not in json.dumps(operation["requestBody"])
    fields = operation["requestBody"]["content"]["application/json"]["schema"]["properties"]
    for field in [*fields.values(), *fields["rollouts"]["items"]["properties"].values()]:
        assert field["description"]
        assert "examples" in field


class Feed:
    """A body that goes on when it is told to."""

    def __init__(self) -> None:
        self._parts: asyncio.Queue[bytes | None] = asyncio.Queue()

    def send(self, rows: list[dict[str, Any]]) -> None:
        self._parts.put_nowait(lines(rows))

    def end(self) -> None:
        self._parts.put_nowait(None)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (part := await self._parts.get()) is not None:
            yield part


@contextmanager
def served() -> Iterator[str]:
    """The route behind a real server; its address."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        config = uvicorn.Config(application(), lifespan="off", log_level="error")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


def request(address: str, content: bytes) -> socket.socket:
    """A connection on which the head of a chunked request, and a part of its body, were sent."""
    host, _, port = address.removeprefix("http://").partition(":")
    connection = socket.create_connection((host, int(port)), timeout=20)
    connection.sendall(
        b"POST /aggregate?grouped=true HTTP/1.1\r\nHost: localhost\r\n"
        b"Transfer-Encoding: chunked\r\nContent-Type: application/x-ndjson\r\n\r\n" + chunk(content)
    )
    return connection


def chunk(content: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(content), content)


def read_until(connection: socket.socket, wanted: bytes) -> bytes:
    read = b""
    while wanted not in read:
        part = connection.recv(65536)
        assert part, read
        read += part
    return read


def test_a_result_is_sent_while_the_body_still_comes() -> None:
    with served() as address, request(address, lines(ROWS[:4])) as connection:
        head = read_until(connection, b'"problem_id":"b"')
        assert head.startswith(b"HTTP/1.1 200")
        connection.sendall(chunk(lines(ROWS[4:])) + b"0\r\n\r\n")
        rest = read_until(connection, b'"summary"')
        assert rest.index(b'"problem_id":"a"') < rest.index(b'"problem_id":"c"')


def test_once_streaming_has_begun_a_failure_is_the_last_line() -> None:
    with served() as address, request(address, lines(ROWS[:4])) as connection:
        read_until(connection, b'"problem_id":"b"')
        connection.sendall(chunk(lines(ROWS[:1])) + b"0\r\n\r\n")
        rest = read_until(connection, b"0\r\n\r\n")
        last = json.loads(rest[rest.index(b'{"error"') : rest.rindex(b"}") + 1])
        assert last["error"]["type"] == "urn:rlcm:problem:invalid-request"
        assert "line 5: problem 'b' appears again" in last["error"]["detail"]


def test_a_client_that_sends_all_before_it_reads_is_served() -> None:
    rows = [{"problem_id": f"p{at}", "answer": "7", "confidence": 0.5} for at in range(60_000)]
    with (
        served() as address,
        httpx.Client(timeout=60) as client,
    ):
        response = client.post(
            f"{address}/aggregate?grouped=true",
            content=iter([lines(rows[at : at + 500]) for at in range(0, 60_000, 500)]),
            headers=LINES,
        )
        results = parsed(response.text)
    assert len(response.content) > 8 * 2**20, "more than the buffers of a connection hold"
    assert [result["problem_id"] for result in results[:-1]] == [row["problem_id"] for row in rows]


@pytest.mark.slow
def test_when_the_client_goes_the_work_ends(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ended = threading.Event()

    class Watched(aggregating.Aggregation):
        def close(self) -> None:
            super().close()
            ended.set()

    monkeypatch.setattr(aggregating, "Aggregation", Watched)
    hard = [
        {"problem_id": "a", "answer": f"9^{{9^{{9^{at}}}}}", "confidence": 0.5}
        for at in range(9, 40)
    ]
    with served() as address:
        with request(address, lines([*hard, ROWS[0]])) as connection:
            connection.sendall(b"0\r\n\r\n")  # its comparisons take minutes
            assert not ended.wait(2)
        began = time.monotonic()
        assert ended.wait(10)
        assert time.monotonic() - began < 5
        assert httpx.post(f"{address}/aggregate", json={"rollouts": ROWS}).status_code == 200


def test_when_the_client_goes_in_the_middle_of_its_body_the_work_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended = threading.Event()

    class Watched(aggregating.Aggregation):
        def close(self) -> None:
            super().close()
            ended.set()

    monkeypatch.setattr(aggregating, "Aggregation", Watched)
    with served() as address:
        with request(address, lines(ROWS[:4])) as connection:
            read_until(connection, b'"problem_id":"b"')
        assert ended.wait(10)


async def test_a_client_that_falls_silent_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "LONGEST_SILENCE", 0.2)
    database = Database(f"sqlite:///{tmp_path}/rlcm.db")
    app = AccessMiddleware(application(), Settings(), Keys(database))
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        feed = Feed()
        feed.send(ROWS)
        response = await client.post("/aggregate", content=feed, headers=LINES)
    assert "the body arrives too slowly" in error_of(response, 408)["detail"]
    database.close()


@pytest.mark.parametrize("kind", [LINES, {"Content-Type": "application/json"}])
async def test_a_batch_that_takes_too_long_is_given_up(kind: dict[str, str]) -> None:
    transport = httpx.ASGITransport(
        application(Settings(aggregate_timeout_s=0.3)), raise_app_exceptions=False
    )
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        feed = Feed()
        feed.send(ROWS)
        response = await client.post("/aggregate", content=feed, headers=kind)
        assert "not finished within 0.3 s" in error_of(response, 504)["detail"]
        again = await client.post("/aggregate", content=lines(ROWS), headers=LINES)
        assert again.status_code == 200


async def test_one_key_leaves_a_place_to_others() -> None:
    greedy = Caller("greedy", frozenset({AccessScope.SOLVE}))
    admission = places()
    app = application(Settings(aggregate_timeout_s=2), greedy, admission)
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        idle = [
            asyncio.create_task(client.post("/aggregate", content=Feed(), headers=LINES))
            for _ in range(5)
        ]
        await asyncio.sleep(0.2)
        assert (admission.running_of("greedy"), admission.waiting_of("greedy")) == (3, 2)
        async with asyncio.timeout(1), admission.place(Tenant("modest")):
            pass
        assert {(await task).status_code for task in idle} == {504}
        assert (admission.running, admission.waiting) == (0, 0)


async def test_the_event_loop_goes_on_meanwhile(client: httpx.AsyncClient) -> None:
    rows = [
        {"problem_id": f"p{at // 4}", "answer": str(at % 4), "confidence": 0.5}
        for at in range(100_000)
    ]
    body = json.dumps({"rollouts": rows}).encode()
    steps = 0

    async def tick() -> None:
        nonlocal steps
        while True:
            await asyncio.sleep(0.001)
            steps += 1

    ticking = asyncio.create_task(tick())
    headers = {"Content-Type": "application/json"}
    response = await client.post("/aggregate", content=body, headers=headers)
    ticking.cancel()
    assert len(response.json()["results"]) == 25_000
    assert steps > 20
