"""A forecast from a pilot: its counts, and its agreement with later calibrations."""

import numpy as np
import pytest

from calibration import CalibrationError, Promise, Traces, certify, fewest_problems, plan
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
