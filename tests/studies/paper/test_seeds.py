from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from calibration.metrics.bootstrap import estimate_difference, estimate_metrics
from calibration.metrics.estimates import Estimate
from studies.paper.primary.inference import crossed
from studies.paper.report.results_index import fewest_rollouts, scored_alike
from studies.paper.report.seeds import COMPARED, mean_difference, mean_over_seeds, mean_slope
from studies.paper.result import Result, Rollouts
from studies.paper.runs import PaperRun
from tests.studies.paper.made_results import made_result


def of(results: Sequence[Result], name: str) -> Result:
    return next(result for result in results if result.name == name)


def test_of_one_seed_it_is_the_paired_difference(every_result: Sequence[Result]) -> None:
    one, other = of(every_result, "grpo-0"), of(every_result, "rlcm-0.1-0")
    expected = estimate_difference(one.rollouts.scored(), other.rollouts.scored(), COMPARED)
    found = mean_difference([(one, other)])
    for name in COMPARED:
        for field in ("value", "low", "high"):
            assert getattr(found[name], field) == pytest.approx(getattr(expected[name], field))


def test_of_several_seeds_it_is_the_mean_of_their_differences(
    every_result: Sequence[Result],
) -> None:
    pairs = [(of(every_result, f"grpo-{s}"), of(every_result, f"rlcm-0.1-{s}")) for s in range(3)]
    each = [mean_difference([pair]) for pair in pairs]
    together = mean_difference(pairs)
    for name in COMPARED:
        values = [found[name].value for found in each]
        assert together[name].value == pytest.approx(np.mean([v for v in values if v is not None]))


def test_of_several_seeds_the_interval_covers_seeds_and_problems(
    every_result: Sequence[Result],
) -> None:
    pairs = [(of(every_result, f"grpo-{s}"), of(every_result, f"rlcm-0.1-{s}")) for s in range(3)]
    found = mean_difference(pairs, ["accuracy"])["accuracy"]
    difference_SP = np.array(
        [
            [
                np.mean(own) - np.mean(other)
                for own, other in zip(ours.rollouts.right, theirs.rollouts.right, strict=True)
            ]
            for theirs, ours in pairs
        ]
    )
    seeds, problems = difference_SP.shape
    drawn = np.random.default_rng(5).integers(problems, size=(2000, problems))
    expected = crossed(difference_SP.mean(1), difference_SP[:, drawn].mean(2), problems)
    assert seeds == 3
    assert found.value == pytest.approx(expected.mean)
    assert (found.low, found.high) == pytest.approx(expected.interval(), abs=0.1 * expected.error)
    same = mean_over_seeds(difference_SP)
    assert (same.low, same.high) == pytest.approx((found.low, found.high), abs=0.1 * expected.error)


def at_weights(*weights: float) -> dict[float, list[Result]]:
    """Three seeds of RLCM at each of these weights."""
    return {
        weight: [made_result(PaperRun("rlcm", seed, weight)) for seed in range(3)]
        for weight in weights
    }


def test_between_two_weights_a_slope_is_their_difference() -> None:
    sides = at_weights(0.1, 0.5)
    pairs = list(zip(*sides.values(), strict=True))
    apart, slope = mean_difference(pairs, ["auroc"], 4), mean_slope(sides, ["auroc"], 4)
    for field in ("value", "low", "high"):
        expected = getattr(apart["auroc"], field) / 0.4
        assert getattr(slope["auroc"], field) == pytest.approx(expected)


def test_a_slope_is_that_of_least_squares_in_each_seed() -> None:
    runs = at_weights(0.05, 0.1, 0.3, 0.5)
    accuracy_WS = [
        [np.mean([np.mean(row[:4]) for row in one.rollouts.right]) for one in own]
        for own in runs.values()
    ]
    expected = np.polyfit([*runs], np.array(accuracy_WS), 1)[0].mean()
    assert mean_slope(runs, ["accuracy"], 4)["accuracy"].value == pytest.approx(expected)


def test_the_same_seed_three_times_is_as_sure_as_once(every_result: Sequence[Result]) -> None:
    """Resamples draw the same problems for all seeds: what they have in common does not cancel."""
    pair = of(every_result, "grpo-0"), of(every_result, "rlcm-0.1-0")
    once, thrice = mean_difference([pair]), mean_difference([pair] * 3)
    for name in ("pce", "ece"):
        assert _width(thrice, name) >= _width(once, name) > 0, "where it is 0, resamples agree"
    for name in ("accuracy", "auroc"):
        assert _width(thrice, name) == pytest.approx(_width(once, name), rel=0.15)


def test_an_undefined_metric_stays_undefined(every_result: Sequence[Result]) -> None:
    """AUROC, where all rollouts are right."""
    one = of(every_result, "grpo-0")
    right = tuple(tuple(1 for _ in own) for own in one.rollouts.right)
    classes = tuple(tuple(0 for _ in own) for own in one.rollouts.right)
    perfect = replace(one, rollouts=replace(one.rollouts, right=right, answer_class=classes))
    found = mean_difference([(one, perfect), (one, one)])
    assert found["auroc"].value is None
    assert found["accuracy"].value is not None


def test_runs_compare_on_as_many_rollouts(every_result: Sequence[Result]) -> None:
    many, few = of(every_result, "rlcm-0.1-0"), of(every_result, "final-brier-0.1-0")
    assert fewest_rollouts([many, few]) == 4
    thinned = scored_alike(many, 4)
    assert thinned.rollouts_P.tolist() == [4] * few.rollouts.scored().n_problems
    first = [own[:4] for own in many.rollouts.confidence]
    assert thinned.confidence_R.reshape(-1, 4).tolist() == [list(own) for own in first]
    names = ["ece", "accuracy"]
    ours, theirs = (
        estimate_metrics(s, names, resamples=1) for s in (few.rollouts.scored(), thinned)
    )
    found = mean_difference([(many, few)], names)
    for name in names:
        one, other = ours[name].value, theirs[name].value
        assert one is not None
        assert other is not None
        assert found[name].value == pytest.approx(one - other)


def test_thinning_keeps_to_the_problems_of_a_part(every_result: Sequence[Result]) -> None:
    kept = Rollouts(
        problems=("a", "b", "c"),
        parts=("dial, level 1", "tale, level 1", "dial, level 2"),
        confidence=((0.1, 0.2), (0.3, 0.4), (0.5, 0.6)),
        right=((0, 1), (1, 0), (1, 1)),
        answer_class=((0, 1), (0, 1), (0, 0)),
    )
    result = replace(every_result[0], rollouts=kept)
    assert scored_alike(result, 1, "dial,").confidence_R.tolist() == [0.1, 0.5]


def _width(found: dict[str, Estimate], name: str) -> float:
    estimate = found[name]
    assert estimate.low is not None
    assert estimate.high is not None
    return estimate.high - estimate.low
