"""A reasoning engine that follows a script, and certificates for it."""

import asyncio
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from calibration import (
    FULL_BUDGET,
    INITIAL_STATE,
    Correction,
    ExitPolicy,
    ExitReason,
    Family,
    Procedure,
    PValue,
    Risk,
    step,
)
from calibration.certificate.certificate import Certificate
from calibration.certificate.levels import CertifiedLevel, InfeasibleLevel
from calibration.certificate.wording import covers, does_not_cover
from calibration.simulation.risks import SELECTIVE
from calibration.testing.fwer import Promise
from calibration.testing.p_values import binomial_p_values, clopper_pearson_upper
from calibration.traces.fingerprint import Fingerprint
from rlcm_serve.core import (
    Budget,
    Completion,
    Delta,
    GenerationSettings,
    Message,
    PromptReading,
    Reading,
    Rollout,
    Sampling,
    TokenIds,
)
from rlcm_serve.engine.contract import EngineIdentity, Reasoner, ReasoningEngine
from rlcm_serve.errors import EngineDead, RequestRefused
from rlcm_serve.profiles.profile import Profile
from rlcm_serve.solving.fingerprints import fingerprint_of

INTERVAL = 16
BUDGET = 96
CONTEXT, LONGEST_TOKEN = 100, 100
OWN_ANSWER_TOKENS, FORCED_TOKENS, SUFFIX_TOKENS = 5, 3, 4
UNLUCKY_SEED = 13

IDENTITY = EngineIdentity(
    model="m0",
    probe="p0",
    tokenizer="t0",
    chat_template="c0",
    checkpoint_interval=INTERVAL,
    sampling=Sampling(temperature=0.8, top_p=1.0),
    budget=Budget(thinking=BUDGET, answer=8),
    forced_suffix="\n</think>\n",
)
FAMILIARITY_CUTOFF = 0.004
GATED_IDENTITY = replace(IDENTITY, familiarity="f0", familiarity_cutoff=FAMILIARITY_CUTOFF)
"""The engine with a familiarity reading."""


@dataclass(frozen=True)
class Script:
    """The course of one sample if nothing stops it: its readings, its length, its answers.

    `confidences` are read at 16, 32, ... tokens; the last one also holds later. With `signals`,
    every reading has all signals: the confidence as the probe's, and these others. `ends_at` None
    means that the sample reaches its budget. `own` follows the thinking, `forced` the open box; a
    list gives the sampled answers in turn. `continued` follows other texts. Every token of a
    continuation has this `log_prob`; `entropy` is the entropy after the closed thinking.
    Continuations are `complete` or cut off, and `own` is `own_complete`. A sample that `stays`
    never gets past 16 tokens.
    """

    confidences: Sequence[float] = (0.5,)
    c_end: float = 0.5
    ends_at: int | None = 40
    own: str | None = r"It is \boxed{7}."
    forced: str | Sequence[str] = "7}"
    continued: Mapping[str, str] = field(default_factory=dict)
    log_prob: float = -0.25
    entropy: float | None = 0.5
    signals: Mapping[str, float] | None = None
    stays: bool = False
    complete: bool = True
    own_complete: bool = True

    def reading(self, tokens: int, confidence: float, *, is_final: bool = False) -> Reading:
        signals = None if self.signals is None else {"probe": confidence, **self.signals}
        return Reading(tokens, confidence, is_final, signals)

    def continuation(self, text: str, number: int, *, logprobs: bool) -> Completion:
        """The continuation with this number, from 0; it has three tokens, the last ends it."""
        forced = [self.forced] if isinstance(self.forced, str) else self.forced
        said = self.continued.get(text, forced[number % len(forced)])
        pieces = tuple((piece, self.log_prob) for piece in (said[:1], said[1:], ""))
        return Completion(
            said, FORCED_TOKENS, pieces if logprobs else None, self.complete, SUFFIX_TOKENS
        )


class ScriptedEngine(ReasoningEngine):
    """An engine that gives its scripts to the samples in turn.

    It has the default profile and `profiles`; `asked` are the conversations, with their profiles.
    """

    outputs = 0

    def __init__(self, *scripts: Script, profiles: Sequence[Profile] = ()) -> None:
        self.name = "scripted"
        self.identity = IDENTITY
        self.others = {profile.name: Under(self, profile) for profile in profiles}
        self.asked: list[tuple[str, tuple[Message, ...]]] = []
        self.scripts = scripts or (Script(),)
        self.dead = False
        self.held = 0
        self.all_held = asyncio.Event()
        self.started = asyncio.Event()
        self.stopped = False
        self.killed = asyncio.Event()
        self.context, self.longest_token = CONTEXT, LONGEST_TOKEN
        self.policies: list[ExitPolicy] = []
        self.drawings: list[GenerationSettings] = []
        self.thoughts: list[int] = []
        self.thinking = 0
        self.aborted = 0
        self.forced = 0
        self.answering: GenerationSettings | None = None
        self.canaries = 0
        self.hangs = False
        self.killed_for = ""
        self.familiarity: float | None = None
        self.pauses: Sequence[int] = ()
        """Turns of the event loop that each script takes for a reading, beyond the first."""

    def reads_familiarity(self, p_value: float) -> None:
        """From now on, every prompt has this familiarity; the cutoff is `FAMILIARITY_CUTOFF`."""
        self.familiarity = p_value
        self.identity = GATED_IDENTITY

    def hold(self, samples: int) -> None:
        """Holds all samples at 16 tokens from now on; `all_held` is set once `samples` wait."""
        self.held = samples

    async def _wait_if_held(self, number: int, checkpoint: Reading) -> None:
        for _ in range(1 + (self.pauses[number] if self.pauses else 0)):
            await asyncio.sleep(0)
        if self.scripts[number].stays and checkpoint.tokens > INTERVAL:
            await asyncio.Event().wait()
        if self.held and checkpoint.tokens > INTERVAL:
            if self.thinking == self.held:
                self.all_held.set()
            await self.killed.wait()

    async def start(self) -> None:
        await self.started.wait()
        await self.check_health()

    def stop(self) -> None:
        self.stopped = True

    async def check_health(self) -> None:
        if self.dead:
            raise EngineDead(self.killed_for or "the scripted engine died; restart it")

    @property
    def in_flight(self) -> int:
        return self.thinking

    async def canary(self) -> None:
        self.canaries += 1
        if self.hangs:
            await self.killed.wait()
        self.outputs += 1

    def kill(self, reason: str = "") -> None:
        """Lets the engine die; all waiting callers get the error."""
        self.killed_for = reason
        self.dead = True
        self.killed.set()

    @property
    def identities(self) -> tuple[EngineIdentity, ...]:
        return (self.identity, *(other.identity for other in self.others.values()))

    def under(self, profile: str) -> Reasoner:
        return self.others.get(profile) or super().under(profile)

    def prompt(self, messages: Sequence[Message]) -> TokenIds:
        self.asked.append(("default", tuple(messages)))
        return tuple(range(sum(len(message.content.split()) for message in messages)))

    def check(self, prompt: TokenIds, generation: GenerationSettings) -> None:
        if len(prompt) > CONTEXT:
            raise RequestRefused("problem", "the prompt has over 100 tokens: shorten it")
        if generation.seed == UNLUCKY_SEED:
            raise RequestRefused("seed", "seed is 13: this engine is superstitious, leave it out")

    async def think(
        self,
        prompt: TokenIds,
        policy: ExitPolicy,
        generation: GenerationSettings,
        *,
        thought: TokenIds = (),
        text: bool = False,
    ) -> AsyncGenerator[PromptReading | Delta | Reading | Rollout]:
        self.check(prompt, generation)
        number = len(self.policies) % len(self.scripts)
        self.policies.append(policy)
        self.drawings.append(generation)
        self.thoughts.append(len(thought))
        self.thinking += 1
        finished = False
        try:
            rest = generation.budget.thinking - len(thought)
            rollout = _behind(thought, self._run(number, policy, rest))
            if generation.schema is not None:
                rollout = replace(rollout, answer_text=None, answer_tokens=0)
            if self.familiarity is not None and not thought:
                rollout = replace(rollout, familiarity=self.familiarity)
                yield PromptReading(self.familiarity)
            told = len(thought)
            for checkpoint in rollout.readings:
                await self._wait_if_held(number, checkpoint)
                await self.check_health()
                ids = rollout.tokens[told : checkpoint.tokens]
                yield Delta(len(ids), "hm" if text else "", ids=ids)
                told = checkpoint.tokens
                yield checkpoint
            if rollout.answer_text:
                first, *others = re.findall(r"\s*\S+\s*", rollout.answer_text) if text else [""]
                yield Delta(rollout.answer_tokens, first, is_answer=True)
                for word in others:
                    yield Delta(0, word, is_answer=True)
            finished = True
            yield rollout
        finally:
            self.thinking -= 1
            self.aborted += not finished

    def _run(self, number: int, policy: ExitPolicy, budget: int) -> Rollout:
        script = self.scripts[number]
        length = budget if script.ends_at is None else min(script.ends_at, budget)
        state, checkpoints = INITIAL_STATE, []
        for at, tokens in enumerate(range(INTERVAL, min(length, budget - 1) + 1, INTERVAL)):
            confidence = script.confidences[min(at, len(script.confidences) - 1)]
            checkpoints.append(script.reading(tokens, confidence))
            state, exit_ = step(policy, state, tokens, confidence)
            if exit_ is not None:
                said = "hm" * len(checkpoints)
                return Rollout((number,) * tokens, said, exit_, tuple(checkpoints), discarded=1)
        checkpoints.append(script.reading(length, script.c_end, is_final=True))
        said = "hm" * len(checkpoints)
        if script.ends_at is None or script.ends_at > budget:
            return Rollout((number,) * length, said, ExitReason.BUDGET, tuple(checkpoints))
        return Rollout(
            tokens=(number,) * length,
            text=said,
            exit=ExitReason.NATURAL,
            readings=tuple(checkpoints),
            answer_text=script.own,
            answer_tokens=OWN_ANSWER_TOKENS if script.own else 0,
            discarded=1,
            answer_complete=script.own_complete,
        )

    async def continue_after(
        self,
        prompt: TokenIds,
        thinking: TokenIds,
        text: str,
        generation: GenerationSettings,
        count: int = 1,
        *,
        logprobs: bool = False,
    ) -> tuple[Completion, ...]:
        await self.check_health()
        self.forced += 1
        self.answering = generation
        script = self.scripts[thinking[0]]
        return tuple(
            script.continuation(text, number, logprobs=logprobs) for number in range(count)
        )

    async def entropy_after(
        self, prompt: TokenIds, thinking: TokenIds, generation: GenerationSettings
    ) -> float | None:
        await self.check_health()
        return self.scripts[thinking[0]].entropy


def _behind(thought: TokenIds, rollout: Rollout) -> Rollout:
    """The rollout with these tokens before its own; a script says what comes after them."""
    readings = (replace(one, tokens=len(thought) + one.tokens) for one in rollout.readings)
    return replace(rollout, tokens=(*thought, *rollout.tokens), readings=tuple(readings))


class Under(Reasoner):
    """The scripted engine under another profile."""

    def __init__(self, engine: ScriptedEngine, profile: Profile) -> None:
        self.engine = engine
        self.identity = under(profile)
        self.context, self.longest_token = CONTEXT, LONGEST_TOKEN

    def prompt(self, messages: Sequence[Message]) -> TokenIds:
        ids = self.engine.prompt(messages)
        self.engine.asked[-1] = (self.identity.profile.name, tuple(messages))
        return ids

    def check(self, prompt: TokenIds, generation: GenerationSettings) -> None:
        self.engine.check(prompt, generation)

    def think(self, *given: Any, **named: Any) -> Any:
        return self.engine.think(*given, **named)

    async def continue_after(
        self,
        prompt: TokenIds,
        thinking: TokenIds,
        text: str,
        generation: GenerationSettings,
        count: int = 1,
        *,
        logprobs: bool = False,
    ) -> tuple[Completion, ...]:
        return await self.engine.continue_after(
            prompt, thinking, text, generation, count, logprobs=logprobs
        )

    async def entropy_after(
        self, prompt: TokenIds, thinking: TokenIds, generation: GenerationSettings
    ) -> float | None:
        return await self.engine.entropy_after(prompt, thinking, generation)


def under(profile: Profile) -> EngineIdentity:
    """The scripted engine's identity under a profile."""
    sampling = IDENTITY.sampling
    return replace(
        IDENTITY,
        profile=profile,
        thinking=profile.thinking or "",
        sampling=replace(sampling, top_k=profile.top_k or 0, min_p=profile.min_p or 0.0),
        budget=replace(IDENTITY.budget, thinking=profile.max_tokens or BUDGET),
    )


def certificate(
    policies: Mapping[float, ExitPolicy | None],
    *,
    fingerprint: Fingerprint | Literal["engine"] | None = "engine",
    promise: Promise = Promise.SIMULTANEOUS,
    risk: str = "selective",
    delta: float = 0.1,
) -> Certificate:
    """A certificate with these policies by alpha; None means that no policy is certified.

    The default fingerprint is the scripted engine's; None leaves it out.
    """
    fitted = fingerprint_of(IDENTITY) if fingerprint == "engine" else fingerprint
    procedure = Procedure() if fitted is None else Procedure(fitted.samples, fitted.vote)
    wording = Risk(risk, answers_always=risk in ("error", "regret"), loss=SELECTIVE.loss)
    gated = fitted is not None and fitted.is_gated
    tested = tuple(dict.fromkeys((FULL_BUDGET, *filter(None, policies.values()))))
    # 3 of 300 answers are wrong, or 3 of all 500 where every question counts.
    weight = 500.0 if wording.answers_always else 300.0
    levels = [
        InfeasibleLevel(
            alpha=alpha,
            n_too_small=False,
            reason="risk too high: 9 of 50",
            p_value=float(binomial_p_values(np.array(90), np.array(500), alpha)),
            total_weight=500.0,
            total_loss=90.0,
        )
        if policy is None
        else CertifiedLevel(
            alpha=alpha,
            policy=policy,
            p_value=float(binomial_p_values(np.array(3), np.array(weight), alpha)),
            risk=3 / weight,
            risk_upper=float(clopper_pearson_upper(3, weight, delta / len(tested))),
            total_weight=weight,
            total_loss=3.0,
            share_answered=weight / 500,
            share_right=(weight - 3) / 500,
            expected_tokens=200.0,
            full_budget_tokens=400.0,
        )
        for alpha, policy in sorted(policies.items())
    ]
    return Certificate(
        risk=risk,
        delta=delta,
        promise=promise,
        procedure=procedure,
        method="by hand",
        p_value=PValue.BINOMIAL,
        tested=Family(tested, Correction.BONFERRONI, "by hand"),
        levels=tuple(levels),
        n_problems=500,
        n_units=500,
        n_rollouts=4000,
        n_order_problems=200,
        smallest_certifiable_alpha=0.0432,
        covers=covers(wording, delta, promise, PValue.BINOMIAL, gated=gated),
        does_not_cover=does_not_cover(wording, gated=gated),
        fingerprint=fitted,
        calibration_digest="d0",
        order_digest="d1",
    )
