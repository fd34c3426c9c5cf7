"""`rlcm solve --file --ray`: engines in Ray's processes answer the rows; the files stay here.

The journal and the output are those of a run on one engine, so a run may continue with any number
of engines.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import ray
from ray.exceptions import RayError

from rlcm_serve.core import Question
from rlcm_serve.errors import EngineDead, RlcmError
from rlcm_serve.ray.cluster import started_ray
from rlcm_serve.solving.batch.answers import Answering, Describe
from rlcm_serve.solving.batch.questions import FileQuestion, QuestionRow
from rlcm_serve.solving.service import Service

BuildService = Callable[[Callable[[str], None]], Service]
"""Builds the service of an engine; the argument is called with the stages of its start."""
_ENDS = "the run ends here"
"""In place of a row: the error that ends the run. Not all exceptions can be sent."""
_AT_ONCE = 1000
"""Calls that one of Ray's processes takes at a time."""


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
        self._service = build(lambda stage: None)
        self._question, self._facts = question, facts
        self._answering = Answering(self._service.when_ready, question, describe)

    async def start(self) -> dict[str, Any]:
        """Starts the engine; returns its facts, or the error."""
        try:
            await self._service.start()
            return self._facts(self._service, self._question)
        except RlcmError as error:
            return {_ENDS: str(error)}

    async def answer(self, row: QuestionRow) -> dict[str, Any]:
        """The row of answers, or the error that ends the run."""
        try:
            return await self._answering.answer(row)
        except RlcmError as error:
            return {_ENDS: str(error)}

    async def remember_declined(self, question: FileQuestion) -> None:
        """As `Answering.remember_declined`."""
        await self._answering.remember_declined(question)

    async def stop(self) -> None:
        """Stops the engine."""
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
        answered: dict[str, Any] = await _result(self._actor(problem).answer.remote(row))
        return answered

    async def remember_declined(self, question: FileQuestion) -> None:
        """Notes a question that an earlier run has asked, and that got no answer."""
        await _result(self._actor(question.problem).remember_declined.remote(question))

    def _actor(self, problem: str) -> Any:
        return self.actors[crc32(problem.encode()) % len(self.actors)]


@asynccontextmanager
async def engines_on_ray(
    count: int,
    build: BuildService,
    question: Question,
    describe: Describe,
    facts: Callable[[Service, Question], dict[str, Any]],
) -> AsyncIterator[Engines]:
    """Engines on the cluster that RAY_ADDRESS names, or on a cluster of this machine alone.

    Raises:
        EngineDead: an engine did not start, or the engines differ.
    """
    with started_ray(os.environ.get("RAY_ADDRESS", "local")):
        gpus = 1 if ray.cluster_resources().get("GPU") else 0
        kind = ray.remote(num_cpus=1, num_gpus=gpus, max_concurrency=_AT_ONCE)(Engine)
        actors = [kind.remote(build, question, describe, facts) for _ in range(count)]
        try:
            found = await asyncio.gather(*(_result(actor.start.remote()) for actor in actors))
            if any(other != found[0] for other in found):
                raise EngineDead("the engines on Ray differ: install the same model on all nodes")
            yield Engines(actors, found[0])
        finally:
            stopping = (_result(actor.stop.remote()) for actor in actors)
            await asyncio.gather(*stopping, return_exceptions=True)


async def _result(reference: Any) -> Any:
    """What a call to an engine returns.

    Raises:
        EngineDead: the engine's process has ended, or the run is to end.
    """
    try:
        result = await reference
    except RayError as error:
        raise EngineDead(
            f"an engine on Ray has ended: run the same command again to continue ({error})"
        ) from error
    if isinstance(result, dict) and _ENDS in result:
        raise EngineDead(result[_ENDS])
    return result
