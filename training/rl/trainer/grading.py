"""Turns token ids into graded rollouts: finds answers, grades them, adds the probe's readings."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlcm_serve.evaluation.grading import Grader
from rlcm_serve.evaluation.verbalized import verbalized
from training.rl.rewards.rewards import GradedRollout
from training.rl.trainer.forced_answers import shares_right
from training.rl.trainer.recipe import Recipe
from training.rl.trainer.step_clock import StepClock

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

RLCR_FORMAT = re.compile(
    r"\s*<answer>.*?</answer>\s*(<analysis>.*?</analysis>\s*)?<confidence>.*?</confidence>\s*",
    re.DOTALL,
)
"""RLCR's format (arXiv 2507.16806); its longer form has an analysis."""

Ids = Sequence[int]


@dataclass(frozen=True, slots=True)
class RolloutGrader:
    """Finds and grades the answers in completions.

    Attributes:
        recipe: defines how answers are found and which grader decides.
        tokenizer: the model's tokenizer.
        clock: measures time; grading of forced answers counts as "forced answers".
    """

    recipe: Recipe
    tokenizer: PreTrainedTokenizerBase
    clock: StepClock

    def __call__(
        self,
        completions: Sequence[Ids],
        references: Sequence[str],
        targets: Sequence[tuple[float, ...]],
        confidences: Sequence[Sequence[float]],
    ) -> list[GradedRollout]:
        """The rollouts (R) in the form that rewards read.

        Args:
            completions: token ids of each rollout.
            references: the right answer of each rollout's problem.
            targets: Y_b of each rollout's budgets.
            confidences: the probe's confidence in each rollout, at its budgets, then at its end;
                empty without a probe.
        """
        with self.clock("grading"):
            written = [self._text(self.recipe.thinking.answered(ids)) for ids in completions]
            found = [self.recipe.grader.extractor.find(text) for text in written]
            verdicts = grade_answers(self.recipe.grader, found, references)
        return [
            GradedRollout(
                is_right=is_right,
                is_formatted=is_formatted(text, self.recipe.thinking.think_end is not None),
                stated=verbalized(text),
                target_B=target_B,
                confidence_B=tuple(readings[:-1]),
                final_confidence=readings[-1] if readings else None,
            )
            for text, is_right, target_B, readings in zip(
                written, verdicts, targets, confidences, strict=True
            )
        ]

    def targets(
        self, forced: Sequence[Ids], references: Sequence[str], budgets_R: Sequence[int]
    ) -> list[tuple[float, ...]]:
        """Y_b of every rollout.

        Args:
            forced: forced answers, K for each budget, in the order of the rollouts.
            references: the right answer of each rollout's problem.
            budgets_R: the number of budgets of each rollout.
        """
        if not forced:
            return [() for _ in budgets_R]
        with self.clock("forced answers"):
            close = self.recipe.grader.extractor.close
            answers = [close(self._text(ids)) for ids in forced]
            samples = self.recipe.settings.budgets.samples
            owners = [
                reference
                for reference, count in zip(references, budgets_R, strict=True)
                for _ in range(count * samples)
            ]
            shares = iter(shares_right(grade_answers(self.recipe.grader, answers, owners), samples))
            return [tuple(next(shares) for _ in range(count)) for count in budgets_R]

    def _text(self, ids: Ids) -> str:
        text: str = self.tokenizer.decode(list(ids), skip_special_tokens=True)
        return text


def is_formatted(text: str, marks_thinking: bool) -> bool:
    """Whether a rollout's text has RLCR's format.

    After a marked thinking it is the whole text. A model that marks none reasons before it.
    """
    start = 0 if marks_thinking else max(0, text.rfind("<answer>"))
    return RLCR_FORMAT.fullmatch(text, start) is not None


def grade_answers(
    grader: Grader, answers: Sequence[str | None], references: Sequence[str]
) -> list[bool]:
    """Whether each answer is right. A missing answer is wrong."""
    pairs = [
        (answer, reference)
        for answer, reference in zip(answers, references, strict=True)
        if answer is not None
    ]
    verdicts = iter(grader.grade(pairs))
    return [answer is not None and next(verdicts) for answer in answers]
