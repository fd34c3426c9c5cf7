"""Writes the response to one question, whole or as a stream, whatever the interface."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar, NamedTuple

from rlcm_serve.api.error_responses import ErrorDocument
from rlcm_serve.api.wire.openai.answer_text import AnswerStream
from rlcm_serve.api.wire.openai.asked import OpenAIRequest
from rlcm_serve.api.wire.openai.outcome import Outcome
from rlcm_serve.core import Guarantee, Question, Solution
from rlcm_serve.events import Event, TokenEvent
from rlcm_serve.evidence.records import new_id
from rlcm_serve.solving.solver import Prepared


class Sent(NamedTuple):
    """One server-sent event: its data, and its name if it has one."""

    data: str
    name: str | None = None


class ResponseWriter(ABC):
    """Writes one response: `whole`, or as a stream.

    A stream is `first`, then `spoken` with each event of the question, then `last` or `failure`.
    With one sample, its thinking is sent as it is generated, and so is its answer's text. With
    several, only the thinking of the sample that gives the answer is sent, before the answer.

    Args:
        body: the request.
        question: that it asks.
    """

    id_prefix: ClassVar[str]
    """Of the ids of responses."""

    def __init__(self, body: OpenAIRequest, question: Question) -> None:
        self.id = new_id(self.id_prefix)
        self.created = int(time.time())
        self._body, self._question = body, question
        self._answer = AnswerStream(None)

    def whole(self, solution: Solution) -> str:
        """The response as JSON."""
        return self._whole(self._outcome(solution), solution.guarantee)

    def first(self, prepared: Prepared) -> Iterator[Sent]:
        """The beginning of a stream, once the terms of the question are known."""
        # What the model writes by itself need not follow a schema, and is not the answer then.
        is_own = prepared.generation.schema is None
        is_spoken = is_own and self._question.samples == 1
        policy = prepared.terms.policy if is_spoken else None
        self._answer = AnswerStream(policy, self._body.stops)
        return self._begin(prepared.terms.guarantee)

    def spoken(self, event: Event) -> Iterator[Sent]:
        """The text of an event: more of the thinking, or of the answer; or nothing."""
        if isinstance(event, TokenEvent) and not event.is_answer:
            yield from self._think(event.text)
        elif text := self._answer.take(event):
            yield from self._write(text)

    def last(self, solution: Solution) -> Iterator[Sent]:
        """The end of a stream: what is left of the text, or a refusal, and how it went."""
        outcome = self._outcome(solution)
        if self._question.samples > 1 and outcome.thinking is not None:
            yield from self._think(outcome.thinking)
        if outcome.content is None:
            yield from self._refuse(outcome.refusal or "")
        elif rest := self._answer.rest(outcome.content):
            yield from self._write(rest)
        yield from self._end(outcome)

    @abstractmethod
    def failure(self, error: ErrorDocument) -> Sent:
        """The end of a stream whose question failed."""

    def _outcome(self, solution: Solution) -> Outcome:
        return Outcome.of(self.id, self._body, self._question, solution)

    @abstractmethod
    def _whole(self, outcome: Outcome, guarantee: Guarantee | None) -> str: ...

    @abstractmethod
    def _begin(self, guarantee: Guarantee | None) -> Iterator[Sent]: ...

    @abstractmethod
    def _think(self, text: str) -> Iterator[Sent]: ...

    @abstractmethod
    def _write(self, text: str) -> Iterator[Sent]: ...

    @abstractmethod
    def _refuse(self, text: str) -> Iterator[Sent]: ...

    @abstractmethod
    def _end(self, outcome: Outcome) -> Iterator[Sent]: ...
