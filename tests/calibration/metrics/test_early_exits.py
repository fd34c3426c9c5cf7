"""Ranking at equal depth and the distance to the oracle exit, against plain definitions."""

from collections.abc import Callable
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from calibration import ExitPolicy, Fingerprint, Rollout, Traces
from calibration.metrics.bootstrap import mean_over_problems
from calibration.metrics.early_exits import (
    REGRETS,
    OracleExits,
    depth_auroc,
    oracle_distances,
)
from calibration.metrics.estimates import Estimate
from calibration.simulation.replay import outcomes
from tests.calibration.recordings import several_rollouts

MakeRollout = Callable[..., Rollout]


def of_rollouts(fingerprint: Fingerprint | None, *rollouts: Rollout) -> Traces:
    return Traces.from_rollouts(rollouts, fingerprint)


def drawn(fingerprint: Fingerprint, seed: int, rollouts: int = 4) -> Traces:
    """Rollouts of several lengths, with coarse confidences that are often tied."""
    rng = np.random.default_rng(seed)
    n = 30 * rollouts
    final_R = rng.integers(0, 5, n)
    column_C = np.arange(5)
    settled_R = rng.integers(0, 7, n)
    confidence_RC = rng.integers(1, 10, (n, 5)) / 10
    padding_RC = column_C > final_R[:, None]
    one_each = Traces(
        fingerprint=fingerprint,
        problem_ids=tuple(f"p{i:03d}" for i in range(n)),
        groups=(None,) * n,
        problem_R=np.arange(n),
        rollout_R=np.zeros(n, dtype=np.int64),
        natural_R=np.ones(n, dtype=np.bool_),
        final_R=final_R,
        tokens_RC=np.where(padding_RC, 0, 16 * (column_C + 1)),
        confidence_RC=np.where(padding_RC, np.nan, confidence_RC),
        answer_class_RC=np.zeros((n, 5), dtype=np.int64),
        answer_tokens_RC=np.where(padding_RC, 0, rng.integers(1, 5, (n, 5))),
        correct_RC=~padding_RC & ((column_C >= settled_R[:, None]) ^ (rng.random((n, 5)) < 0.1)),
        confidence_tokens_RC=np.where(padding_RC, 0, rng.integers(0, 3, (n, 5))),
    )
    return several_rollouts(one_each, rollouts)


def plain_depth_auroc(traces: Traces) -> float | None:
    """Every pair of readings compared, as the definition says."""
    readings = [
        (problem, traces.tokens_RC[r, c], traces.confidence_RC[r, c], traces.correct_RC[r, c])
        for r, problem in enumerate(traces.problem_R.tolist())
        for c in range(traces.final_R[r])
    ]
    wins = [
        1.0 if one[2] > other[2] else 0.5 if one[2] == other[2] else 0.0
        for one, other in product(readings, readings)
        if one[:2] == other[:2] and one[3] and not other[3]
    ]
    return float(np.mean(wins)) if wins else None


@pytest.mark.parametrize("seed", range(4))
def test_auroc_at_depth_is_the_share_of_pairs_in_the_right_order(
    seed: int, fingerprint: Fingerprint
) -> None:
    traces = drawn(fingerprint, seed)
    found = depth_auroc(traces)
    assert found.value == pytest.approx(plain_depth_auroc(traces))
    assert found.low is not None
    assert found.high is not None
    assert found.value is not None
    assert found.low < found.value < found.high


def test_what_knows_only_question_and_depth_has_one_half(fingerprint: Fingerprint) -> None:
    traces = drawn(fingerprint, 0)
    blind_RC = traces.problem_R[:, None] / 100 + traces.tokens_RC / 1000
    blind = replace(
        traces, confidence_RC=np.where(np.isnan(traces.confidence_RC), np.nan, blind_RC)
    )
    assert depth_auroc(blind) == Estimate(0.5), "resamples that agree say nothing of others"


def test_the_final_reading_is_no_place_to_stop(
    make_rollout: MakeRollout, fingerprint: Fingerprint
) -> None:
    traces = of_rollouts(
        fingerprint,
        make_rollout("p1", (0.9, 0.1), (False, True), end=30),
        make_rollout("p1", (0.2, 0.8, 0.9), (True, False, False), end=40, rollout=1),
    )
    # At 16 tokens the wrong one is surer. At 32 the first rollout has ended.
    assert depth_auroc(traces).value == 0.0


@pytest.mark.parametrize(
    ("confidences", "end"), [((0.2, 0.6, 0.9), 40), ((0.9,), 8)], ids=["checkpoints", "none"]
)
def test_one_rollout_of_each_question_leaves_auroc_at_depth_undefined(
    confidences: tuple[float, ...],
    end: int,
    make_rollout: MakeRollout,
    fingerprint: Fingerprint,
) -> None:
    correct = (False, True, True)[-len(confidences) :]
    rollouts = [make_rollout(name, confidences, correct, end) for name in ("p1", "p2")]
    assert depth_auroc(of_rollouts(fingerprint, *rollouts)) == Estimate(None)


@pytest.mark.parametrize(
    ("correct", "tokens"),
    [
        ((False, True, True), 32 + 3),
        ((True, False, True), 40 + 3),
        ((True, True, True), 16 + 3),
        ((True, True, False), None),
        ((False, False, False), None),
    ],
)
def test_the_oracle_stops_where_the_answer_is_right_and_stays_right(
    correct: tuple[bool, ...],
    tokens: int | None,
    make_rollout: MakeRollout,
    fingerprint: Fingerprint,
) -> None:
    longer = make_rollout("p2", (0.1,) * 5, (False,) * 5, end=80)
    traces = of_rollouts(fingerprint, make_rollout("p1", correct=correct), longer)
    found = OracleExits.find(traces)
    assert found.row_O.tolist() == ([] if tokens is None else [0])
    assert found.tokens_O.tolist() == ([] if tokens is None else [tokens])
    assert found.mean_tokens(traces).value == tokens
    full = found.full_distance(traces).value
    assert full == (None if tokens is None else 43 - tokens)


def test_the_oracle_as_confidence_has_no_distance(fingerprint: Fingerprint) -> None:
    traces = replace(drawn(fingerprint, 1), confidence_tokens_RC=None)
    oracle = OracleExits.find(traces)
    exit_R = np.full(traces.n_rollouts, 9)
    spent_RC = traces.tokens_RC + traces.answer_tokens_RC
    exit_R[oracle.row_O] = (spent_RC[oracle.row_O] == oracle.tokens_O[:, None]).argmax(axis=1)
    knows_RC = np.where(np.arange(5) >= exit_R[:, None], 0.9, 0.1)
    knowing = replace(
        traces, confidence_RC=np.where(np.isnan(traces.confidence_RC), np.nan, knows_RC)
    )
    assert oracle_distances(knowing, oracle, [0.0]) == (Estimate(0.0),)


def test_a_constant_confidence_has_the_distance_of_the_full_budget(
    fingerprint: Fingerprint,
) -> None:
    recorded = drawn(fingerprint, 2)
    constant_RC = np.where(np.isnan(recorded.confidence_RC), np.nan, 0.5)
    traces = replace(recorded, confidence_RC=constant_RC, confidence_tokens_RC=None)
    oracle = OracleExits.find(traces)
    (found,) = oracle_distances(traces, oracle, [0.01])
    assert found == oracle.full_distance(traces)


@pytest.mark.parametrize("seed", range(3))
def test_the_distance_is_that_of_the_lowest_threshold_before_the_regret_is_exceeded(
    seed: int, fingerprint: Fingerprint
) -> None:
    traces = drawn(fingerprint, seed)
    oracle = OracleExits.find(traces)
    policies = [ExitPolicy(lambda_high=level) for level in (1.01, *np.arange(9, 0, -1) / 10)]
    played = outcomes(traces, policies)
    regret_T = (played.full_correct_D[:, None] & ~played.correct_DT).mean(axis=0)
    late_T = (played.tokens_DT[oracle.row_O] - oracle.tokens_O[:, None]).mean(axis=0)
    for regret, found in zip(REGRETS, oracle_distances(traces, oracle), strict=True):
        kept = next((t for t, each in enumerate(regret_T) if each > regret), len(policies)) - 1
        assert found.value == pytest.approx(late_T[kept])


def test_groups_are_recordedas_a_whole(fingerprint: Fingerprint) -> None:
    traces = drawn(fingerprint, 3)
    oracle = OracleExits.find(traces)
    grouped = replace(traces, groups=("one",) * 15 + ("other",) * 15)
    alone, together = (
        oracle_distances(each, oracle, [0.05], resamples=200)[0] for each in (traces, grouped)
    )
    assert alone.value == together.value
    assert (alone.low, alone.high) != (together.low, together.high)
    assert depth_auroc(traces).value == depth_auroc(grouped).value
    assert depth_auroc(traces).low != depth_auroc(grouped).low


def test_without_a_right_rollout_there_is_no_distance(
    make_rollout: MakeRollout, fingerprint: Fingerprint
) -> None:
    wrong = [make_rollout(name, correct=(True, True, False)) for name in ("p1", "p2")]
    traces = of_rollouts(fingerprint, *wrong)
    assert oracle_distances(traces, OracleExits.find(traces)) == (Estimate(None),) * len(REGRETS)


def test_the_mean_is_over_the_rollouts_that_have_an_oracle_exit(
    make_rollout: MakeRollout, fingerprint: Fingerprint
) -> None:
    traces = of_rollouts(
        fingerprint,
        make_rollout("p1", (0.9, 0.9), (True, True), end=20),
        make_rollout("p2", (0.1, 0.1), (False, False), end=20),
    )
    oracle = OracleExits.find(traces)
    assert oracle.full_distance(traces).value == mean_over_problems([4.0]).value
    assert oracle_distances(traces, oracle)[0].value == 0.0
