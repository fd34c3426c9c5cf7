"""The study of speculative decoding finds what differs, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from studies.serving.speculation import distribution, power
from studies.serving.speculation.distribution import Outcomes, p_values, rejected
from studies.serving.speculation.equality import compare
from studies.serving.speculation.power import smallest_found
from studies.serving.speculation.rollouts import Seen

PLAIN = Seen(3, 0, tuple(range(40)), "budget", ((16, 0.5), (32, 0.6), (40, 0.7)), 1)


def test_equal_rollouts_are_equal() -> None:
    found = compare([PLAIN], [PLAIN], gap=lambda question, tokens: 1.0)
    assert (found.rollouts, found.tokens, found.readings) == (1, 40, 3)
    assert not found.faults
    assert not found.ties


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({"tokens": (*range(20), 99, *range(21, 40))}, "token 20 differs"),
        ({"tokens": tuple(range(39))}, "other end"),
        ({"exit": "high"}, "other end"),
        ({"readings": ((16, 0.5), (32, 0.6002), (40, 0.7))}, "reading 32 differs"),
        ({"readings": ((16, 0.5), (40, 0.7))}, "reading 32 differs"),
    ],
)
def test_a_token_an_end_or_a_reading_that_differs_is_a_fault(
    changed: dict[str, object], fault: str
) -> None:
    found = compare([PLAIN], [replace(PLAIN, **changed)], gap=lambda question, tokens: 1.0)  # type: ignore[arg-type]
    (said,) = found.faults
    assert fault in said


def test_after_a_tie_nothing_is_compared_and_the_tie_is_listed() -> None:
    other = replace(PLAIN, tokens=(*range(20), 99), readings=((16, 0.5), (21, 0.1)), exit="high")
    found = compare([PLAIN], [other], gap=lambda question, tokens: 1e-5)
    assert found.ties == [{"question": 3, "token": 20, "gap": 1e-5}]
    assert (found.tokens, found.readings, found.faults) == (20, 1, [])


def sampled(seed: int, questions: int = 40, surer: float = 0.0) -> Outcomes:
    """Rollouts of questions that differ from each other more than their rollouts do."""
    rng = np.random.default_rng(seed)
    rollouts = []
    for question in range(questions):
        for sample in range(4):
            tokens = tuple(rng.integers(question, question + 50, rng.integers(20, 100)))
            confidence = question / 100 + 0.2 * rng.random() + surer
            ended = rng.choice(["high", "budget"])
            rollouts.append(Seen(question, sample, tokens, ended, ((len(tokens), confidence),), 1))
    return Outcomes.of(rollouts)


@pytest.fixture
def few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distribution, "PERMUTATIONS", 399)
    monkeypatch.setattr(power, "DRAWS", 200)
    monkeypatch.setattr(power, "SHIFTS", {"confidence": (0.01, 0.02, 0.04, 0.08)})


def test_equal_distributions_are_told_apart_as_often_as_the_level_says(
    few_draws: None,
) -> None:
    """At 5%, more than 5 of 20 has a probability of .0003."""
    rng = np.random.default_rng(0)
    found = [rejected(p_values(sampled(2 * n), sampled(2 * n + 1), rng)) for n in range(20)]
    assert sum(map(bool, found)) <= 5


def test_a_shift_of_the_confidence_is_found_as_the_power_says(few_draws: None) -> None:
    rng = np.random.default_rng(1)
    shift = smallest_found(sampled(0).joined(sampled(1)), 4, rng)["confidence"]
    found = [
        "confidence" in rejected(p_values(sampled(2 * n), sampled(2 * n + 1, surer=shift), rng))
        for n in range(1, 11)
    ]
    assert sum(found) >= 5, "nine in ten are to be found"
