import asyncio
import http.server
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from calibration import ExitReason
from rlcm_serve.answers.grader import AnswerGrader
from rlcm_serve.core import CancelledSample, Question, Reading
from rlcm_serve.errors import Infeasible, NotReady, Overloaded, SettingsRefused, TooManyAtOnce
from rlcm_serve.events import CheckpointEvent, ExitEvent, SampleEvent, TokenEvent, VoteEvent
from rlcm_serve.solving.guarantees import Guarantees
from rlcm_serve.solving.solver import Solver
from rlcm_serve.telemetry.contract import Tracing
from rlcm_serve.telemetry.logs import Exchange
from rlcm_serve.telemetry.metrics import Metrics
from rlcm_serve.telemetry.question import failure_kind, observe
from rlcm_serve.telemetry.spans import SpanTracing
from rlcm_serve.telemetry.tracing import start_tracing
from tests.rlcm_serve.scripted_engine import Script, ScriptedEngine
from tests.rlcm_serve.telemetry.solutions import PROBLEM, QUESTION, sample, solution

pytestmark = pytest.mark.anyio

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


class Recorded:
    """Tracing, and the spans that ended."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracing = SpanTracing(provider)

    @property
    def spans(self) -> Sequence[ReadableSpan]:
        return self._exporter.get_finished_spans()

    def one(self, name: str) -> ReadableSpan:
        (span,) = self.all(name)
        return span

    def all(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name == name]


@pytest.fixture
def recorded() -> Recorded:
    return Recorded()


def attributes(span: ReadableSpan) -> Mapping[str, Any]:
    return dict(span.attributes or {})


def parent_id(span: ReadableSpan) -> int | None:
    return None if span.parent is None else span.parent.span_id


def id_of(span: ReadableSpan) -> int:
    assert span.context is not None
    return span.context.span_id


def test_a_request_continues_the_trace_of_its_client(recorded: Recorded) -> None:
    with recorded.tracing.request({"traceparent": f"00-{TRACE}-{PARENT}-01"}) as span:
        span.ended("POST", "/solve", 200)
    request = recorded.one("POST /solve")
    assert span.trace_id == TRACE
    assert request.context is not None
    assert f"{request.context.trace_id:032x}" == TRACE
    assert parent_id(request) == int(PARENT, 16)
    assert request.kind is SpanKind.SERVER
    assert attributes(request) == {
        "http.request.method": "POST",
        "http.route": "/solve",
        "http.response.status_code": 200,
    }
    assert request.status.status_code is StatusCode.UNSET


@pytest.mark.parametrize("header", [{}, {"traceparent": "nonsense"}])
def test_a_request_without_a_trace_begins_one(recorded: Recorded, header: dict[str, str]) -> None:
    with recorded.tracing.request(header) as span:
        span.ended("GET", "/health", 503)
    request = recorded.one("GET /health")
    assert request.parent is None
    assert span.trace_id is not None
    assert request.status.status_code is StatusCode.ERROR


def test_a_question_and_its_samples_are_spans_within_the_request(recorded: Recorded) -> None:
    with recorded.tracing.request({}) as request, recorded.tracing.question(QUESTION) as span:
        for event in (
            TokenEvent(0, 5, "secret"),
            CheckpointEvent(0, Reading(32, 0.5)),
            CheckpointEvent(1, Reading(32, 0.4)),
            ExitEvent(0, ExitReason.HIGH, 40, 0.9),
            SampleEvent(0, sample()),
            VoteEvent(1, 3, {PROBLEM: 0.9}, PROBLEM, 1.0, decided=True),
            SampleEvent(1, CancelledSample(tokens=33)),
        ):
            span.on_event(event)
        span.solved(solution())
        request.ended("POST", "/solve", 200)
    solve = recorded.one("solve")
    assert parent_id(solve) == id_of(recorded.one("POST /solve"))
    assert attributes(solve) == {
        "rlcm.alpha": 0.1,
        "rlcm.risk": "selective",
        "rlcm.samples": 3,
        "rlcm.vote": "confidence",
        "rlcm.answered": True,
        "rlcm.certificate": "c0",
        "gen_ai.usage.input_tokens": 50,
        "gen_ai.usage.output_tokens": 108,
    }
    first, second = recorded.all("sample")
    assert parent_id(first) == parent_id(second) == id_of(solve)
    assert first.start_time == second.start_time == solve.start_time
    assert attributes(first) == {
        "rlcm.sample": 0,
        "rlcm.exit": "high",
        "rlcm.reasoning_tokens": 40,
        "rlcm.confidence": 0.9,
        "rlcm.tokens": 44,
    }
    assert attributes(second) == {"rlcm.sample": 1, "rlcm.tokens": 33, "rlcm.cancelled": True}
    (checkpoint,) = first.events
    assert (checkpoint.name, dict(checkpoint.attributes or {})) == (
        "checkpoint",
        {"tokens": 32, "confidence": 0.5},
    )
    (vote,) = solve.events
    assert dict(vote.attributes or {}) == {"counted": 1, "share": 1.0, "decided": True}
    forced = recorded.one("forced answer")
    assert parent_id(forced) == id_of(first)
    assert first.start_time is not None
    assert forced.start_time is not None
    assert forced.start_time >= first.start_time


def test_no_span_says_what_was_asked_or_answered(recorded: Recorded) -> None:
    def fail() -> None:
        with recorded.tracing.request({}), recorded.tracing.question(QUESTION) as span:
            span.on_event(TokenEvent(0, 5, "7 apples"))
            span.on_event(VoteEvent(1, 3, {"7 apples": 0.9}, "7 apples", 1.0, decided=False))
            span.on_event(SampleEvent(0, sample()))
            span.solved(solution())
            raise ValueError(f"cannot read {PROBLEM}")

    with pytest.raises(ValueError, match="apples"):
        fail()
    written = "".join(span.to_json() for span in recorded.spans)
    assert "apples" not in written
    assert recorded.one("solve").status.description == "ValueError"


async def test_what_a_solver_tells_becomes_a_whole_trace(recorded: Recorded) -> None:
    engine = ScriptedEngine(Script(confidences=(0.5, 0.95), own=None), Script(c_end=0.6))
    grader = AnswerGrader()
    grader.start()
    solver = Solver(engine, Guarantees(engine.identities), grader)
    question = Question(PROBLEM, alpha=0.1, samples=2)
    heard: list[object] = []
    try:
        with observe(question, Metrics(), recorded.tracing) as observed:
            on_event = observed.passing_on(heard.append)
            observed.solved(await solver.run(solver.prepare(question), on_event))
    finally:
        grader.close()
    samples = recorded.all("sample")
    assert len(samples) == 2
    assert {attributes(span)["rlcm.exit"] for span in samples} == {"natural"}
    assert all(len(span.events) == 3 for span in samples)
    forced = recorded.one("forced answer")
    assert parent_id(forced) in {id_of(span) for span in samples}
    assert recorded.one("solve").end_time is not None
    assert sum(isinstance(event, CheckpointEvent) for event in heard) == 6


async def test_a_question_that_is_cancelled_ends_its_spans_without_an_error(
    recorded: Recorded,
) -> None:
    metrics, begun = Metrics(), asyncio.Event()

    async def ask() -> None:
        with observe(QUESTION, metrics, recorded.tracing) as observed:
            observed.passing_on(lambda event: None)(CheckpointEvent(0, Reading(32, 0.5)))
            begun.set()
            await asyncio.Event().wait()

    asking = asyncio.create_task(ask())
    await begun.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert attributes(recorded.one("solve"))["rlcm.cancelled"] is True
    assert recorded.one("solve").status.status_code is StatusCode.UNSET
    assert recorded.one("sample").end_time is not None
    assert b'rlcm_question_failures_total{kind="cancelled"} 1.0' in metrics.page()[0]


def test_what_is_observed_goes_on_the_access_line(exchange: Exchange) -> None:
    metrics = Metrics()
    with observe(QUESTION, metrics, Tracing()) as observed:
        observed.solved(solution())
    assert exchange.fields["tokens"]["reasoning"] == 80  # type: ignore[index]
    assert {name: exchange.fields[name] for name in ("alpha", "n", "outcome", "certificate")} == {
        "alpha": 0.1,
        "n": 3,
        "outcome": "answered",
        "certificate": "c0",
    }
    assert exchange.private == [PROBLEM]
    assert "apples" not in str(exchange.fields)
    assert b"rlcm_question_seconds_count 1.0" in metrics.page()[0]


def test_prompts_and_answers_go_there_only_if_asked_for(exchange: Exchange) -> None:
    with observe(QUESTION, Metrics(), Tracing(), log_prompts=True) as observed:
        observed.solved(solution())
    assert exchange.fields["messages"] == [PROBLEM]
    assert exchange.fields["answer"] == "7 apples"
    assert exchange.private == []


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (Infeasible(0.1, 0.2, (), "no"), "infeasible"),
        (Overloaded(3, 4), "overloaded"),
        (TooManyAtOnce(3, 4), "too_many_at_once"),
        (NotReady("starting"), "not_ready"),
        (asyncio.CancelledError(), "cancelled"),
        (ValueError("anything that a caller could write"), "internal"),
    ],
)
def test_failures_are_of_few_kinds(error: BaseException, kind: str) -> None:
    assert failure_kind(error) == kind
    metrics = Metrics()
    with pytest.raises(type(error)), observe(QUESTION, metrics, Tracing()):
        raise error
    expected = f'rlcm_question_failures_total{{kind="{kind}"}} 1.0'
    assert expected in metrics.page()[0].decode()


def test_without_an_endpoint_nothing_of_opentelemetry_is_imported() -> None:
    code = (
        "import sys; from rlcm_serve.telemetry import question, tracing; "
        "tracing.start_tracing(None).close(); "
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"


def test_an_endpoint_without_the_package_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "rlcm_serve.telemetry.spans")
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.resources", None)
    with pytest.raises(SettingsRefused, match=r"pip install '\.\[otel\]'` in the checkout"):
        start_tracing("http://localhost:4318")


class Collector(http.server.BaseHTTPRequestHandler):
    """An OTLP/HTTP receiver that keeps what it is sent."""

    received: list[tuple[str, bytes]]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.received.append((self.path, body))
        self.send_response(200)
        self.end_headers()

    def log_request(self, *args: Any) -> None:
        pass


@pytest.mark.parametrize("path", ["", "/", "/v1/traces"])
def test_spans_arrive_at_a_collector(path: str) -> None:
    class Receiver(Collector):
        received: list[tuple[str, bytes]] = []  # noqa: RUF012

    with http.server.HTTPServer(("127.0.0.1", 0), Receiver) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        tracing = start_tracing(f"http://127.0.0.1:{server.server_port}{path}")
        with tracing.request({}) as span:
            span.ended("POST", "/solve", 200)
        tracing.close()
        server.shutdown()
    ((received_at, body),) = Receiver.received
    assert received_at == "/v1/traces"
    assert b"POST /solve" in body
    assert b"rlcm-serve" in body
