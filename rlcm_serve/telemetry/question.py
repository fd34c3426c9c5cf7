"""Reports one question to metrics, traces and the access log."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from rlcm_serve.core import Question, Solution
from rlcm_serve.errors import RlcmError
from rlcm_serve.events import Event, OnEvent
from rlcm_serve.telemetry import logs
from rlcm_serve.telemetry.contract import QuestionSpan, Tracing
from rlcm_serve.telemetry.metrics import Metrics
from rlcm_serve.telemetry.question_metrics import QuestionMetrics


@dataclass(frozen=True, slots=True)
class Observation:
    """Records one question while it is being answered."""

    question: Question
    _counted: Sequence[QuestionMetrics]
    _span: QuestionSpan
    _began: float
    _log_prompts: bool

    def passing_on(self, on_event: OnEvent) -> OnEvent:
        """An event handler that records each event, then passes it on to `on_event`."""
        note = self._span.on_event

        def record_and_pass_on(event: Event) -> None:
            note(event)
            on_event(event)

        return record_and_pass_on

    def solved(self, solution: Solution) -> None:
        """Records the solution; call it once."""
        for metrics in self._counted:
            metrics.solved(self.question, solution, time.monotonic() - self._began)
        self._span.solved(solution)
        promised = solution.guarantee
        logs.add_fields(
            outcome="abstained" if solution.abstained else "answered",
            certificate=None if promised is None else promised.certificate,
            tokens=solution.tokens_by_kind,
        )
        if self._log_prompts:
            logs.add_fields(answer=solution.answer)


@contextmanager
def observe(
    question: Question,
    metrics: Metrics,
    tracing: Tracing,
    *,
    key_id: str | None = None,
    answer_id: str = "",
    log_prompts: bool = False,
) -> Iterator[Observation]:
    """Records a question for as long as the context lasts; an error in it counts as a failure.

    Args:
        question: the question, which may still wait in the queue.
        metrics: counts the question.
        tracing: records its span.
        key_id: the key that asks.
        answer_id: of the answer, by which labels name it later; "" if it has none.
        log_prompts: whether the access line shows messages and answer.
    """
    texts = [message.content for message in question.messages]
    logs.add_fields(alpha=question.alpha, n=question.samples)
    if log_prompts:
        logs.add_fields(messages=texts)
    else:
        logs.keep_private(*texts)
    counted = metrics.questions_of(key_id)
    with tracing.question(question) as span:
        if answer_id:
            span.named(answer_id)
        try:
            yield Observation(question, counted, span, time.monotonic(), log_prompts)
        except BaseException as error:
            kind = failure_kind(error)
            for one in counted:
                one.failed(kind)
            logs.add_fields(outcome="cancelled" if kind == "cancelled" else "failed")
            raise


def failure_kind(error: BaseException) -> str:
    """A label for an error: the name of one of our errors, `cancelled`, or `internal`.

    `cancelled` means that the client disconnected, or that the service was stopped.
    """
    if isinstance(error, asyncio.CancelledError | GeneratorExit):
        return "cancelled"
    if isinstance(error, RlcmError):
        return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(error).__name__).lower()
    return "internal"
