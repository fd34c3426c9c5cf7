"""The contract of tracing: a span per request, question and sample. Here none is recorded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from rlcm_serve.core import Question, Solution
from rlcm_serve.events import Event


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What an evaluation found: a label of one answer, or an alarm about many.

    Attributes:
        name: of what was evaluated.
        label: the finding, one of a few words.
        score: the finding as a number, if it is one.
        response_id: of the answer; None if it is about many.
        explanation: in words, without prompts and answers.
        attributes: further ones.
    """

    name: str
    label: str
    score: float | None = None
    response_id: str | None = None
    explanation: str | None = None
    attributes: Mapping[str, str | float] = field(default_factory=dict)


class RequestSpan:
    """The span of one HTTP request; this class records nothing.

    Log lines show `trace_id`.
    """

    trace_id: str | None = None

    def ended(self, method: str, route: str, status: int) -> None:
        """Records the outcome of the request."""


class QuestionSpan:
    """The span of one question, with a child per sample; this class records nothing."""

    def named(self, answer_id: str) -> None:
        """Records the id of the answer, by which labels name it later."""

    def on_event(self, event: Event) -> None:
        """Records an event of the question."""

    def solved(self, solution: Solution) -> None:
        """Records the solution."""


class Tracing:
    """Records nothing; `rlcm_serve.telemetry.spans.SpanTracing` does."""

    @contextmanager
    def request(self, headers: Mapping[str, str]) -> Iterator[RequestSpan]:
        """The span of a request; every span begun inside it is its child.

        Args:
            headers: the request's headers by lower-case name. A W3C `traceparent` continues its
                trace.
        """
        yield RequestSpan()

    @contextmanager
    def question(self, question: Question) -> Iterator[QuestionSpan]:
        """The span of a question, a child of the request's."""
        yield QuestionSpan()

    def evaluated(self, evaluation: Evaluation) -> None:
        """Records an evaluation, within the current span. May be called in any thread."""

    def close(self) -> None:
        """Sends the remaining spans; takes a few seconds at most."""
