"""One question's story: sample -> exit -> force the answer -> vote -> state the guarantee."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing

from calibration import INITIAL_STATE, ExitPolicy, ExitReason, answers_at_end, step
from calibration.voting import Vote, confidence_vote, is_answered, majority_vote
from rlcm_serve.answering import answer_thought
from rlcm_serve.answers import AnswerGrader
from rlcm_serve.core import Checkpoint, Question, Sample, Solution, Thought, TokenIds, VoteRule
from rlcm_serve.engine.base import ReasoningEngine
from rlcm_serve.errors import EngineDead
from rlcm_serve.guarantees import Guarantees, Terms

OnCheckpoint = Callable[[int, Checkpoint], Awaitable[None]]
"""Told of every reading as it is taken: the number of the sample, from 0, and the reading."""


async def _tell_nobody(sample: int, checkpoint: Checkpoint) -> None:
    pass


class Solver:
    """Answers questions with one engine, under what its certificates allow."""

    def __init__(
        self, engine: ReasoningEngine, guarantees: Guarantees, grader: AnswerGrader
    ) -> None:
        self.engine = engine
        self.guarantees = guarantees
        self.grader = grader

    async def solve(
        self, question: Question, on_checkpoint: OnCheckpoint = _tell_nobody
    ) -> Solution:
        """Lets the model think until the policy for the question's alpha ends it, then answers.

        Every sample thinks until its exit. After a high exit, or at its end if its confidence
        suffices there, it gives an answer: the model's own, or else a forced one. After a low exit
        it does if the policy says so. The samples' answers are put to the vote, whose winner is
        given if its share suffices. Cancelling this call aborts all samples inside the engine.

        Raises:
            Infeasible: no policy keeps the question's alpha; no token was generated.
            RequestRefused: the problem does not fit into the model's context.
            EngineDead: the engine is gone.
        """
        terms = self.guarantees.terms_for(question)
        prompt = self.engine.prompt(question.problem)
        samples = await self._draw(prompt, terms, question.samples, on_checkpoint)
        classes = await self.grader.classes_async([sample.answer for sample in samples])
        vote = _vote(question.vote, classes, samples)
        answers = _answer_of_each_class(classes, samples)
        winner = _winner(vote, terms.policy, len(samples))
        return Solution(
            answer=None if winner is None else answers[winner],
            confidence=None if winner is None else _confidence(vote, samples),
            samples=tuple(samples),
            policy=terms.policy,
            guarantee=terms.guarantee,
            no_guarantee_reason=terms.no_guarantee_reason,
            tally={answers[number]: weight for number, weight in vote.tally.items()},
            prompt_tokens=len(prompt),
        )

    async def _draw(
        self, prompt: TokenIds, terms: Terms, count: int, on_checkpoint: OnCheckpoint
    ) -> list[Sample]:
        """All samples, drawn at the same time."""
        try:
            async with asyncio.TaskGroup() as group:
                drawing = [
                    group.create_task(self._sample(number, prompt, terms, on_checkpoint))
                    for number in range(count)
                ]
        except ExceptionGroup as failures:
            # The first one cancelled the others.
            raise failures.exceptions[0] from None
        return [sample.result() for sample in drawing]

    async def _sample(
        self, number: int, prompt: TokenIds, terms: Terms, on_checkpoint: OnCheckpoint
    ) -> Sample:
        thought = await self._think(number, prompt, terms, on_checkpoint)
        if not gives_answer(terms.policy, thought):
            return Sample(thought, answer=None, answer_tokens=thought.answer_tokens)
        given = await answer_thought(self.engine, prompt, thought, terms.budget)
        return Sample(thought, given.answers[0], given.tokens)

    async def _think(
        self, number: int, prompt: TokenIds, terms: Terms, on_checkpoint: OnCheckpoint
    ) -> Thought:
        async with aclosing(self.engine.think(prompt, terms.policy, terms.budget)) as readings:
            async for reading in readings:
                if isinstance(reading, Thought):
                    return reading
                await on_checkpoint(number, reading)
        raise EngineDead("the engine ended a sample without its result; restart the service")


def gives_answer(policy: ExitPolicy, thought: Thought) -> bool:
    """Whether a sample is answered: after a high exit, a low one if told to, or if c_end >= λa."""
    if thought.exit is ExitReason.HIGH:
        return True
    if thought.exit is ExitReason.LOW:
        return policy.answer_on_low
    *checkpoints, end = thought.checkpoints
    state = INITIAL_STATE
    for checkpoint in checkpoints:
        state, _ = step(policy, state, checkpoint.tokens, checkpoint.confidence)
    return answers_at_end(policy, state, end.confidence)


def _vote(rule: VoteRule, classes: Sequence[int], samples: Sequence[Sample]) -> Vote:
    if rule is VoteRule.MAJORITY:
        return majority_vote(classes)
    return confidence_vote(classes, [_weight(sample) for sample in samples])


def _weight(sample: Sample) -> float:
    # A sample whose reading failed is never answered; it has no say.
    confidence = sample.thought.confidence
    return 0.0 if math.isnan(confidence) else confidence


def _answer_of_each_class(classes: Sequence[int], samples: Sequence[Sample]) -> dict[int, str]:
    """A class of equal answers goes by the text of its first sample."""
    answers: dict[int, str] = {}
    for number, sample in zip(classes, samples, strict=True):
        if sample.answer is not None:
            answers.setdefault(number, sample.answer)
    return answers


def _winner(vote: Vote, policy: ExitPolicy, samples: int) -> int | None:
    """The class that is given as the answer, if one is."""
    given = is_answered(samples, vote.winner is not None, vote.share, policy.lambda_vote)
    return vote.winner if given else None


def _confidence(vote: Vote, samples: Sequence[Sample]) -> float:
    return samples[0].thought.confidence if len(samples) == 1 else vote.share
