"""From token ids to what rewards read, with the embedded model's tokenizer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from rlcm_serve.engine.model_files import EMBEDDED_MODEL, ModelFiles
from rlcm_serve.evaluation.grading import grader_named
from training.rl.settings import BudgetSettings, RunSettings
from training.rl.trainer.forced_answers import Thinking
from training.rl.trainer.grading import RolloutGrader, is_formatted
from training.rl.trainer.recipe import Recipe
from training.rl.trainer.step_clock import StepClock

END = "<|im_end|>"


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerBase:
    return AutoTokenizer.from_pretrained(EMBEDDED_MODEL)


@pytest.fixture(scope="module")
def rollout_grader(tokenizer: PreTrainedTokenizerBase) -> Iterator[RolloutGrader]:
    thinking = Thinking.of(ModelFiles.read(EMBEDDED_MODEL), tokenizer)
    with grader_named("math") as grader:
        settings = RunSettings(method="rlcm", budgets=BudgetSettings(interval=4, samples=2))
        yield RolloutGrader(Recipe(settings, thinking, grader), tokenizer, StepClock())


def ids(rollout_grader: RolloutGrader, text: str) -> list[int]:
    return list(rollout_grader.tokenizer.encode(text, add_special_tokens=False))


@pytest.mark.parametrize(
    ("text", "right"),
    [
        (f"So it is 7.</think>\nThe answer is \\boxed{{7}}.{END}", True),
        (f"So it is 7.</think>\nThe answer is \\boxed{{\\frac{{14}}{{2}}}}.{END}", True),
        (f"So it is 7.</think>\nThe answer is \\boxed{{8}}.{END}", False),
        (f"So it is 7.</think>\nThe answer is 7.{END}", False),
        ("So it is \\boxed{7}. But", False),  # still thinking
        ("So it is 7.</think>\nThe answer is \\boxed{7", False),  # cut off
    ],
)
def test_the_answer_after_the_thinking_counts(
    rollout_grader: RolloutGrader, text: str, right: bool
) -> None:
    (found,) = rollout_grader([ids(rollout_grader, text)], ["7"], [()], [[]])
    assert found.is_right is right
    assert found.final_confidence is None


def test_rlcrs_format_and_confidence_are_read(rollout_grader: RolloutGrader) -> None:
    said = "<answer>\\boxed{7}</answer><confidence>0.8</confidence>"
    whole, bare = f"Hm.</think>\n{said}{END}", f"Hm.</think>\nI say {said}{END}"
    kept, broken = rollout_grader(
        [ids(rollout_grader, whole), ids(rollout_grader, bare)], ["7", "7"], [(), ()], [[], []]
    )
    assert (kept.is_right, kept.is_formatted, kept.stated) == (True, True, 0.8)
    assert (broken.is_right, broken.is_formatted, broken.stated) == (True, False, 0.8)


def test_the_longer_form_has_an_analysis(rollout_grader: RolloutGrader) -> None:
    said = "<answer>\\boxed{7}</answer>\n<analysis>Easy.</analysis>\n<confidence>1</confidence>"
    (found,) = rollout_grader([ids(rollout_grader, f"Hm.</think>\n{said}{END}")], ["7"], [()], [[]])
    assert found.is_formatted


def test_without_marked_thinking_the_format_ends_the_text() -> None:
    said = "<answer>\\boxed{6}</answer><confidence>0.9</confidence>"
    assert is_formatted(f"First, 3+5 = 8. {said}\n", marks_thinking=False)
    assert not is_formatted(f"First, 3+5 = 8. {said}\n", marks_thinking=True)
    assert not is_formatted(f"{said} So 6.", marks_thinking=False)
    assert not is_formatted("So 6.", marks_thinking=False)


def test_forced_answers_are_counted_by_rollout_and_budget(rollout_grader: RolloutGrader) -> None:
    texts = ["7}.", "8}.", "7}.", "7}.", "3", "5}."]  # the fifth is never closed
    forced = [ids(rollout_grader, text + END) for text in texts]
    assert rollout_grader.targets(forced, ["7", "1", "5"], [2, 0, 1]) == [(0.5, 1.0), (), (0.5,)]


def test_readings_are_those_at_the_budgets_and_then_the_ends(rollout_grader: RolloutGrader) -> None:
    text = f"Hm.</think>\nThe answer is \\boxed{{7}}.{END}"
    (found,) = rollout_grader([ids(rollout_grader, text)], ["7"], [(1.0, 0.5)], [[0.1, 0.2, 0.3]])
    assert found.confidence_B == (0.1, 0.2)
    assert found.final_confidence == 0.3
