"""Records rollouts for evaluation: at full budget, with what every source of confidence needs."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from itertools import takewhile

from calibration import ExitReason
from rlcm_serve.answers.extraction import BOXED, Extractor, extractor_named
from rlcm_serve.answers.forcing import opening_of, read_forced, read_own
from rlcm_serve.core import (
    Budget,
    Completion,
    GenerationSettings,
    Reading,
    Rollout,
    TokenIds,
)
from rlcm_serve.engine.contract import Reasoner
from rlcm_serve.evaluation.rollouts import EvaluationReading, EvaluationRollout
from rlcm_serve.evaluation.sources import Source
from rlcm_serve.evaluation.verbalized import verbalized
from rlcm_serve.profiles.profile import Profile
from rlcm_serve.recording.problems import LabelledProblem
from rlcm_serve.recording.recorder import FullBudgetRecorder

ANSWERS = 4
"""Answers forced at every reading: K of RLCM App. B."""
_VERBALIZED_TOKENS = 8
"""Maximum length of a stated confidence, in tokens."""


class EvaluationRecorder(FullBudgetRecorder[EvaluationRollout]):
    """Records one benchmark's problems; the answers are graded later.

    Args:
        engine: has started, with `record_signals`.
        extractor: of the benchmark's grader: finds answers in texts and opens forced answers.
        answers: K, forced at every reading.
        sources: of confidence; what only other sources need is not generated.
    """

    def __init__(
        self,
        engine: Reasoner,
        extractor: Extractor,
        answers: int = ANSWERS,
        sources: Collection[Source] = tuple(Source),
    ) -> None:
        identity = engine.identity
        extractor = _extractor(identity.profile, extractor)
        answer = max(identity.budget.answer, extractor.answer_tokens or 0)
        budget = replace(identity.budget, answer=answer)
        schema = identity.profile.schema_text
        super().__init__(engine, GenerationSettings(budget, identity.sampling, schema=schema))
        self.extractor, self.answers, self.sources = extractor, answers, sources

    async def _recording(
        self, problem: LabelledProblem, number: int, prompt: TokenIds, rollout: Rollout
    ) -> EvaluationRollout:
        readings = await asyncio.gather(
            *(self._reading(prompt, rollout, at) for at in rollout.readings)
        )
        own = rollout.answer_text
        return EvaluationRollout(
            problem_id=problem.id,
            rollout=number,
            text=rollout.text,
            tokens=len(rollout.tokens),
            natural=rollout.exit is ExitReason.NATURAL,
            own_text=own,
            own_answer=read_own(self.extractor, self.generation, rollout),
            own_tokens=rollout.answer_tokens,
            own_verbalized=verbalized(own) if own else None,
            readings=tuple(readings),
            familiarity=rollout.familiarity,
        )

    async def _reading(self, prompt: TokenIds, rollout: Rollout, at: Reading) -> EvaluationReading:
        thinking = rollout.tokens[: at.tokens]
        opening = opening_of(self.extractor, self.generation)
        forced, entropy = await asyncio.gather(
            self.engine.continue_after(
                prompt,
                thinking,
                opening,
                self.generation,
                self.answers,
                logprobs=True,
            ),
            self._entropy(prompt, thinking),
        )
        read = partial(read_forced, self.extractor, self.generation)
        answers = tuple(map(read, forced))
        confidence, confidence_tokens = await self._verbalize(prompt, thinking, answers[0])
        return EvaluationReading(
            tokens=at.tokens,
            signals=dict(at.signals or {}),
            answers=answers,
            answer_tokens=tuple(completion.tokens for completion in forced),
            answer_probability=_probability(forced[0], answers[0], is_first=bool(opening)),
            entropy=entropy,
            verbalized=confidence,
            verbalized_tokens=confidence_tokens,
            suffix_tokens=forced[0].suffix_tokens,
        )

    async def _entropy(self, prompt: TokenIds, thinking: TokenIds) -> float | None:
        if Source.ENTROPY not in self.sources:
            return None
        return await self.engine.entropy_after(prompt, thinking, self.generation)

    async def _verbalize(
        self, prompt: TokenIds, thinking: TokenIds, answer: str | None
    ) -> tuple[float | None, int]:
        """The confidence that the model states for an answer (RLCR's format), and its tokens."""
        if answer is None or Source.VERBALIZED not in self.sources:
            return None, 0
        opening = f"<answer>\\boxed{{{answer}}}</answer><confidence>"
        budget = Budget(self.generation.budget.thinking, _VERBALIZED_TOKENS)
        generation = replace(self.generation, budget=budget, schema=None)
        (stated,) = await self.engine.continue_after(
            prompt, thinking, opening, generation, logprobs=True
        )
        return verbalized(f"<confidence>{stated.text}"), _tokens_before(stated, "<")


def _extractor(profile: Profile, of_grader: Extractor) -> Extractor:
    """The profile's extractor if it names one; else the grader's."""
    return of_grader if profile.extractor == BOXED.spec else extractor_named(profile.extractor)


def _probability(completion: Completion, answer: str | None, *, is_first: bool) -> float | None:
    """The probability of the tokens up to the end of the answer.

    Args:
        completion: the forced text.
        answer: read in it; if it is written in another way there, all tokens count.
        is_first: whether the text begins with it. Otherwise it is taken where it comes last.
    """
    if answer is None or completion.pieces is None:
        return None
    found = completion.text.find(answer) if is_first else completion.text.rfind(answer)
    end = len(completion.text) if found < 0 else found + len(answer)
    length, total = 0, 0.0
    for piece, logprob in completion.pieces:
        if length >= end:
            break
        length += len(piece)
        total += logprob
    return math.exp(min(total, 0.0))


def _tokens_before(completion: Completion, mark: str) -> int:
    pieces: Sequence[tuple[str, float]] = completion.pieces or ()
    return sum(1 for _ in takewhile(lambda piece: mark not in piece[0], pieces))
