"""Rollouts for evaluation: at full budget, with all that any source of confidence is made of."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import takewhile

from calibration import ExitReason
from rlcm_serve.core import (
    Budget,
    Completion,
    GenerationSettings,
    Reading,
    Rollout,
    TokenIds,
)
from rlcm_serve.engine.contract import ReasoningEngine
from rlcm_serve.evaluation.grading.base import Grader
from rlcm_serve.evaluation.rollouts import EvaluationReading, EvaluationRollout
from rlcm_serve.evaluation.sources import Source
from rlcm_serve.evaluation.verbalized import verbalised
from rlcm_serve.recording.problems import LabelledProblem
from rlcm_serve.recording.recorder import check_fits, generate_fully, prompt_of

ANSWERS = 4
"""Answers forced at every reading: K of RLCM App. B."""
_SAID_TOKENS = 8
"""The most that stating a confidence may take."""


class EvaluationRecorder:
    """Runs one benchmark's problems through an engine that records its signals.

    Args:
        engine: has started, with `record_signals`.
        grader: says where an answer stands, and how one is forced.
        answers: K, forced at every reading.
        sources: of confidence; what no other needs is not generated.
    """

    def __init__(
        self,
        engine: ReasoningEngine,
        grader: Grader,
        answers: int = ANSWERS,
        sources: Collection[Source] = tuple(Source),
    ) -> None:
        self.engine, self.grader, self.answers, self.sources = engine, grader, answers, sources
        budget = engine.identity.budget
        answer = max(budget.answer, grader.answer_tokens or 0)
        self.generation = GenerationSettings(
            replace(budget, answer=answer), engine.identity.sampling
        )

    def check(self, problem: LabelledProblem) -> None:
        """Returns if the engine would take it.

        Raises:
            RequestRefused: it does not fit into the model's context; the message names it.
        """
        check_fits(self.engine, problem, self.generation)

    async def record(self, problem: LabelledProblem, rollout: int) -> EvaluationRollout:
        """One rollout, and what can be read and forced at every checkpoint of it."""
        prompt = prompt_of(self.engine, problem)
        generated = await generate_fully(self.engine, prompt, self.generation)
        readings = await asyncio.gather(
            *(self._reading(prompt, generated, at) for at in generated.readings)
        )
        own = generated.answer_text
        return EvaluationRollout(
            problem_id=problem.id,
            rollout=rollout,
            text=generated.text,
            tokens=len(generated.tokens),
            natural=generated.exit is ExitReason.NATURAL,
            own_text=own,
            own_answer=self.grader.find(own) if own else None,
            own_tokens=generated.answer_tokens,
            own_verbalised=verbalised(own) if own else None,
            readings=tuple(readings),
        )

    async def _reading(
        self, prompt: TokenIds, generated: Rollout, at: Reading
    ) -> EvaluationReading:
        thinking = generated.tokens[: at.tokens]
        forced, entropy = await asyncio.gather(
            self.engine.continue_after(
                prompt, thinking, self.grader.opening, self.generation, self.answers, logprobs=True
            ),
            self._entropy(prompt, thinking),
        )
        answers = tuple(self.grader.close(completion.text) for completion in forced)
        said, said_tokens = await self._say(prompt, thinking, answers[0])
        return EvaluationReading(
            tokens=at.tokens,
            signals=dict(at.signals or {}),
            answers=answers,
            answer_tokens=tuple(completion.tokens for completion in forced),
            answer_probability=_probability(forced[0], answers[0]),
            entropy=entropy,
            verbalised=said,
            verbalised_tokens=said_tokens,
        )

    async def _entropy(self, prompt: TokenIds, thinking: TokenIds) -> float | None:
        if Source.ENTROPY not in self.sources:
            return None
        return await self.engine.entropy_after(prompt, thinking, self.generation)

    async def _say(
        self, prompt: TokenIds, thinking: TokenIds, answer: str | None
    ) -> tuple[float | None, int]:
        """How sure the model says it is of an answer, in RLCR's format, and the tokens of that."""
        if answer is None or Source.VERBALISED not in self.sources:
            return None, 0
        asked = f"<answer>\\boxed{{{answer}}}</answer><confidence>"
        budget = Budget(self.generation.budget.thinking, _SAID_TOKENS)
        generation = replace(self.generation, budget=budget)
        (said,) = await self.engine.continue_after(
            prompt, thinking, asked, generation, logprobs=True
        )
        return verbalised(f"<confidence>{said.text}"), _tokens_before(said, "<")


def _probability(completion: Completion, answer: str | None) -> float | None:
    """Of the tokens up to where the answer ends."""
    if answer is None or completion.pieces is None:
        return None
    end = completion.text.find(answer) + len(answer)
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
