"""Spans of OpenTelemetry. Imported only if an endpoint for traces is set."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from typing import Self
from urllib.parse import urlsplit

from opentelemetry._logs import SeverityNumber
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from rlcm_serve.core import CancelledSample, Question, Sample, Solution
from rlcm_serve.events import CheckpointEvent, Event, ExitEvent, SampleEvent, TokenEvent, VoteEvent
from rlcm_serve.telemetry.contract import Evaluation, QuestionSpan, RequestSpan, Tracing

TRACES_PATH, LOGS_PATH = "/v1/traces", "/v1/logs"
"""Default paths of an OTLP/HTTP receiver."""
EVALUATION = "gen_ai.evaluation.result"
"""Name of an event; semantic conventions for generative AI, in development."""
PATIENCE = 5.0
"""Timeout in seconds of one delivery to the collector."""
SERVER_ERROR = 500


class SpanTracing(Tracing):
    """Records spans with a private provider, which other code in the process does not use."""

    def __init__(self, provider: TracerProvider, events: LoggerProvider | None = None) -> None:
        self._provider = provider
        self._events = events
        self._tracer = provider.get_tracer("rlcm_serve", version("rlcm-serve"))
        self._propagator = TraceContextTextMapPropagator()

    @classmethod
    def to(cls, endpoint: str) -> Self:
        """Sends spans to the OTLP/HTTP receiver at this URL, in batches, from a thread.

        A URL without a path gets the standard path. `OTEL_RESOURCE_ATTRIBUTES`,
        `OTEL_TRACES_SAMPLER` and OpenTelemetry's other environment variables apply.
        """
        url = endpoint if urlsplit(endpoint).path.strip("/") else endpoint.rstrip("/") + TRACES_PATH
        named = {"service.name": "rlcm-serve", "service.version": version("rlcm-serve")}
        provider = TracerProvider(resource=Resource.create(named))
        exporter = OTLPSpanExporter(url, timeout=PATIENCE)
        provider.add_span_processor(BatchSpanProcessor(exporter))
        if not url.endswith(TRACES_PATH):
            return cls(provider)  # nobody knows where such a receiver takes events
        events = LoggerProvider(resource=provider.resource)
        to_logs = url.removesuffix(TRACES_PATH) + LOGS_PATH
        events.add_log_record_processor(
            BatchLogRecordProcessor(OTLPLogExporter(to_logs, timeout=PATIENCE))
        )
        return cls(provider, events)

    @contextmanager
    def request(self, headers: Mapping[str, str]) -> Iterator[RequestSpan]:
        """A span of kind server, which is the current span inside the context."""
        with self._tracer.start_as_current_span(
            "request",
            context=self._propagator.extract(headers),
            kind=SpanKind.SERVER,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            yield _RequestSpan(span)

    @contextmanager
    def question(self, question: Question) -> Iterator[QuestionSpan]:
        """A span `solve`, with a child `sample` each that may have a child `forced answer`."""
        # Not the current span: a stream may be read in one task and closed in another.
        recorded = _QuestionSpan(self._tracer, question)
        try:
            yield recorded
        except (asyncio.CancelledError, GeneratorExit):
            recorded.span.set_attribute("rlcm.cancelled", True)
            raise
        except BaseException as error:
            # Only the name of the error: its message may quote the prompt.
            recorded.span.set_status(Status(StatusCode.ERROR, type(error).__name__))
            raise
        finally:
            recorded.end()

    def evaluated(self, evaluation: Evaluation) -> None:
        """An event `gen_ai.evaluation.result` of OpenTelemetry's conventions for generative AI."""
        if self._events is None:
            return
        named = {
            "gen_ai.evaluation.name": evaluation.name,
            "gen_ai.evaluation.score.label": evaluation.label,
            "gen_ai.evaluation.score.value": evaluation.score,
            "gen_ai.evaluation.explanation": evaluation.explanation,
            "gen_ai.response.id": evaluation.response_id,
            **evaluation.attributes,
        }
        self._events.get_logger("rlcm_serve", version("rlcm-serve")).emit(
            timestamp=time.time_ns(),
            severity_number=SeverityNumber.INFO,
            event_name=EVALUATION,
            attributes={name: value for name, value in named.items() if value is not None},
        )

    def close(self) -> None:
        """Sends the last batch; later spans are lost."""
        self._provider.shutdown()
        if self._events is not None:
            self._events.shutdown()


class _RequestSpan(RequestSpan):
    def __init__(self, span: Span) -> None:
        self._span = span
        self.trace_id = f"{span.get_span_context().trace_id:032x}"

    def ended(self, method: str, route: str, status: int) -> None:
        self._span.update_name(f"{method} {route}")
        self._span.set_attribute("http.request.method", method)
        self._span.set_attribute("http.route", route)
        self._span.set_attribute("http.response.status_code", status)
        if status >= SERVER_ERROR:
            self._span.set_status(Status(StatusCode.ERROR))


class _QuestionSpan(QuestionSpan):
    """Turns the solver's events into spans and span events.

    All samples start together, so each sample's span begins with the question's span.
    """

    def __init__(self, tracer: Tracer, question: Question) -> None:
        self._tracer = tracer
        self._began = time.time_ns()
        self._samples: dict[int, Span] = {}
        self._exits: dict[int, int] = {}
        attributes: dict[str, str | int | float] = {
            "rlcm.alpha": question.alpha,
            "rlcm.risk": str(question.risk),
            "rlcm.samples": question.samples,
            "rlcm.vote": str(question.vote),
        }
        self.span = tracer.start_span("solve", start_time=self._began, attributes=attributes)

    def named(self, answer_id: str) -> None:
        self.span.set_attribute("gen_ai.response.id", answer_id)

    def on_event(self, event: Event) -> None:
        match event:
            case TokenEvent():
                pass
            case CheckpointEvent(sample, checkpoint):
                read = {"tokens": checkpoint.tokens, "confidence": checkpoint.confidence}
                self._sample(sample).add_event("checkpoint", read)
            case ExitEvent(sample, reason, tokens, confidence):
                self._exits[sample] = time.time_ns()
                span = self._sample(sample)
                span.set_attribute("rlcm.exit", str(reason))
                span.set_attribute("rlcm.reasoning_tokens", tokens)
                span.set_attribute("rlcm.confidence", confidence)
            case SampleEvent(sample, result):
                self._ended(sample, result)
            case VoteEvent():
                counted = {"counted": event.counted, "share": event.share}
                self.span.add_event("vote", {**counted, "decided": event.decided})

    def solved(self, solution: Solution) -> None:
        promised = solution.guarantee
        self.span.set_attribute("rlcm.answered", not solution.abstained)
        self.span.set_attribute(
            "rlcm.certificate", "" if promised is None else promised.certificate
        )
        self.span.set_attribute("gen_ai.usage.input_tokens", solution.prompt_tokens)
        self.span.set_attribute("gen_ai.usage.output_tokens", solution.tokens)

    def end(self) -> None:
        """Ends every unfinished span."""
        for span in self._samples.values():
            span.end()
        self.span.end()

    def _sample(self, number: int) -> Span:
        if number not in self._samples:
            self._samples[number] = self._child(self.span, "sample", self._began)
            self._samples[number].set_attribute("rlcm.sample", number)
        return self._samples[number]

    def _ended(self, number: int, result: Sample | CancelledSample) -> None:
        span = self._sample(number)
        span.set_attribute("rlcm.tokens", result.tokens)
        if isinstance(result, CancelledSample):
            span.set_attribute("rlcm.cancelled", True)
        elif result.forced and number in self._exits:
            self._child(span, "forced answer", self._exits[number]).end()
        span.end()
        del self._samples[number]

    def _child(self, parent: Span, name: str, began: int) -> Span:
        within = set_span_in_context(parent)
        return self._tracer.start_span(name, context=within, start_time=began)
