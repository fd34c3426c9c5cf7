"""A forecast from a pilot: its counts, and its agreement with later calibrations."""

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from calibration import (
    FULL_BUDGET,
    SELECTIVE,
    CalibrationError,
    Chain,
    Fingerprint,
    Grid,
    Promise,
    Traces,
    certify,
    certify_kinds,
    family_of_chains,
    fewest_problems,
    plan,
    plan_kinds,
)
from calibration.certificate.certify_kinds import ENOUGH, _of_all
from calibration.certificate.design import Design
from calibration.certificate.fitting.request import DesignRequest
from calibration.certificate.plan import LIKELY, Forecast, Plan
from calibration.certificate.sequential import sequential_design
from calibration.simulation.drawn_units import drawn_units
from calibration.testing.until import labels_until
from tests.calibration.recordings import in_groups, several_rollouts, sure


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


@pytest.mark.parametrize("method", ["chains", "fixed-sequence", "holm", "bonferroni"])
@pytest.mark.parametrize("promise", Promise)
@pytest.mark.parametrize("alphas", [(0.05, 0.1, 0.2), (0.19, 0.2)])
def test_no_method_certifies_a_level_with_fewer_than_its_fewest(
    fingerprint: Fingerprint, method: str, promise: Promise, alphas: tuple[float, ...]
) -> None:
    """Without a wrong answer, a level inherits all that the others can pass on."""
    asked: dict[str, Any] = {"alphas": alphas, "promise": promise, "method": method}
    grid = Grid(lambda_high=(0.95, 1.01), lambda_answer=(0.0, 0.9))
    fewest = DesignRequest.of(**asked).fewest
    for n in range(max(fewest.values()) - 1, min(fewest.values()) - 1, -4):
        for level in certify(sure(fingerprint, n), **asked, grid=grid).levels:
            assert not level.certified or n >= fewest[level.alpha]


def test_so_many_as_the_fewest_certify_a_level_that_inherits_all_of_delta(
    fingerprint: Fingerprint,
) -> None:
    family = family_of_chains([[Chain((FULL_BUDGET,), 1.0)]] * 3, "by hand")
    fewest = DesignRequest.of(alphas=(0.05, 0.1, 0.2)).fewest
    assert fewest == {0.05: 45, 0.1: 29, 0.2: 16}, "all of delta, a half and a third"
    for place, n in enumerate(fewest.values()):
        for number, has_level in ((n, True), (n - 1, False)):
            if number < min(fewest.values()):
                continue
            made = certify(sure(fingerprint, number), alphas=(0.05, 0.1, 0.2), family=family)
            assert made.levels[place].certified is has_level


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


@pytest.mark.parametrize("risk", ["selective", "error", "regret"])
@pytest.mark.parametrize("n", [140, 160, 990, 1000])
def test_a_forecast_is_of_the_design_that_a_fit_has_by_default(
    pilot: Traces, world, monkeypatch: pytest.MonkeyPatch, risk: str, n: int
) -> None:
    """Below and above the sizes from which on a scale and a path are learned."""
    designs: list[Design] = []
    design_of = DesignRequest.design

    def kept(request: DesignRequest, *args: object, **named: object) -> Design:
        designs.append(design_of(request, *args, **named))
        return designs[-1]

    monkeypatch.setattr(DesignRequest, "design", kept)
    asked = {"risk": risk, "alphas": (0.3, 0.4), "delta": 0.2}
    plan(pilot, **asked, sizes=(n,), repeats=1, sequential=False)
    forecast = designs[0]
    designs.clear()
    made = certify(world.draw(np.random.default_rng(2), n), **asked)
    (fitted,) = designs
    assert fitted.tested == made.tested
    for name in ("risk", "alphas", "delta", "promise", "procedure", "groups", "n_order_problems"):
        assert getattr(forecast, name) == getattr(fitted, name)
    assert forecast.tested.source == fitted.tested.source
    assert forecast.tested.correction is fitted.tested.correction
    learned = 0 if n < 150 or risk == "regret" else round(0.1 * n)
    assert fitted.n_order_problems == learned
    assert ("learned from 100 other problems" in fitted.tested.source) == (learned == 100)


def test_the_design_of_a_size_is_that_of_a_fit_on_such_problems(
    pilot: Traces, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Policy for policy: a fit that learns from the same problems tests the same."""
    learned_from: list[Traces | None] = []
    designs: list[Design] = []
    design_of = DesignRequest.design

    def kept(
        request: DesignRequest, recording: Traces, n_units: int, order: Traces | None = None,
        **named: object,
    ) -> Design:  # fmt: skip
        learned_from.append(order)
        designs.append(design_of(request, recording, n_units, order, **named))
        return designs[-1]

    monkeypatch.setattr(DesignRequest, "design", kept)
    asked = {"alphas": (0.3,), "promise": "pointwise"}
    for n in (300, 1000):
        learned_from.clear()
        designs.clear()
        plan(pilot, **asked, sizes=(n,), repeats=1, sequential=False)
        order, forecast = learned_from[0], designs[0]
        assert order is not None
        assert order.n_units == n // 10
        tested = drawn_units(pilot, np.arange(n - n // 10) % pilot.n_units)
        order = replace(order, problem_ids=tuple(f"other {name}" for name in order.problem_ids))
        assert certify(tested, **asked, order=order).tested == forecast.tested


def test_the_sequential_forecast_is_of_the_design_that_the_command_writes(pilot: Traces) -> None:
    asked = {"alphas": (0.3,), "promise": "pointwise"}
    found = plan(pilot, **asked, sizes=(100, 400), repeats=40)
    assert found.expected_units == max(found.enough.values())
    design = sequential_design(pilot, found.expected_units, order=pilot, **asked)
    until = labels_until(
        design.measure(pilot, SELECTIVE).losses, design.tested, (0.3,), 0.1, Promise.POINTWISE,
        400, 200, np.random.default_rng(1),
    )  # fmt: skip
    assert found.sequential[0.3].half == pytest.approx(until[0.3].half, rel=0.25)
    nothing = plan(pilot, alphas=(0.01,), sizes=(20,), repeats=2, sequential=False)
    assert nothing.expected_units == 1000


def test_units_that_are_drawn_twice_are_two(world) -> None:
    traces = several_rollouts(world.draw(np.random.default_rng(6), 24), 2)
    pairs = in_groups(traces, 3)
    drawn = drawn_units(pairs, np.array([2, 0, 2]))
    assert (drawn.n_units, drawn.n_problems, drawn.n_rollouts) == (3, 9, 18)
    assert sorted(Counter(drawn.groups).values()) == [3, 3, 3]
    content = {
        unit: sorted(np.array(pairs.contents_P, dtype=object)[pairs.unit_P == unit])
        for unit in (0, 2)
    }
    found = [
        sorted(np.array(drawn.contents_P, dtype=object)[drawn.unit_P == unit]) for unit in range(3)
    ]
    assert sorted(found) == sorted([content[2], content[0], content[2]])
    alone = drawn_units(traces, np.array([5]))
    assert (alone.n_problems, alone.groups) == (1, (None,))


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
    assert found.enough[0.3] > 4 * enough, "one problem in four is of the kind on average only"
    assert set(found.to_json()["of_kinds"]) == {"a", "b"}


def forecast_of(n_pilot: int, certified: dict[int, float]) -> Plan:
    """A forecast at alpha 0.1, by the number of problems."""
    forecasts = tuple(Forecast(n, 0.1, share, 1.0, 1.0, 1.0) for n, share in certified.items())
    enough = min((n for n, share in certified.items() if share >= LIKELY), default=None)
    return Plan("selective", n_pilot, forecasts, {0.1: enough}, {0.1: 22}, {}, 1.0)


@pytest.mark.parametrize("labels", [40, 90])
def test_so_many_problems_certify_a_kind_although_their_kinds_are_drawn(labels: int) -> None:
    """The kinds of new problems, and then each calibration, drawn by the forecasts."""
    shares = {"a": 0.2, "b": 0.5}
    forecasts = {"a": {50: 0.6, 100: 0.91, 200: 0.97}, "b": {50: 0.95, 100: 0.93, 200: 0.96}}
    of_kinds = {kind: forecast_of(round(200 * shares[kind]), forecasts[kind]) for kind in shares}
    pooled = forecast_of(200, {50: 0.95})
    n = _of_all(0.1, pooled, of_kinds, labels)
    assert n is not None

    def certified(n: int, kind: str) -> float:
        rng = np.random.default_rng(n)
        count_R = rng.binomial(n, shares[kind], size=20_000)
        sizes = np.array([0, *(max(size, labels) for size in forecasts[kind])])
        share_S = np.array([0.0, *np.maximum.accumulate([*forecasts[kind].values()])])
        certified_R = share_S[np.searchsorted(sizes, count_R, side="right") - 1]
        return float(np.mean(rng.random(count_R.size) < certified_R))

    assert certified(n, "a") == pytest.approx(LIKELY, abs=0.01), "the rarest kind takes the most"
    assert certified(n, "b") > LIKELY
    assert certified(5 * max(100, labels), "a") < 0.82, "enough on average are too few"
    of_kinds["b"] = forecast_of(100, {50: 0.5, 100: 0.89})
    assert _of_all(0.1, pooled, of_kinds, labels) is None


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
