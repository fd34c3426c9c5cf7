from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from calibration import CalibrationError, Fingerprint, Rollout, Traces
from calibration.metrics.budget_cuts import at_end, cut_at

MakeRollout = Callable[..., Rollout]


@pytest.fixture
def traces(make_rollout: MakeRollout, fingerprint: Fingerprint) -> Traces:
    return Traces.from_rollouts(
        [
            make_rollout("p1", (0.1,), (False,), end=7),
            make_rollout("p1", (0.3, 0.4), (True, False), end=16, rollout=1),
            make_rollout("p2", (0.2, 0.6, 0.9), (False, True, True), end=40),
            make_rollout("p3", (0.5, 0.6, 0.7, 0.8, 0.9), (True,) * 5, end=80, natural=False),
        ],
        fingerprint,
    )


def test_at_the_end(traces: Traces) -> None:
    scored = at_end(traces)
    assert scored.problem_R.tolist() == [0, 0, 1, 2]
    assert scored.confidence_R.tolist() == [0.1, 0.4, 0.9, 0.9]
    assert scored.correct_R.tolist() == [False, False, True, True]
    assert scored.answer_class_R.tolist() == [1, 1, 0, 0]
    assert scored.n_units == 3


@pytest.mark.parametrize(
    ("tokens", "confidence", "ended"),
    [
        # An end on a checkpoint is an end.
        (16, [0.1, 0.4, 0.2, 0.5], [True, True, False, False]),
        (32, [0.1, 0.4, 0.6, 0.6], [True, True, False, False]),
        (48, [0.1, 0.4, 0.9, 0.7], [True, True, True, False]),
        # The recorded budget ends no rollout by itself.
        (80, [0.1, 0.4, 0.9, 0.9], [True, True, True, False]),
    ],
)
def test_cuts(traces: Traces, tokens: int, confidence: list[float], ended: list[bool]) -> None:
    scored, ended_R = cut_at(traces, tokens)
    assert scored.confidence_R.tolist() == confidence
    assert ended_R.tolist() == ended


def test_a_cut_takes_answer_and_verdict_of_its_reading(traces: Traces) -> None:
    scored, _ = cut_at(traces, 16)
    assert scored.correct_R.tolist() == [False, False, False, True]
    assert scored.answer_class_R.tolist() == [1, 1, 1, 0]


def test_groups_are_units(traces: Traces) -> None:
    grouped = replace(traces, groups=("g", None, "g"))
    assert cut_at(grouped, 16)[0].n_units == at_end(grouped).n_units == 2


def test_a_cut_after_all_natural_ends_needs_no_checkpoint(traces: Traces) -> None:
    natural = traces.select(np.array([True, True, False]))
    scored, ended_R = cut_at(natural, 1000)
    assert scored.confidence_R.tolist() == at_end(natural).confidence_R.tolist()
    assert ended_R.all()


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        (20, "problem 'p2', rollout 0: no reading at 20 tokens, only at 16, 32, 40"),
        (96, "problem 'p3', rollout 0: no reading at 96 tokens, only at 16, 32, 48, 64, 80"),
    ],
)
def test_refuses_what_was_not_read(traces: Traces, tokens: int, message: str) -> None:
    with pytest.raises(CalibrationError, match=message):
        cut_at(traces, tokens)
