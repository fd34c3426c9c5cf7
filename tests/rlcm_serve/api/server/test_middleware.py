import asyncio
import io
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fastapi import Response
from fastapi.responses import StreamingResponse
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client.parser import text_string_to_metric_families
from starlette.types import Message, Receive, Scope, Send

from calibration import ExitPolicy
from rlcm_serve.api.app import create_app
from rlcm_serve.api.server.middleware import ObservingMiddleware
from rlcm_serve.settings import Settings
from rlcm_serve.telemetry import logs
from rlcm_serve.telemetry.spans import SpanTracing
from tests.rlcm_serve.api.serving import PATIENCE, PROBLEM, Running, client_of, serving
from tests.rlcm_serve.scripted_engine import Script, certificate
from tests.rlcm_serve.telemetry.log_lines import json_logs, objects

pytestmark = pytest.mark.anyio

CANCELLED = b'rlcm_question_failures_total{kind="cancelled"} 1.0'


class Clock:
    def __init__(self) -> None:
        self.now = 50.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    with json_logs() as stream:
        yield stream


@pytest.fixture
async def running() -> AsyncIterator[Running]:
    async with serving(Script(c_end=0.6)) as running:
        yield running


def access(lines: io.StringIO) -> list[dict[str, Any]]:
    return [line for line in objects(lines) if line["logger"] == "rlcm_serve.access"]


def values(running: Running) -> dict[tuple[str, str], float]:
    """The page's series by name and route, as far as they have one."""
    page = running.context.metrics.page()[0].decode()
    return {
        (sample.name, sample.labels["route"]): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if "route" in sample.labels and sample.labels.get("le", "+Inf") == "+Inf"
    }


async def test_a_request_is_one_access_line(running: Running, lines: io.StringIO) -> None:
    response = await running.solve()
    (line,) = access(lines)
    assert line["seconds"] >= 0
    assert {name: line[name] for name in line if name not in ("time", "seconds")} == {
        "level": "info",
        "logger": "rlcm_serve.access",
        "message": "POST /solve 200",
        "request_id": response.headers["x-request-id"],
        "method": "POST",
        "path": "/solve",
        "route": "/solve",
        "status": 200,
        "bytes_in": len(response.request.content),
        "bytes_out": len(response.content),
        "client": "127.0.0.1",
        "client_gone": False,
        "key": None,
        "alpha": 0.1,
        "n": 1,
        "outcome": "answered",
        "certificate": None,
        "tokens": line["tokens"],
    }
    assert line["tokens"]["reasoning"] == response.json()["usage"]["reasoning_tokens"] == 40


@pytest.mark.parametrize("id_", ["7f3a", "a" * 128, "svc-1.b_c:d/e+f=", "0"])
async def test_a_sane_request_id_is_kept(running: Running, lines: io.StringIO, id_: str) -> None:
    response = await running.client.get("/nowhere", headers={"X-Request-ID": id_})
    assert response.headers["x-request-id"] == id_
    assert access(lines)[0]["request_id"] == id_


@pytest.mark.parametrize("id_", ["", "a" * 129, "two words", 'a"b', "a\tb", "é"])
async def test_any_other_is_replaced(running: Running, lines: io.StringIO, id_: str) -> None:
    headers = {"X-Request-ID": id_.encode()}
    first = await running.client.get("/nowhere", headers=headers)
    second = await running.client.get("/nowhere", headers=headers)
    ids = [response.headers["x-request-id"] for response in (first, second)]
    assert len({*ids, id_}) == 3
    assert [line["request_id"] for line in access(lines)] == ids


async def test_prompts_answers_and_queries_are_not_logged(
    running: Running, lines: io.StringIO
) -> None:
    await running.solve()
    await running.client.post(f"/solve?q={PROBLEM}", json={"problem": PROBLEM})
    text = lines.getvalue()
    assert len(access(lines)) == 2
    assert "dial" not in text
    assert "boxed" not in text


async def test_prompts_and_answers_are_logged_if_asked_for(lines: io.StringIO) -> None:
    async with serving(Script(c_end=0.6), settings=Settings(log_prompts=True)) as running:
        await running.solve()
    (line,) = access(lines)
    assert (line["messages"], line["answer"]) == ([PROBLEM], "7")


async def test_an_unexpected_error_is_logged_and_its_inner_life_not_sent(
    running: Running, lines: io.StringIO
) -> None:
    def crash(messages: object) -> None:
        raise ValueError(f"cannot tokenize {PROBLEM!r}")

    running.engine.prompt = crash  # type: ignore[assignment, method-assign]
    response = await running.solve()
    assert response.status_code == 500
    assert response.json()["type"] == "urn:rlcm:problem:internal"
    assert "tokenize" not in response.text
    error, line = objects(lines)
    request_id = response.headers["x-request-id"]
    assert (line["status"], line["level"]) == (500, "warning")
    assert error["level"] == "error"
    assert error["request_id"] == line["request_id"] == request_id
    assert error["exception"].startswith("Traceback")
    assert error["exception"].endswith("ValueError: cannot tokenize '[private]'")
    assert values(running)["rlcm_http_requests_total", "/solve"] == 1


async def test_an_error_within_a_stream_leaves_it_without_its_end(
    running: Running, lines: io.StringIO
) -> None:
    async def half() -> AsyncIterator[bytes]:
        yield b"half"
        raise ValueError("the other half is missing")

    async def stream() -> Response:
        return StreamingResponse(half())

    running.app.add_api_route("/half", stream)
    sent: list[Message] = []
    await by_hand(running.app, "/half", sent)
    assert [message.get("body") for message in sent[1:]] == [b"half"]
    assert sent[-1]["more_body"] is True
    error, line = objects(lines)
    assert "the other half" in error["exception"]
    assert (line["status"], line["bytes_out"]) == (200, 4)
    assert (line["level"], line["message"]) == ("warning", "GET /half 200, then internal")
    assert (line["error"], line["error_status"]) == ("internal", 500)


@pytest.mark.parametrize("path", ["/solve", "/v1/chat/completions", "/v1/responses"])
async def test_a_question_that_fails_in_its_stream_is_no_success(
    lines: io.StringIO, path: str
) -> None:
    questions: dict[str, dict[str, Any]] = {
        "/solve": {"problem": PROBLEM},
        "/v1/responses": {"model": "scripted", "input": PROBLEM},
        "/v1/chat/completions": {
            "model": "scripted",
            "messages": [{"role": "user", "content": PROBLEM}],
        },
    }
    async with serving(Script()) as running:
        running.engine.hold(1)
        body = questions[path] | {"alpha": 0.1, "stream": True}
        asking = asyncio.create_task(running.client.post(path, json=body))
        async with asyncio.timeout(PATIENCE):
            await running.engine.all_held.wait()
            running.engine.kill()
            response = await asking
    assert response.status_code == 200
    assert "engine" in response.text
    (line,) = access(lines)
    assert line["level"] == "warning"
    assert line["message"] == f"POST {path} 200, then engine-dead"
    assert {name: line[name] for name in ("status", "error", "error_status", "outcome")} == {
        "status": 200,
        "error": "engine-dead",
        "error_status": 503,
        "outcome": "failed",
    }


async def test_a_refusal_is_named_on_its_access_line(running: Running, lines: io.StringIO) -> None:
    await running.solve(alpha=2)
    (line,) = access(lines)
    assert (line["status"], line["error"]) == (422, "invalid-request")
    assert "outcome" not in line, "it was no question yet"


async def by_hand(app: Any, path: str, sent: list[Message], **scope: Any) -> None:
    """A GET request whose client stays until it has been answered."""

    async def receive() -> Message:
        if asked:
            await asyncio.Event().wait()
        asked.append(True)
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    asked: list[bool] = []
    headers = [(b"host", b"localhost")]
    whole = {"type": "http", "method": "GET", "path": path, "headers": headers, "query_string": b""}
    async with asyncio.timeout(5):
        await app(whole | {"asgi": {"version": "3.0"}} | scope, receive, send)


async def test_routes_are_counted_by_their_templates(running: Running, lines: io.StringIO) -> None:
    for number in range(3):
        await running.client.get(f"/certificates/c{number}")
        await running.client.get(f"/made/up/{number}")
    await running.client.get("/solve")
    counted = values(running)
    assert counted["rlcm_http_requests_total", "(none)"] == 3
    assert counted["rlcm_http_requests_total", "/solve"] == 1
    templates = {route for _, route in counted}
    assert len(templates) == 3
    assert all("c1" not in route and "made" not in route for route in templates)
    assert {line["route"] for line in access(lines)} == templates
    assert access(lines)[-1]["status"] == 405


async def test_who_is_not_let_in_is_counted_for_the_route_meant(lines: io.StringIO) -> None:
    async with serving(settings=Settings(auth="on")) as running:
        response = await running.solve()
        assert response.status_code == 401
        assert response.headers["x-request-id"] == access(lines)[0]["request_id"]
        assert values(running)["rlcm_http_requests_total", "/solve"] == 1


async def test_the_key_is_named_by_its_id_alone(lines: io.StringIO) -> None:
    async with serving(settings=Settings(auth="on")) as running:
        key, record = running.context.keys.create("test", ["solve"])
        headers = {"Authorization": f"Bearer {key}"}
        body = {"problem": PROBLEM, "alpha": 0.1}
        assert (await running.client.post("/solve", json=body, headers=headers)).is_success
    assert access(lines)[0]["key"] == record.id
    assert key[-64:] not in lines.getvalue()


async def test_what_asks_every_few_seconds_is_logged_at_debug(running: Running) -> None:
    running.context.admission.close()
    for level, said in (("info", []), ("debug", [200, 503])):
        with json_logs(level) as lines:
            await running.client.get("/health")
            await running.client.get("/readyz")
        assert [line["status"] for line in access(lines)] == said
        assert {line["level"] for line in access(lines)} <= {"debug"}


async def test_a_stream_is_timed_to_its_first_event_and_to_its_last_byte(
    running: Running, lines: io.StringIO
) -> None:
    clock = Clock()

    async def stream(scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-type", b"text/event-stream; charset=utf-8")]
        clock.now += 1
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        parts = ((15, b": ping\n\n"), (2, b"event: exit\n\n"), (4, b"event: done\n\n"))
        for seconds, part in parts:
            clock.now += seconds
            await send({"type": "http.response.body", "body": part, "more_body": True})
        clock.now += 8
        await send({"type": "http.response.body", "body": b""})
        clock.now += 100  # tidying up is not the client's time

    sent: list[Message] = []
    await by_hand(ObservingMiddleware(stream, running.context, clock), "/solve", sent)
    assert [message.get("body", b"")[:7] for message in sent] == [
        b"",
        b": ping\n",
        b"event: ",
        b"event: ",
        b"",
    ]
    assert logs.current.get() is None
    (line,) = access(lines)
    assert (line["first_event_seconds"], line["seconds"]) == (18, 30)
    counted = values(running)
    assert counted["rlcm_http_first_event_seconds_sum", "(none)"] == 18
    assert counted["rlcm_http_request_seconds_sum", "(none)"] == 30


async def test_parts_of_a_stream_are_passed_on_as_they_come(running: Running) -> None:
    arrived = asyncio.Event()

    async def two_parts() -> AsyncIterator[bytes]:
        yield b"one"
        async with asyncio.timeout(5):
            await arrived.wait()
        yield b"two"

    async def stream() -> Response:
        return StreamingResponse(two_parts())

    class Sent(list[Message]):
        def append(self, message: Message) -> None:
            super().append(message)
            if message.get("body") == b"one":
                arrived.set()

    running.app.add_api_route("/parts", stream)
    sent = Sent()
    await by_hand(running.app, "/parts", sent)
    assert b"".join(message.get("body", b"") for message in sent) == b"onetwo"


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_leaves_is_noted(
    running: Running, lines: io.StringIO, stream: bool
) -> None:
    running.engine.hold(1)
    body = f'{{"problem": "{PROBLEM}", "alpha": 0.1, "stream": {str(stream).lower()}}}'.encode()
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
    sent: list[Message] = []

    async def receive() -> Message:
        if messages:
            return messages.pop()
        await running.engine.all_held.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "method": "POST",
        "path": "/solve",
        "query_string": b"",
        "headers": [(b"host", b"localhost"), (b"content-type", b"application/json")],
    }
    async with asyncio.timeout(5):
        await running.app(scope, receive, send)
        # Its place is back before it is remembered as unanswered, and counted.
        while CANCELLED not in running.context.metrics.page()[0]:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    (line,) = access(lines)
    assert line["client_gone"] is True
    assert line["status"] == (200 if stream else 499)
    counted = values(running)
    assert counted["rlcm_http_clients_gone_total", "/solve"] == 1
    page = running.context.metrics.page()[0]
    assert b"rlcm_http_requests_in_flight 0.0" in page


async def test_one_who_leaves_after_the_answer_has_not_missed_it(
    running: Running, lines: io.StringIO
) -> None:
    async def answer_and_tidy_up(scope: Scope, receive: Receive, send: Send) -> None:
        await Response(b"answer")(scope, receive, send)
        await receive()

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        pass

    scope = {"type": "http", "method": "GET", "path": "/solve", "headers": []}
    await ObservingMiddleware(answer_and_tidy_up, running.context)(scope, receive, send)
    assert access(lines)[0]["client_gone"] is False


async def test_a_send_that_fails_is_a_client_that_left(
    running: Running, lines: io.StringIO
) -> None:
    async def broken(message: Message) -> None:
        raise BrokenPipeError

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        await Response(b"answer")(scope, receive, send)

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    scope = {"type": "http", "method": "GET", "path": "/solve", "headers": []}
    await ObservingMiddleware(answer, running.context)(scope, receive, broken)
    assert access(lines)[0]["client_gone"] is True


async def test_a_request_its_question_and_its_log_lines_are_one_trace(
    tmp_path: Path, lines: io.StringIO
) -> None:
    one = certificate({0.1: ExitPolicy(lambda_high=0.9)})
    one.save(tmp_path / "one.json")
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    async with serving(Script(c_end=0.6), certificates=[tmp_path / "one.json"]) as running:
        context = replace(running.context, tracing=SpanTracing(provider))
        # Its engine runs already, so this app needs no start of its own.
        traced = create_app(context, running.failures.append)
        traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
        async with client_of(traced) as client:
            body = {"problem": PROBLEM, "alpha": 0.1, "stream": True}
            response = await client.post("/solve", json=body, headers={"traceparent": traceparent})
    assert "event: done" in response.text
    spans = exporter.get_finished_spans()
    assert {span.name for span in spans} == {"POST /solve", "solve", "sample"}
    assert {f"{span.context.trace_id:032x}" for span in spans if span.context} == {
        access(lines)[0]["trace_id"],
        "4bf92f3577b34da6a3ce929d0e0e4736",
    }
