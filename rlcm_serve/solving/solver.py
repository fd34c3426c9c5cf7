"""One question's story: sample -> exit -> force the answer -> vote -> state the guarantee."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from calibration import ExitPolicy
from rlcm_serve.answers.grader import AnswerGrader
from rlcm_serve.core import (
    CancelledSample,
    GenerationSettings,
    Question,
    Sample,
    Sampling,
    Solution,
    TokenIds,
)
from rlcm_serve.engine.contract import ReasoningEngine
from rlcm_serve.errors import OutOfTime
from rlcm_serve.events import OnEvent, SampleEvent, VoteEvent, ignore_event
from rlcm_serve.solving.guarantees import Guarantees, Terms
from rlcm_serve.solving.sample import SampleRun
from rlcm_serve.solving.vote import VoteTally


@dataclass(frozen=True, slots=True)
class Prepared:
    """A question the engine will take, with the terms it is answered under."""

    question: Question
    terms: Terms
    prompt: TokenIds
    generation: GenerationSettings


class Solver:
    """Answers questions with one engine, under what its certificates allow."""

    def __init__(
        self, engine: ReasoningEngine, guarantees: Guarantees, grader: AnswerGrader
    ) -> None:
        self.engine = engine
        self.guarantees = guarantees
        self.grader = grader

    async def solve(self, question: Question, on_event: OnEvent = ignore_event) -> Solution:
        """Lets the model think until the policy for the question's alpha ends it, then answers.

        Every sample thinks until its exit. After a high exit, or at its end if its confidence
        suffices there, it gives an answer: the model's own, or else a forced one. After a low exit
        it does if the policy says so. The samples' answers are put to the vote, whose winner is
        given if its share suffices; samples that can no longer change that are ended. Cancelling
        this call aborts all samples inside the engine.

        Raises:
            Infeasible, RequestRefused: as `prepare`.
            EngineDead, OutOfTime: as `run`.
        """
        return await self.run(self.prepare(question), on_event)

    def prepare(self, question: Question, priority: int = 0) -> Prepared:
        """Settles what a question is answered under, before any token is generated.

        Raises:
            Infeasible: no policy keeps the question's alpha.
            RequestRefused: it does not fit into the model's context, or the engine cannot honour
                its sampling.
        """
        terms = self.guarantees.terms_for(question)
        prompt = self.engine.prompt(question.messages)
        certified = self.engine.identity.sampling
        generation = GenerationSettings(
            budget=terms.budget,
            sampling=Sampling(
                temperature=_first(question.temperature, certified.temperature),
                top_p=_first(question.top_p, certified.top_p),
            ),
            seed=question.seed,
            priority=priority,
        )
        self.engine.check(prompt, generation)
        return Prepared(question, terms, prompt, generation)

    async def run(
        self, prepared: Prepared, on_event: OnEvent = ignore_event, *, text: bool = False
    ) -> Solution:
        """Answers a prepared question; `on_event` is told what happens, `text` included if set.

        Raises:
            EngineDead: the engine is gone.
            OutOfTime: the question's time is up; its samples were aborted.
        """
        if prepared.terms.policy is None:
            return _abstention(prepared)
        async with in_time(prepared.question.timeout):
            return await self._answer(prepared, prepared.terms.policy, on_event, text)

    async def _answer(
        self, prepared: Prepared, policy: ExitPolicy, on_event: OnEvent, text: bool
    ) -> Solution:
        question = prepared.question
        vote = VoteTally(question.samples, question.vote, policy.lambda_vote, self.grader)
        samples = [
            SampleRun(
                self.engine, number, prepared.prompt, policy, prepared.generation, on_event, text
            )
            for number in range(question.samples)
        ]
        results = await _run_samples(samples, vote, question.stop_when_decided, on_event)
        return _solution(prepared, results, vote)


@asynccontextmanager
async def in_time(seconds: float | None) -> AsyncIterator[None]:
    """Cancels what runs inside after `seconds`; None never does.

    Raises:
        OutOfTime: it was cancelled.
    """
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            yield
    except TimeoutError:
        if seconds is None or not limit.expired():
            raise
        raise OutOfTime(seconds) from None


async def _run_samples(
    samples: Sequence[SampleRun], vote: VoteTally, stop_when_decided: bool, on_event: OnEvent
) -> list[Sample | CancelledSample]:
    """Runs all samples at the same time, until each has ended or the vote is decided."""
    running = {asyncio.create_task(sample.run()): sample for sample in samples}
    results: dict[int, Sample | CancelledSample] = {}
    try:
        while running:
            ended, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for task in ended:
                sample = running.pop(task)
                if task.cancelled():
                    results[sample.number] = sample.cancelled()
                else:
                    results[sample.number] = result = task.result()
                    await vote.add(sample.number, result)
                on_event(SampleEvent(sample.number, results[sample.number]))
            on_event(_vote_event(vote))
            if stop_when_decided and vote.decided:
                for task, sample in running.items():
                    if sample.thinking:
                        task.cancel()
    finally:
        # Whatever ended this early, an error or the caller, nothing is left in the engine.
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
    return [results[sample.number] for sample in samples]


def _vote_event(vote: VoteTally) -> VoteEvent:
    return VoteEvent(
        counted=len(vote.counted),
        samples=vote.samples,
        tally=vote.tally,
        leader=vote.leader,
        share=vote.vote.share,
        decided=vote.decided,
    )


def _solution(
    prepared: Prepared, samples: Sequence[Sample | CancelledSample], vote: VoteTally
) -> Solution:
    answer = vote.answer
    carrying = [s for s in vote.counted if answer is not None and s.answer == answer]
    return Solution(
        answer=answer,
        confidence=None if answer is None else vote.confidence,
        exit=(carrying or vote.counted)[0].rollout.exit,
        samples=tuple(samples),
        policy=prepared.terms.policy,
        guarantee=prepared.terms.guarantee,
        no_guarantee_reason=prepared.terms.no_guarantee_reason,
        tally=vote.tally,
        prompt_tokens=len(prepared.prompt),
        expectation=prepared.terms.expectation,
    )


def _abstention(prepared: Prepared) -> Solution:
    """No sample was drawn, so nothing was spent, the prompt not either."""
    return Solution(
        answer=None,
        confidence=None,
        exit=None,
        samples=(),
        policy=None,
        guarantee=None,
        no_guarantee_reason=prepared.terms.no_guarantee_reason,
    )


def _first(asked: float | None, certified: float) -> float:
    return certified if asked is None else asked
