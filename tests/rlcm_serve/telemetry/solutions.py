"""Handmade solutions of a question with several samples."""

from calibration import FULL_BUDGET, ExitReason
from rlcm_serve.core import (
    CancelledSample,
    Expectation,
    Guarantee,
    Question,
    Reading,
    Rollout,
    Sample,
    Solution,
)

PROBLEM = "How many apples has Ann?"
QUESTION = Question(PROBLEM, alpha=0.1, samples=3)

PROMISED = Guarantee(
    risk="selective",
    alpha_requested=0.1,
    alpha_certified=0.1,
    delta=0.1,
    promise="simultaneous",
    certificate="c0",
    statement="It is right.",
    n_problems=500,
    method="tested",
    covers="the policy",
    does_not_cover=("other problems",),
)


def sample(
    exit_: ExitReason = ExitReason.HIGH, confidence: float = 0.9, *, cached: int = 16
) -> Sample:
    """A sample with 40 thinking tokens, 1 discarded, 4 forcing tokens, 3 answer tokens."""
    readings = (Reading(32, 0.5), Reading(40, confidence, is_final=True))
    rollout = Rollout(
        tokens=(1,) * 40,
        text="hm",
        exit=exit_,
        readings=readings,
        discarded=1,
        cached_prompt_tokens=cached,
    )
    return Sample(rollout, answer="7 apples", answer_tokens=3, suffix_tokens=4, forced=True)


def solution(
    *samples: Sample | CancelledSample,
    answer: str | None = "7 apples",
    confidence: float | None = 0.72,
    guarantee: Guarantee | None = PROMISED,
    expected: float | None = 400.0,
) -> Solution:
    """A solution of these samples. Default: three, high, natural and cancelled at 20 tokens."""
    drawn = samples or (
        sample(),
        sample(ExitReason.NATURAL, 0.62, cached=32),
        CancelledSample(tokens=20),
    )
    return Solution(
        answer=answer,
        confidence=confidence if answer is not None else None,
        exit=ExitReason.HIGH,
        samples=drawn,
        policy=FULL_BUDGET,
        guarantee=guarantee,
        no_guarantee_reason=None if guarantee else "no certificate is loaded",
        tally={"7 apples": 1.4},
        prompt_tokens=50,
        expectation=None if expected is None else Expectation(expected / 2, expected),
    )
