"""Which problems need a label, and that the others' labels change nothing."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from calibration import ERROR, REGRET, SELECTIVE, ExitPolicy, Outcomes, Risk, Traces, certify
from calibration.simulation import labels
from calibration.simulation.labels import labels_needed
from calibration.simulation.procedure import Procedure
from calibration.simulation.replay import replay
from tests.calibration.recordings import several_rollouts


@pytest.fixture(scope="module")
def traces(world: Any) -> Traces:
    """80 problems with 3 rollouts each; later answers repeat earlier ones more often than not."""
    drawn = several_rollouts(world.draw(np.random.default_rng(3), 240), 3)
    rng = np.random.default_rng(4)
    shape = drawn.answer_class_RC.shape
    last_R1 = rng.integers(0, 2, (shape[0], 1))
    class_RC = np.where(rng.random(shape) < 0.95, last_R1, rng.integers(-1, 3, shape))
    right_P1 = rng.integers(0, 3, (80, 1))
    return replace(
        drawn, answer_class_RC=class_RC, correct_RC=class_RC == right_P1[drawn.problem_R]
    )


def relabelled(traces: Traces, kept_P: np.ndarray, seed: int) -> Traces:
    """Another answer is right in each problem that is not kept."""
    rng = np.random.default_rng(seed)
    right_R1 = rng.integers(0, 4, (traces.n_problems, 1))[traces.problem_R]
    other_RC = traces.answer_class_RC == right_R1
    kept_R1 = kept_P[traces.problem_R][:, None]
    return replace(traces, correct_RC=np.where(kept_R1, traces.correct_RC, other_RC))


@pytest.mark.parametrize("samples", [1, 3])
@pytest.mark.parametrize("risk", [SELECTIVE, REGRET])
def test_labels_that_are_not_needed_change_no_loss(
    traces: Traces, risk: Risk, samples: int
) -> None:
    made = certify(traces, risk=risk, alphas=(0.3,), samples=samples, method="chains")
    procedure, policies = Procedure(samples), made.tested.policies
    needed_P = labels_needed(traces, policies, risk, procedure)
    if risk is REGRET:
        assert 0.05 < needed_P.mean() < 0.95
    losses = replay(traces, policies, risk, procedure).losses
    for seed in range(5):
        others = relabelled(traces, needed_P, seed)
        other = replay(others, policies, risk, procedure).losses
        assert (other.loss_UT[others.unit_P] == losses.loss_UT[traces.unit_P]).all()
        again = certify(
            relabelled(traces, needed_P, seed), risk=risk, alphas=(0.3,), samples=samples,
            family=made.tested,
        )  # fmt: skip
        assert [one.certified for one in again.levels] == [one.certified for one in made.levels]


def test_every_label_that_is_called_needed_can_change_a_loss(traces: Traces) -> None:
    policies = certify(traces, risk=REGRET, alphas=(0.3,), method="chains").tested.policies
    needed_P = labels_needed(traces, policies, REGRET, Procedure())
    none_P = np.zeros(traces.n_problems, dtype=np.bool_)
    others = [relabelled(traces, none_P, seed) for seed in range(30)]
    found = np.stack(
        [
            replay(other, policies, REGRET, Procedure()).losses.loss_UT[other.unit_P]
            for other in others
        ]
    )
    changed_P = (found != found[0]).any(axis=(0, 2))
    assert (changed_P <= needed_P).all()
    assert changed_P.sum() >= 0.95 * needed_P.sum()


def test_where_every_answer_counts_every_label_is_needed(traces: Traces) -> None:
    policies = certify(traces, risk=ERROR, alphas=(0.9,), method="chains").tested.policies
    answered_P = np.array(
        [(traces.answer_class_RC[traces.problem_R == p] >= 0).all() for p in range(80)]
    )
    needed_P = labels_needed(traces, policies, ERROR, Procedure())
    assert needed_P[answered_P].all()


def test_no_label_is_read(traces: Traces) -> None:
    policies = certify(traces, risk=REGRET, alphas=(0.3,), method="chains").tested.policies
    found = [
        labels_needed(labelled, policies, REGRET, Procedure()).tolist()
        for labelled in (traces, replace(traces, correct_RC=~traces.correct_RC))
    ]
    assert found[0] == found[1]


@pytest.mark.parametrize("samples", [1, 3])
@pytest.mark.parametrize("risk", [SELECTIVE, ERROR, REGRET], ids=lambda risk: risk.name)
def test_it_is_what_trying_each_answer_as_the_right_one_finds(
    traces: Traces, risk: Risk, samples: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    policies = certify(
        traces, risk=risk, alphas=(0.9,), samples=samples, method="chains"
    ).tested.policies
    procedure = Procedure(samples)
    losses = [
        replay(labelled, policies, risk, procedure).losses.loss_UT[labelled.unit_P]
        for right in (-2, *range(traces.answer_class_RC.max() + 1))
        for labelled in (replace(traces, correct_RC=traces.answer_class_RC == right),)
    ]
    tried_P = (np.stack(losses) != losses[0]).any(axis=(0, 2))
    assert tried_P.any()
    assert (labels_needed(traces, policies, risk, procedure) == tried_P).all()
    monkeypatch.setattr(labels, "BLOCK", 1)  # a block for each problem
    assert (labels_needed(traces, policies, risk, procedure) == tried_P).all()


@pytest.mark.parametrize("samples", [1, 3])
def test_it_costs_as_much_with_many_answers_as_with_two(traces: Traces, samples: int) -> None:
    simulated: list[int] = []

    def counted(outcomes: Outcomes) -> np.ndarray:
        simulated.append(outcomes.answered_DT.size)
        return ~outcomes.correct_DT

    policies = [ExitPolicy(lambda_high=high, answer_on_low=True) for high in (0.5, 0.7, 0.9)]
    risk = Risk.custom("counted", counted, answers_always=True)
    every_RC = np.arange(traces.answer_class_RC.size).reshape(traces.answer_class_RC.shape)
    totals = []
    for class_RC in (traces.answer_class_RC % 2, every_RC % 18):
        simulated.clear()
        some = replace(traces, answer_class_RC=class_RC)
        assert labels_needed(some, policies, risk, Procedure(samples)).all()
        totals.append(sum(simulated))
    assert totals[0] == totals[1]
