"""The answer that a question's own rollouts would have got at the full budget.

Every rollout goes on from the tokens where it stopped. So answer and full-budget answer come from
one draw, as in calibration, where a recorded rollout is cut at the exit: the share of questions
that only the full budget answers correctly is the `regret` that a certificate bounds. Two
independent draws would differ by chance alone, and by more.

**Not covered.** A confidence that looks back over tokens (`rlcm_serve.engine.worker.statistics`)
looks back to where the rollout went on. It decides nothing with one sample; with several, it weighs
their votes. A sample that was cancelled between its thinking and its answer thinks on.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

from calibration import FULL_BUDGET, ExitPolicy, ExitReason
from rlcm_serve.answers.forcing import answer_rollout
from rlcm_serve.answers.grading.verdicts import Verdicts
from rlcm_serve.core import CancelledSample, Delta, Reading, Rollout, Sample, Solution, TokenIds
from rlcm_serve.errors import EngineDead
from rlcm_serve.solving.sample import gives_answer
from rlcm_serve.solving.solver import Prepared
from rlcm_serve.solving.vote import VoteTally

PRIORITY = 2
"""Below questions (0) and calibration jobs (1)."""
POLL = 0.1
"""Seconds between two looks at whether callers still wait."""


@dataclass(frozen=True, slots=True)
class FullAnswer:
    """The answer at the full budget, None without one, and the reasoning tokens that it took."""

    answer: str | None
    tokens: int


async def full_answer(
    prepared: Prepared, solution: Solution, verdicts: Verdicts, is_busy: Callable[[], bool]
) -> FullAnswer:
    """Runs the samples of a solution on to the full budget, one after the other, and votes.

    Args:
        prepared: the question as it was asked.
        solution: what came of it.
        verdicts: on answers of the question's profile.
        is_busy: whether callers wait; the run then leaves the engine, and goes on later.

    Raises:
        EngineDead: the engine has died.
    """
    question = prepared.question
    vote = VoteTally(question.samples, question.vote, FULL_BUDGET, verdicts)
    before = sum(len(_thought(sample)) for sample in solution.samples)
    after, whole = 0, None
    for number, sample in enumerate(solution.samples):
        whole = await _whole(prepared, sample, solution.policy or FULL_BUDGET, is_busy)
        after += len(whole.rollout.tokens)
        await vote.add(number, whole)
    alone = whole.answer if whole is not None and question.samples == 1 else vote.leader
    return FullAnswer(alone, after - before)


async def _whole(
    prepared: Prepared,
    sample: Sample | CancelledSample,
    policy: ExitPolicy,
    is_busy: Callable[[], bool],
) -> Sample:
    """The sample at the full budget.

    One that ended by itself and was read is this already, also if there was nothing to read: a
    second try would be another draw.
    """
    if isinstance(sample, Sample):
        if sample.rollout.exit.is_own_end and gives_answer(policy, sample.rollout):
            return sample
        ended: Rollout | None = sample.rollout
        readings = sample.rollout.readings
    else:
        ended, readings = sample.ended, sample.readings
    if ended is None or not ended.exit.is_own_end:
        ended = await _Run(prepared, _thought(sample), readings).finish(is_busy)
    generation = replace(prepared.generation, priority=PRIORITY)
    found = await answer_rollout(prepared.reasoner, prepared.prompt, ended, generation)
    return Sample(ended, found.answers[0], found.tokens, found.suffix_tokens, found.text)


def _thought(sample: Sample | CancelledSample) -> TokenIds:
    return sample.rollout.tokens if isinstance(sample, Sample) else sample.ids


class _Run:
    """One rollout that goes on from its tokens, with pauses, until it ends by itself."""

    def __init__(self, prepared: Prepared, thought: TokenIds, readings: Sequence[Reading]) -> None:
        self._prepared = prepared
        self._ids = list(thought)
        self._readings = list(readings)

    async def finish(self, is_busy: Callable[[], bool]) -> Rollout:
        """The whole rollout."""
        budget = self._prepared.generation.budget
        while len(self._ids) < budget.thinking:
            while is_busy():  # nobody tells when callers stop waiting  # noqa: ASYNC110
                await asyncio.sleep(POLL)
            if (rollout := await self._go_on(is_busy)) is not None:
                return rollout
        end = Reading(len(self._ids), math.nan, is_final=True)
        return Rollout(tuple(self._ids), "", ExitReason.BUDGET, (*self._readings, end))

    async def _go_on(self, is_busy: Callable[[], bool]) -> Rollout | None:
        """Thinks on until the end, or until callers wait: then None."""
        prepared = self._prepared
        thinking = prepared.reasoner.think(
            prepared.prompt,
            FULL_BUDGET,
            replace(prepared.generation, priority=PRIORITY),
            thought=tuple(self._ids),
        )
        is_closed = False
        async with aclosing(thinking):
            async for event in thinking:
                match event:
                    case Delta():
                        self._ids += event.ids
                        is_closed = is_closed or event.is_answer or event.tokens > len(event.ids)
                        if is_busy() and not is_closed:
                            return None
                    case Reading():
                        self._readings.append(event)
                    case Rollout():
                        return replace(event, readings=tuple(self._readings))
        raise EngineDead("the engine ended a shadow run without a result: restart the service")
