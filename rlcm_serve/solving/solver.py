"""One question, step by step: sample, exit, force the answer, vote, state the guarantee."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from calibration import ExitPolicy
from rlcm_serve.admission.time_limit import in_time
from rlcm_serve.answers.grader import AnswerGrader
from rlcm_serve.answers.grading.verdicts import Verdicts
from rlcm_serve.answers.profile_graders import verdicts_of
from rlcm_serve.core import (
    Budget,
    CancelledSample,
    GenerationSettings,
    Question,
    Sample,
    Solution,
    TokenIds,
)
from rlcm_serve.engine.contract import Reasoner, ReasoningEngine
from rlcm_serve.events import OnEvent, SampleEvent, ignore_event
from rlcm_serve.solving.gate import Declined, FamiliarityGate
from rlcm_serve.solving.guarantees import Guarantees, Terms
from rlcm_serve.solving.sample import SampleRun
from rlcm_serve.solving.samples import RunningSamples
from rlcm_serve.solving.vote import VoteTally

SCHEMA_TOKENS = 1024
"""Least budget of a text under a schema that no profile has; the budgets of profiles are theirs."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A question that the engine accepts, with the terms under which it is answered.

    `reasoner` is the engine under the question's profile.
    """

    question: Question
    terms: Terms
    reasoner: Reasoner
    prompt: TokenIds
    generation: GenerationSettings


OnStart = Callable[[Prepared], None]
"""Takes a question with the terms under which it is answered, when these are known."""


def begin_quietly(prepared: Prepared) -> None:
    """Ignores the start, for callers that need only the outcome."""


class Solver:
    """Answers questions with one engine, under the guarantees of its certificates."""

    def __init__(
        self, engine: ReasoningEngine, guarantees: Guarantees, grader: AnswerGrader
    ) -> None:
        self.engine = engine
        self.guarantees = guarantees
        self.grader = grader

    async def solve(self, question: Question, on_event: OnEvent = ignore_event) -> Solution:
        """Answers a question under the policy for its alpha.

        1. Every sample thinks until its exit: high, low, natural end, or budget.
        2. After a high exit it gives an answer. At a natural or budget end it does so if the last
           reading reaches λa, and after a low exit if the policy answers on low.
        3. The answer is the one that the model wrote itself, or else a forced answer.
        4. The samples vote. Once one answer leads as far as the policy requires, the samples that
           still think are cancelled, and so are samples that cannot change the outcome any more.
        5. The winner becomes the answer if its share of the vote is large enough. Otherwise the
           service abstains.
        6. The solution states the guarantee, or the reason why there is none.

        If the prompt is unlike the calibration problems, there is no guarantee, and with
        `on_unfamiliar` ABSTAIN all samples are cancelled as soon as it was read.

        Cancelling this call aborts all samples inside the engine.

        Raises:
            Infeasible, RequestRefused: see `prepare`.
            EngineDead, OutOfTime: see `run`.
        """
        return await self.run(self.prepare(question), on_event)

    def prepare(
        self, question: Question, priority: int = 0, cache_salt: str | None = None
    ) -> Prepared:
        """Determines policy, prompt and sampling of a question before any token is generated.

        Takes time in proportion to the question's text. May be called from any thread.

        Raises:
            Infeasible: no policy is certified at the question's alpha.
            RequestRefused: the question names a profile that is not served, or does not fit into
                the model's context, or the engine cannot honour its seed.
        """
        terms = self.guarantees.terms_for(question)
        reasoner = self.engine.under(terms.asked.profile.name)
        prompt = reasoner.prompt(terms.asked.messages)
        default, usual = reasoner.identity.sampling, reasoner.identity.profile.schema_text
        schema = question.schema or usual
        generation = GenerationSettings(
            budget=terms.budget if schema == usual else _with_room(terms.budget),
            sampling=replace(
                default,
                temperature=_first(question.temperature, default.temperature),
                top_p=_first(question.top_p, default.top_p),
            ),
            seed=question.seed,
            priority=priority,
            cache_salt=cache_salt,
            schema=schema,
        )
        reasoner.check(prompt, generation)
        return Prepared(question, terms, reasoner, prompt, generation)

    async def run(
        self,
        prepared: Prepared,
        on_event: OnEvent = ignore_event,
        *,
        text: bool = False,
        on_start: OnStart = begin_quietly,
    ) -> Solution:
        """Answers a prepared question, and reports every event to `on_event`.

        Token events carry their text if `text` is set. `on_start` is called before all events, as
        soon as the terms are known: with the first token if the engine reads familiarity.

        Raises:
            EngineDead: the engine has died.
            OutOfTime: the question's timeout has passed; its samples were aborted.
        """
        if prepared.terms.policy is None:
            on_start(prepared)
            return _abstention(prepared)
        async with in_time(prepared.question.timeout) as limit:
            limit.guarantee = prepared.terms.guarantee
            return await self._answer(prepared, prepared.terms.policy, on_event, text, on_start)

    def verdicts(self, prepared: Prepared) -> Verdicts:
        """The verdicts on answers under the question's profile."""
        return verdicts_of(prepared.reasoner.identity.profile, self.grader)

    async def _answer(
        self,
        prepared: Prepared,
        policy: ExitPolicy,
        on_event: OnEvent,
        text: bool,
        on_start: OnStart,
    ) -> Solution:
        question = prepared.question
        verdicts = self.verdicts(prepared)
        vote = VoteTally(question.samples, question.vote, policy, verdicts)
        running = RunningSamples(vote, question.stop_when_decided, on_event)
        gate = FamiliarityGate(
            prepared.reasoner.identity,
            question.on_unfamiliar,
            on_known=lambda: on_start(replace(prepared, terms=gate.apply(prepared.terms))),
        )
        if not prepared.reasoner.identity.familiarity:
            on_start(prepared)
        samples = [
            SampleRun(
                prepared.reasoner,
                number,
                prepared.prompt,
                policy,
                prepared.generation,
                on_event,
                text,
                gate,
                running.note_progress,
            )
            for number in range(question.samples)
        ]
        try:
            results = await running.run(samples)
        except Declined:
            return _declined(prepared, samples, gate, on_event)
        return _solution(prepared, results, vote, gate)


def _solution(
    prepared: Prepared,
    samples: Sequence[Sample | CancelledSample],
    vote: VoteTally,
    gate: FamiliarityGate,
) -> Solution:
    answer, terms = vote.answer, gate.apply(prepared.terms)
    winners = [s for s in vote.counted if answer is not None and s.answer == answer]
    winner = winners[0] if winners else None
    return Solution(
        answer=answer,
        confidence=None if answer is None else vote.confidence,
        exit=(winners or vote.counted)[0].rollout.exit,
        samples=tuple(samples),
        policy=terms.policy,
        guarantee=terms.guarantee,
        no_guarantee_reason=terms.no_guarantee_reason,
        no_guarantee_code=terms.no_guarantee_code,
        tally=vote.tally,
        prompt_tokens=len(prepared.prompt),
        expectation=terms.expectation,
        text=None if winner is None else winner.text,
        forced=winner is not None and winner.forced,
        profile=prepared.terms.asked.profile.name,
        familiarity=gate.familiarity,
    )


def _with_room(budget: Budget) -> Budget:
    """The budget for a text under a schema of the caller's, which may be long."""
    return replace(budget, answer=max(budget.answer, SCHEMA_TOKENS))


def _declined(
    prepared: Prepared, samples: Sequence[SampleRun], gate: FamiliarityGate, on_event: OnEvent
) -> Solution:
    """An abstention once the prompt was read: its samples were cancelled at their first tokens."""
    cancelled = tuple(sample.cancelled() for sample in samples)
    for sample, result in zip(samples, cancelled, strict=True):
        on_event(SampleEvent(sample.number, result))
    terms = gate.apply(prepared.terms)
    return Solution(
        answer=None,
        confidence=None,
        exit=None,
        samples=cancelled,
        policy=terms.policy,
        guarantee=None,
        no_guarantee_reason=terms.no_guarantee_reason,
        no_guarantee_code=terms.no_guarantee_code,
        prompt_tokens=len(prepared.prompt),
        profile=prepared.terms.asked.profile.name,
        familiarity=gate.familiarity,
    )


def _abstention(prepared: Prepared) -> Solution:
    """An abstention before any sample ran: it costs no tokens, not even for the prompt."""
    return Solution(
        answer=None,
        confidence=None,
        exit=None,
        samples=(),
        policy=None,
        guarantee=None,
        no_guarantee_reason=prepared.terms.no_guarantee_reason,
        no_guarantee_code=prepared.terms.no_guarantee_code,
        profile=prepared.terms.asked.profile.name,
    )


def _first(chosen: float | None, default: float) -> float:
    return default if chosen is None else chosen
