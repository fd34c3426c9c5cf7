"""A forecast from a pilot: its counts, and its agreement with later calibrations."""

from dataclasses import replace

import numpy as np
import pytest

from calibration import (
    CalibrationError,
    Promise,
    Traces,
    certify,
    certify_kinds,
    fewest_problems,
    plan,
    plan_kinds,
)
from calibration.certificate.certify_kinds import ENOUGH
from calibration.certificate.plan import LIKELY, Plan


@pytest.fixture(scope="module")
def pilot(world) -> Traces:
    return world.draw(np.random.default_rng(0), 200)


@pytest.fixture(scope="module")
def forecast(pilot: Traces) -> Plan:
    return plan(pilot, alphas=(0.1, 0.3), promise="pointwise", sizes=(10, 100, 400), repeats=40)


def test_there_is_a_forecast_for_every_size_and_level(forecast: Plan) -> None:
    pairs = [(each.n, each.alpha) for each in forecast.forecasts]
    assert pairs == [(n, alpha) for n in (10, 100, 400) for alpha in (0.1, 0.3)]
    assert forecast.n_pilot == 200
    for each in forecast.forecasts:
        assert 0 <= each.right_share <= each.answered_share <= 1
        assert 0 < each.tokens_share <= 1


def test_more_problems_certify_more(forecast: Plan) -> None:
    at_03 = [each.certified for each in forecast.forecasts if each.alpha == 0.3]
    assert at_03[0] < at_03[-1]
    assert at_03[-1] >= LIKELY
    assert forecast.enough[0.3] in (100, 400)


def test_no_test_certifies_with_fewer_than_the_fewest(forecast: Plan) -> None:
    assert forecast.fewest == {0.1: fewest_problems(0.1, 0.1), 0.3: fewest_problems(0.3, 0.1)}
    tiny = next(each for each in forecast.forecasts if (each.n, each.alpha) == (10, 0.1))
    assert (tiny.certified, tiny.tokens_share, tiny.answered_share) == (0, 1, 0)


def test_a_sequential_certificate_needs_fewer_problems_in_half_of_the_cases(
    forecast: Plan,
) -> None:
    assert set(forecast.sequential) == {0.1, 0.3}
    until = forecast.sequential[0.3]
    assert until.half is not None
    assert forecast.fewest[0.3] <= until.half <= (until.most or 400)


def test_it_forecasts_what_new_problems_then_give(forecast: Plan, world) -> None:
    rng = np.random.default_rng(1)
    made = [
        certify(world.draw(rng, 100), alphas=(0.3,), promise=Promise.POINTWISE).levels[0].certified
        for _ in range(40)
    ]
    foretold = next(each for each in forecast.forecasts if (each.n, each.alpha) == (100, 0.3))
    assert foretold.certified == pytest.approx(np.mean(made), abs=0.3)


def test_where_every_question_is_answered_nothing_certified_means_the_full_budget(
    pilot: Traces,
) -> None:
    made = plan(pilot, risk="error", alphas=(0.01,), sizes=(50,), repeats=5)
    (only,) = made.forecasts
    assert (only.certified, only.tokens_share, only.answered_share) == (0, 1, 1)
    assert made.enough == {0.01: None}


def test_limits_on_other_risks_are_part_of_the_forecast(pilot: Traces) -> None:
    """At a risk of 0.15, no policy of this world answers 98% of the questions."""
    asked = {"alphas": (0.15,), "promise": "pointwise", "sizes": (200,), "repeats": 6}
    (free,) = plan(pilot, **asked, bounds={"declined": None}).forecasts
    (loose,) = plan(pilot, **asked, bounds={"declined": 0.95}).forecasts
    (tight,) = plan(pilot, **asked, bounds={"declined": 0.02}).forecasts
    assert free.certified == loose.certified > 0.5
    assert tight.certified == 0


def test_statements_beside_the_levels_cost_delta_and_exclude_additions(pilot: Traces) -> None:
    asked = {"alphas": (0.3,), "sizes": (50,), "repeats": 2}
    with_next = plan(pilot, **asked, delta=0.1, next_questions=10)
    assert with_next.fewest == {0.3: fewest_problems(0.3, 0.08)}
    assert with_next.sequential == {}


def test_kinds_are_forecast_at_their_parts_of_delta(pilot: Traces) -> None:
    kinds = tuple("a" if number % 4 else "b" for number in range(200))
    asked = {"alphas": (0.3,), "sizes": (100, 200), "repeats": 10}
    found = plan_kinds(replace(pilot, kinds=kinds), delta=0.2, **asked)
    alone = {None: found.pooled, **found.of_kinds}
    assert {kind: one.n_pilot for kind, one in alone.items()} == {None: 200, "a": 150, "b": 50}
    assert found.pooled.fewest == {0.3: fewest_problems(0.3, 0.05)}
    assert found.of_kinds["a"].fewest == {0.3: fewest_problems(0.3, 0.075)}
    assert found.labels == ENOUGH * fewest_problems(0.3, 0.075)
    enough = found.of_kinds["b"].enough[0.3]
    assert enough is not None
    assert found.enough[0.3] == 4 * enough, "one problem in four is of the kind"
    assert set(found.to_json()["of_kinds"]) == {"a", "b"}


def test_the_kinds_that_a_plan_counts_on_get_certificates(world) -> None:
    """With so many labels of a kind as the plan says, and with one fewer not."""
    pilot = world.draw(np.random.default_rng(3), 60)
    pilot = replace(pilot, kinds=("a", "b") * 30)
    asked = {"alphas": (0.3,), "bounds": {"wrong": None}}
    labels = plan_kinds(pilot, **asked, sizes=(50,), repeats=1).labels
    for count, are_enough in ((labels, True), (labels - 1, False)):
        traces = world.draw(np.random.default_rng(4), 2 * count)
        made = certify_kinds(replace(traces, kinds=("a", "b") * count), **asked)
        assert made[0].kind is not None
        assert (made[0].kind.certified == ("a", "b")) == are_enough


def test_kinds_that_no_certificate_could_have_are_not_forecast(world) -> None:
    pilot = world.draw(np.random.default_rng(3), 60)
    asked = {"alphas": (0.3,), "sizes": (50,), "repeats": 1}
    fewest = ENOUGH * fewest_problems(0.3, 0.075)
    kinds = ("a",) * fewest + ("b",) * (fewest - 1) + ("c",) * (61 - 2 * fewest)
    found = plan_kinds(replace(pilot, kinds=kinds), **asked)
    assert (tuple(found.of_kinds), found.skipped) == (("a", "c"), ("b",))
    assert found.to_json()["skipped"] == ("b",)
    told: list[tuple[int, int]] = []
    each = replace(pilot, kinds=tuple(map(str, range(60))))
    with pytest.raises(CalibrationError, match=f"at most 1 problems .* with fewer than {fewest}:"):
        plan_kinds(each, on_progress=lambda *pair: told.append(pair), **asked)
    assert told == []


@pytest.mark.parametrize(("share", "least"), [(1.3, None), (0.3, 0.4)])
def test_shares_that_none_can_be_are_refused_before_the_simulation(
    pilot: Traces, share: float, least: float | None
) -> None:
    told: list[tuple[int, int]] = []
    with pytest.raises(CalibrationError, match="_share is "):
        plan(
            pilot,
            label_share=share,
            least_share=least,
            on_progress=lambda *pair: told.append(pair),
        )
    assert told == []


def test_it_tells_how_far_it_is(pilot: Traces) -> None:
    told: list[tuple[int, int]] = []
    plan(pilot, sizes=(20, 40), repeats=2, on_progress=lambda *pair: told.append(pair))
    assert told == [(0, 2), (1, 2), (2, 2)]


@pytest.mark.parametrize(("sizes", "repeats"), [((), 5), ((0,), 5), ((50,), 0)])
def test_sizes_that_none_can_be_are_refused(
    pilot: Traces, sizes: tuple[int, ...], repeats: int
) -> None:
    with pytest.raises(CalibrationError, match="sizes and repeats of 1 or more"):
        plan(pilot, sizes=sizes, repeats=repeats)
