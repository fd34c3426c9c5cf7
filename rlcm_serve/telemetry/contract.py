"""The contract of tracing: a span per request, question and sample. Here none is recorded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from rlcm_serve.core import Question, Solution
from rlcm_serve.events import Event


class RequestSpan:
    """The span of one HTTP request; this one is not recorded.

    `trace_id` is what log lines name the trace by.
    """

    trace_id: str | None = None

    def ended(self, method: str, route: str, status: int) -> None:
        """Notes what became of the request."""


class QuestionSpan:
    """The span of one question, with a child for each sample; this one is not recorded."""

    def on_event(self, event: Event) -> None:
        """Notes what happens while the question is being answered."""

    def solved(self, solution: Solution) -> None:
        """Notes what came of it."""


class Tracing:
    """Records nothing; `rlcm_serve.telemetry.spans.SpanTracing` does."""

    @contextmanager
    def request(self, headers: Mapping[str, str]) -> Iterator[RequestSpan]:
        """The span of a request; all spans begun within it are its children.

        Args:
            headers: of the request, by lower-case name; a W3C `traceparent` continues its trace.
        """
        yield RequestSpan()

    @contextmanager
    def question(self, question: Question) -> Iterator[QuestionSpan]:
        """The span of a question, a child of the request's."""
        yield QuestionSpan()

    def close(self) -> None:
        """Sends what has not been sent yet, for a few seconds at most."""
