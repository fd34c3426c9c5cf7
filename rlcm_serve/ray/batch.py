"""`rlcm solve --file --ray`: engines in Ray's processes answer the rows; the files stay here.

The journal and the output are those of a run on one engine, so a run may continue with any number
of engines.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from zlib import crc32

from rlcm_serve.core import Question
from rlcm_serve.ray.actors import Failure, engines_started, received, sent
from rlcm_serve.recording.problems import plain_text
from rlcm_serve.solving.batch.answers import Answering, Describe
from rlcm_serve.solving.batch.questions import FileQuestion, QuestionRow
from rlcm_serve.solving.service import Service

BuildService = Callable[[Callable[[str], None]], Service]
"""Builds the service of an engine; the argument is called with the stages of its start."""


class Engine:
    """One engine with its service, in a process of Ray.

    Args:
        build: its service.
        question: the settings of all questions.
        describe: makes the values of a solution.
        facts: what a run's journal says about the engine.
    """

    def __init__(
        self,
        build: BuildService,
        question: Question,
        describe: Describe,
        facts: Callable[[Service, Question], dict[str, Any]],
    ) -> None:
        self._build, self._question, self._describe, self._facts = build, question, describe, facts
        self._service: Service | None = None
        self._answering: Answering

    async def start(self) -> dict[str, Any] | Failure:
        """Starts the engine; returns its facts."""

        async def started() -> dict[str, Any]:
            service = self._service = self._build(lambda stage: None)
            self._answering = Answering(service.when_ready, self._question, self._describe)
            await service.start()
            return self._facts(service, self._question)

        return await sent(started())

    async def answer(self, row: QuestionRow) -> dict[str, Any] | Failure:
        """The row of answers."""
        return await sent(self._answering.answer(row))

    async def remember_declined(self, question: FileQuestion) -> Failure | None:
        """As `Answering.remember_declined`."""
        return await sent(self._answering.remember_declined(question))

    async def stop(self) -> None:
        """Stops the engine."""
        if self._service is not None:
            self._service.stop()


@dataclass(frozen=True, slots=True)
class Engines:
    """Answers rows on several engines, as `Answering` does on one.

    A question that the file has more than once always goes to the same engine, which remembers
    whether it was answered the first time.

    Attributes:
        actors: Ray's handles of `Engine`s.
        facts: of all engines.
    """

    actors: Sequence[Any]
    facts: dict[str, Any]

    async def answer(self, row: QuestionRow) -> dict[str, Any]:
        """The row of answers for a row of the file.

        Raises:
            EngineDead: no question can be answered with these settings, or a process ended.
        """
        problem = "" if row.question is None else row.question.problem
        answered: dict[str, Any] = await received(self._actor(problem).answer.remote(row))
        return answered

    async def remember_declined(self, question: FileQuestion) -> None:
        """Notes a question that an earlier run has asked, and that got no answer."""
        await received(self._actor(question.problem).remember_declined.remote(question))

    def _actor(self, problem: str) -> Any:
        return self.actors[crc32(plain_text(problem).encode()) % len(self.actors)]


@asynccontextmanager
async def engines_on_ray(
    count: int,
    build: BuildService,
    question: Question,
    describe: Describe,
    facts: Callable[[Service, Question], dict[str, Any]],
) -> AsyncIterator[Engines]:
    """Engines that answer rows; see `engines_started`.

    Raises:
        RequestRefused, EngineDead: an engine did not start, or the engines differ.
    """
    async with engines_started(count, Engine, build, question, describe, facts) as (actors, found):
        yield Engines(actors, found)
