"""A rollout that stopped and goes on is read as the same rollout that never stopped."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest

from calibration import FULL_BUDGET, ExitPolicy, ExitReason
from rlcm_serve.answers.forcing import answer_rollout
from rlcm_serve.answers.grading.exact import ExactGrader
from rlcm_serve.answers.grading.verdicts import KeyedVerdicts
from rlcm_serve.core import Budget, GenerationSettings, Question, Sample, Solution
from rlcm_serve.engine.vllm_reasoner import VllmReasoner
from rlcm_serve.solving.guarantees import Guarantees
from rlcm_serve.solving.shadow.full_budget import full_answer
from rlcm_serve.solving.solver import Prepared
from tests.rlcm_serve.engine.asking import think, user
from tests.rlcm_serve.engine.writer import writing
from tests.rlcm_serve.scripted_engine import IDENTITY

EAGER = ExitPolicy(lambda_low=-1, lambda_high=0.4)
"""Stops at the first checkpoint, after 16 tokens: bytes, and tokens of markup."""
GENERATION = GenerationSettings(Budget(thinking=96, answer=24), IDENTITY.sampling)
SAMPLES = [
    ("plain", r"It is \boxed{1}, and this is how it was found.", "1"),
    ("plain", "It is 1, and é this has no box.", "9"),
    ("qwen3", r"<think>so \boxed{1}? no, wait. perhaps \boxed{2} hm", "9"),
    ("qwen3", r"<think>so \boxed{1}? no, wait.</think>It is \boxed{3}.", "3"),
    ("qwen3", r"It is \boxed{1}, without any thinking.", "1"),
    ("qwen3-thinking-2507", r"so \boxed{1}? no, é wait. perhaps \boxed{2} hm", "9"),
    ("qwen3-thinking-2507", r"so \boxed{1}? no, wait.</think>It is \boxed{3}.", "3"),
    ("gpt-oss", r"<|channel|>analysis<|message|>\boxed{1}? no, wait. perhaps \boxed{2}", "9"),
    (
        "gpt-oss",
        r"<|channel|>analysis<|message|>so \boxed{1}? no, wait.<|end|>"
        r"<|start|>assistant<|channel|>final<|message|>It is \boxed{3}.",
        "3",
    ),
    ("magistral", "[THINK]" + "a" * 120, "9"),
]


@pytest.mark.parametrize("pauses", [False, True])
@pytest.mark.parametrize(("family", "says", "answer"), SAMPLES)
async def test_a_shadow_run_gives_the_answer_of_the_whole_rollout(
    family: str, says: str, answer: str, pauses: bool
) -> None:
    asked = count(1)
    with writing(family, says) as reasoner:
        prompt = reasoner.prompt(user("?"))
        whole = (await think(reasoner, prompt, FULL_BUDGET, GENERATION)).rollout
        found = await answer_rollout(reasoner, prompt, whole, GENERATION)
        assert found.answers == (answer,)
        early = (await think(reasoner, prompt, EAGER, GENERATION)).rollout
        assert len(early.tokens) == 16
        full = await full_answer(
            prepared(reasoner),
            Solution(None, None, None, (Sample(early, "?", 1),), EAGER, None, "a test"),
            KeyedVerdicts(ExactGrader()),
            lambda: pauses and next(asked) % 3 == 0,
        )
    assert full.answer == answer
    assert full.tokens == len(whole.tokens) - len(early.tokens)


@pytest.mark.parametrize(("family", "says"), [sample[:2] for sample in SAMPLES])
async def test_a_rollout_that_goes_on_has_the_text_answer_and_tokens_of_the_whole_one(
    family: str, says: str
) -> None:
    """From wherever it goes on, also within markup and within a character."""
    with writing(family, says) as reasoner:
        prompt = reasoner.prompt(user("?"))
        whole = await think(reasoner, prompt, FULL_BUDGET, GENERATION, text=True)
        length = len(whole.rollout.tokens)
        end = length + (whole.rollout.exit is ExitReason.NATURAL)
        for at in range(1, min(length, GENERATION.budget.thinking)):
            thought = whole.rollout.tokens[:at]
            rest = await think(
                reasoner, prompt, FULL_BUDGET, GENERATION, thought=thought, text=True
            )
            readings = tuple(rest.checkpoints)
            assert rest.rollout == replace(whole.rollout, readings=readings)
            assert [one.tokens for one in readings] == [*range(at + 16, end, 16), length]
            assert rest.tokens == whole.tokens - at
            before = "".join(delta.text for delta in whole.deltas[:at])
            assert before + rest.text == whole.text


def prepared(reasoner: VllmReasoner) -> Prepared:
    question = Question("?", 0.1)
    terms = Guarantees([IDENTITY], []).terms_for(replace(question, on_infeasible="full_budget"))
    return Prepared(question, terms, reasoner, reasoner.prompt(user("?")), GENERATION)
