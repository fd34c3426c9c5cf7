"""One question, told to metrics, traces and the access log alike."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rlcm_serve.core import Question, Solution
from rlcm_serve.errors import RlcmError
from rlcm_serve.events import Event, OnEvent
from rlcm_serve.telemetry import logs
from rlcm_serve.telemetry.contract import QuestionSpan, Tracing
from rlcm_serve.telemetry.metrics import Metrics
from rlcm_serve.telemetry.question_metrics import tokens_by_kind


@dataclass(frozen=True, slots=True)
class Observation:
    """What is noted of one question while it is being answered."""

    question: Question
    _metrics: Metrics
    _span: QuestionSpan
    _began: float
    _log_prompts: bool

    def passing_on(self, on_event: OnEvent) -> OnEvent:
        """What the solver is to tell of every event, so that it is noted and `on_event` told."""
        note = self._span.on_event

        def record_and_pass_on(event: Event) -> None:
            note(event)
            on_event(event)

        return record_and_pass_on

    def solved(self, solution: Solution) -> None:
        """Notes what came of the question; call it once."""
        self._metrics.solved(self.question, solution, time.monotonic() - self._began)
        self._span.solved(solution)
        promised = solution.guarantee
        logs.add_fields(
            answered=not solution.abstained,
            certificate=None if promised is None else promised.certificate,
            tokens=tokens_by_kind(solution),
        )
        if self._log_prompts:
            logs.add_fields(answer=solution.answer)


@contextmanager
def observe(
    question: Question, metrics: Metrics, tracing: Tracing, *, log_prompts: bool = False
) -> Iterator[Observation]:
    """Measures a question for as long as the context lasts; an error in it counts as a failure.

    Args:
        question: which may yet wait for a place.
        metrics: where it is counted.
        tracing: where its span goes.
        log_prompts: whether its access line shows what was asked and answered.
    """
    texts = [message.content for message in question.messages]
    logs.add_fields(alpha=question.alpha, n=question.samples)
    if log_prompts:
        logs.add_fields(messages=texts)
    else:
        logs.keep_private(*texts)
    with tracing.question(question) as span:
        try:
            yield Observation(question, metrics, span, time.monotonic(), log_prompts)
        except BaseException as error:
            metrics.failed(failure_kind(error))
            raise


def failure_kind(error: BaseException) -> str:
    """One of few words for an error: an own one's name, `cancelled`, or `internal`.

    `cancelled` is a client that left, or a service that was stopped.
    """
    if isinstance(error, asyncio.CancelledError | GeneratorExit):
        return "cancelled"
    if isinstance(error, RlcmError):
        return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(error).__name__).lower()
    return "internal"
