from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibration import (
    CalibrationError,
    auroc,
    brier_score,
    expected_calibration_error,
    positive_calibration_error,
)
from calibration.metrics.bootstrap import (
    estimate_difference,
    estimate_metrics,
    mean_over_problems,
    ratios_over_problems,
)
from calibration.metrics.budget_cuts import at_end
from calibration.metrics.estimates import Estimate
from calibration.metrics.ranking import risk_coverage
from calibration.metrics.resampling import draw
from calibration.metrics.scores import ScoredRollouts
from calibration.metrics.share_intervals import shares_over_problems
from calibration.metrics.weighted_metrics import METRICS, WeightedMetrics
from calibration.traces.traces import read_traces
from tests.calibration.plain_metrics import (
    adaptive_calibration_error,
    metric_replicates,
    negative_log_likelihood,
    within_auroc,
)
from tests.calibration.scored_rollouts import drawn, rows, shuffled

TRACES = Path(__file__).parents[3] / "studies" / "traces" / "embedded-test.parquet"


def slow_metrics(
    scored: ScoredRollouts, weight_U: np.ndarray, n_bins: int = 10
) -> dict[str, float | None]:
    """Metrics of single answers, with every rollout repeated as often as its unit was drawn.

    A unit that was drawn twice counts as two units: rollouts are only compared within one copy.
    """
    row_R, problem_R = [], []
    for unit, times in enumerate(weight_U.tolist()):
        for copy in range(times):
            own = np.flatnonzero(scored.unit_R == unit)
            row_R.append(own)
            problem_R.append(scored.problem_R[own] + (1000 * unit + copy) * scored.n_problems)
    row, problem = np.concatenate(row_R), np.concatenate(problem_R)
    confidence, correct = scored.confidence_R[row], scored.correct_R[row]
    return {
        "accuracy": float(correct.mean()),
        "ece": expected_calibration_error(confidence, correct, n_bins),
        "pce": positive_calibration_error(confidence, correct, n_bins),
        "adaptive_ece": adaptive_calibration_error(confidence, correct, n_bins),
        "brier": brier_score(confidence, correct),
        "nll": negative_log_likelihood(confidence, correct),
        "auroc": auroc(confidence, correct) if 0 < correct.mean() < 1 else None,
        "aurc": risk_coverage(confidence, correct).area,
        "within_auroc": within_auroc(
            np.unique(problem, return_inverse=True)[1], confidence, correct
        ),
    }


def as_nan(values: dict[str, float | None]) -> dict[str, float]:
    return {name: np.nan if value is None else value for name, value in values.items()}


WORLDS = [
    pytest.param({}, id="plain"),
    pytest.param({"levels": 6}, id="ties"),
    pytest.param({"levels": 2}, id="sure-of-all"),
    pytest.param({"groups": 7, "levels": 30}, id="groups"),
    pytest.param({"rollouts": [1, 9, 3, 2] * 10}, id="uneven"),
    pytest.param({"problems": 3, "rollouts": 2}, id="tiny"),
    pytest.param({"problems": 1}, id="one-problem"),
]


@pytest.mark.parametrize("world", WORLDS)
def test_values_are_those_of_the_plain_metrics(world: dict) -> None:
    scored = shuffled(drawn(3, **world))
    found = {name: each.value for name, each in estimate_metrics(scored, resamples=2).items()}
    expected = slow_metrics(scored, np.ones(scored.n_units, dtype=np.int64))
    assert found == pytest.approx(expected, abs=1e-12)
    assert tuple(found) == METRICS


@pytest.mark.parametrize("world", WORLDS)
def test_replicates_are_the_metrics_of_what_was_drawn(world: dict) -> None:
    scored = shuffled(drawn(4, **world))
    found = metric_replicates(scored, resamples=40, seed=9, n_bins=7)
    for t in range(40):
        expected = slow_metrics(scored, draw(scored.n_units, 9, t), n_bins=7)
        assert {name: found[name][t] for name in METRICS} == pytest.approx(
            as_nan(expected), abs=1e-12, nan_ok=True
        )


@given(st.integers(0, 10_000), st.integers(1, 6), st.integers(2, 9), st.integers(1, 200))
@settings(max_examples=60)
def test_parts_of_any_size_add_up(seed: int, problems: int, levels: int, cells: int) -> None:
    scored = drawn(seed, problems=problems, rollouts=4, levels=levels)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("calibration.metrics.weighted_metrics._CELLS", cells)
        found = metric_replicates(scored, resamples=3)
    for t in range(3):
        expected = as_nan(slow_metrics(scored, draw(problems, 0, t)))
        assert {name: found[name][t] for name in METRICS} == pytest.approx(
            expected, abs=1e-12, nan_ok=True
        )


def test_neither_order_nor_threads_matter() -> None:
    scored = drawn(5, levels=20)
    one = estimate_metrics(scored, resamples=50, threads=1)
    other = estimate_metrics(shuffled(scored), resamples=50, threads=3)
    for name in METRICS:
        for bound in ("value", "low", "high"):
            assert getattr(one[name], bound) == pytest.approx(getattr(other[name], bound), abs=1e-9)


def test_the_seed_decides() -> None:
    scored = drawn(6)
    one, same, other = (metric_replicates(scored, ["ece"], seed=s)["ece"] for s in (1, 1, 2))
    assert (one == same).all()
    assert (one != other).any()


def test_only_what_is_asked_for_in_the_order_asked() -> None:
    found = estimate_metrics(drawn(), ["pce", "accuracy"], resamples=5)
    assert list(found) == ["pce", "accuracy"]


def test_undefined_is_none() -> None:
    right = replace(
        drawn(),
        correct_R=np.ones(200, dtype=np.bool_),
        answer_class_R=np.zeros(200, dtype=np.int64),
    )
    found = estimate_metrics(right, resamples=20)
    assert found["auroc"] == found["within_auroc"] == Estimate(None)
    assert found["aurc"] == Estimate(0.0)  # all resamples agree, and other problems need not
    assert found["accuracy"].value == found["accuracy"].high == 1
    assert 0.8 < found["accuracy"].low < 1


@pytest.mark.parametrize("confidence", [0.95, 0.9, 0.3])
def test_resamples_that_agree_give_a_calibration_error_no_interval(confidence: float) -> None:
    """30 right answers, all as sure: one wrong answer more would change both errors."""
    n = 30
    sure_R = np.full(2 * n, confidence)
    right = ScoredRollouts(
        np.arange(2 * n) // 2, np.ones(2 * n, bool), sure_R, np.zeros(2 * n, int)
    )
    found = estimate_metrics(right, ["ece", "pce"], resamples=50)
    assert {name: (one.low, one.high) for name, one in found.items()} == {
        "ece": (None, None),
        "pce": (None, None),
    }


@pytest.mark.parametrize(("problems", "has_interval"), [(19, False), (20, True)])
def test_few_problems_have_an_interval_of_their_accuracy_alone(
    problems: int, has_interval: bool
) -> None:
    found = estimate_metrics(drawn(problems=problems, rollouts=8), resamples=50)
    assert found["accuracy"].low is not None
    assert {found[name].low is not None for name in ("ece", "brier", "auroc")} == {has_interval}


def test_the_accuracy_has_the_interval_of_a_share() -> None:
    scored = drawn(2, problems=12, rollouts=6)
    (expected,) = shares_over_problems(scored.right_P[:, None], scored.rollouts_P)
    assert estimate_metrics(scored, ["accuracy"], resamples=5)["accuracy"] == expected


@pytest.mark.parametrize("problems", [8, 60])
def test_runs_that_are_always_right_may_differ_on_other_problems(problems: int) -> None:
    one = drawn(3, problems=problems)
    right = replace(
        one,
        correct_R=np.ones_like(one.correct_R),
        answer_class_R=np.zeros_like(one.answer_class_R),
    )
    found = estimate_difference(right, right, ["accuracy"], resamples=20)["accuracy"]
    alone = estimate_metrics(right, ["accuracy"], resamples=5)["accuracy"]
    assert found.value == 0
    assert found.high == -found.low == pytest.approx(1 - alone.low)


def test_a_difference_is_paired() -> None:
    one = drawn(7, problems=60)
    surer = replace(one, confidence_R=np.sqrt(one.confidence_R))
    names = ("accuracy", "brier", "within_auroc")
    found = estimate_difference(one, surer, names, resamples=200)
    assert found["accuracy"].value == 0
    assert found["within_auroc"] == Estimate(0.0)
    first, second = (metric_replicates(run, ["brier"], resamples=200) for run in (one, surer))
    expected = np.quantile(second["brier"] - first["brier"], [0.025, 0.975])
    assert (found["brier"].low, found["brier"].high) == pytest.approx(tuple(expected))
    # Unpaired, the problems' difficulty would widen it.
    apart = metric_replicates(surer, ["brier"], resamples=200, seed=1)["brier"]
    assert np.diff(expected) < 0.6 * np.diff(np.quantile(apart - first["brier"], [0.025, 0.975]))


def test_runs_are_paired_however_their_recordings_number_the_units() -> None:
    traces = read_traces(TRACES)
    fewer = traces.select(np.arange(traces.n_problems) < 60)
    surer = replace(fewer, confidence_RC=np.sqrt(fewer.confidence_RC))
    one, other = at_end(fewer), at_end(surer)
    assert not np.array_equal(one.units_P, other.units_P)
    found = estimate_difference(one, other, ["accuracy", "brier"], resamples=20)
    assert found["accuracy"].value == 0
    assert found["brier"].low is not None


def test_runs_may_differ_in_rollouts_but_not_in_problems() -> None:
    one = drawn(8, problems=12, rollouts=6)
    fewer = rows(one, np.flatnonzero(np.arange(72) % 6 < 2))
    value = estimate_difference(one, fewer, ["accuracy"], resamples=5)["accuracy"].value
    assert value == pytest.approx(fewer.correct_R.mean() - one.correct_R.mean())
    with pytest.raises(CalibrationError, match="12 problems in 12 units and 11 in 11"):
        estimate_difference(one, one.select(np.arange(12) < 11))
    with pytest.raises(CalibrationError, match="12 problems in 12 units and 12 in 3"):
        estimate_difference(one, replace(one, unit_P=np.arange(12) % 3))


def test_means_and_ratios() -> None:
    rng = np.random.default_rng(0)
    count_P, tokens_P = rng.poisson(3, 80).astype(float), rng.integers(100, 900, 80).astype(float)
    mean = mean_over_problems(tokens_P, resamples=100)
    assert mean.value == pytest.approx(tokens_P.mean())
    means = [draw(80, 0, t) @ tokens_P / 80 for t in range(100)]
    assert (mean.low, mean.high) == pytest.approx(tuple(np.quantile(means, [0.025, 0.975])))
    first, second = ratios_over_problems(
        np.column_stack([count_P, 2 * count_P]), tokens_P, unit_P=np.arange(80) % 25, resamples=50
    )
    assert first.value == pytest.approx(count_P.sum() / tokens_P.sum())
    assert (second.low, second.high) == pytest.approx((2 * first.low, 2 * first.high))
    assert ratios_over_problems([[1.0]], [0.0]) == (Estimate(None),)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: estimate_metrics(drawn(), resamples=0), "resamples is 0"),
        (lambda: WeightedMetrics(drawn(), n_bins=0), "n_bins is 0"),
        (lambda: estimate_metrics(drawn(), ["f1", "ece"]), r"no metrics \['f1'\]"),
        (lambda: mean_over_problems([]), "at least one problem"),
        (lambda: mean_over_problems([1.0, np.nan]), "nan or infinite"),
        (lambda: mean_over_problems([1.0], unit_P=np.array([0, 1])), r"units \(2,\)"),
        (
            lambda: ratios_over_problems([[1.0]], [1.0, 2.0]),
            r"numerators \(1, 1\), denominators \(2,\)",
        ),
    ],
)
def test_refuses(call: Callable[[], object], message: str) -> None:
    with pytest.raises(CalibrationError, match=message):
        call()


@pytest.mark.slow
def test_coverage() -> None:
    """The share of intervals, over 300 samples of problems, that contain the value of all problems.

    A percentile interval of 60 problems contains it slightly less often than 95%. With 300 samples
    the share itself has a standard error of 1.3 percentage points.
    """
    names = ("accuracy", "brier", "nll", "auroc", "aurc", "within_auroc")
    everything = drawn(99, problems=60_000, rollouts=4)
    truth = {
        name: each.value for name, each in estimate_metrics(everything, names, resamples=1).items()
    }
    held = dict.fromkeys(names, 0)
    for i in range(300):
        keep_P = np.zeros(60_000, dtype=np.bool_)
        keep_P[200 * i : 200 * i + 60] = True
        found = estimate_metrics(everything.select(keep_P), names, resamples=200, seed=i, threads=1)
        for name in names:
            held[name] += found[name].low <= truth[name] <= found[name].high
    shares = {name: count / 300 for name, count in held.items()}
    assert all(0.89 <= share <= 0.985 for share in shares.values()), shares
