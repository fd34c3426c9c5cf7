"""The worlds have the faults they are named after, and populations have the stated risks."""

import numpy as np
import pytest

from calibration import ExitPolicy, Traces
from calibration.simulation.procedure import Procedure
from calibration.simulation.replay import replay
from calibration.simulation.risks import ERROR, REGRET, SELECTIVE, Risk
from tests.statistical.policies import HIGH, Grid
from tests.statistical.population import Population, Recording
from tests.statistical.worlds import (
    CALIBRATED,
    CLUSTERED,
    CONSTANT,
    GROUPED,
    GUESS,
    GUESSING,
    NEVER_CORRECT,
    OVERCONFIDENT,
    OVERTHINKING,
    TIES,
    UNINFORMATIVE,
    UNREADABLE,
    WORLDS,
    World,
)

ONE = Recording(1, 1)


def draw(world: World, n: int = 20_000, rollouts: int = 1) -> Traces:
    return world.draw(np.random.default_rng(0), n, rollouts)


def gaps(traces: Traces) -> list[float]:
    """Mean confidence minus share right, by tenths of the confidence."""
    recorded = ~np.isnan(traces.confidence_RC)
    confidence, right = traces.confidence_RC[recorded], traces.correct_RC[recorded]
    tenths = [(confidence > x) & (confidence <= x + 0.1) for x in np.arange(0, 1, 0.1)]
    return [
        float(confidence[tenth].mean() - right[tenth].mean())
        for tenth in tenths
        if tenth.sum() > 100
    ]


@pytest.mark.parametrize("world", [CALIBRATED, CLUSTERED, GROUPED], ids=lambda world: world.name)
def test_calibrated_at_every_reading(world: World) -> None:
    assert np.abs(gaps(draw(world))).max() < 0.03


def test_overconfident() -> None:
    assert np.mean(gaps(draw(OVERCONFIDENT))) > 0.1


def test_uninformative() -> None:
    traces = draw(UNINFORMATIVE)
    at_end = (np.arange(traces.n_rollouts), traces.final_R)
    right, confidence = traces.correct_RC[at_end], traces.confidence_RC[at_end]
    assert abs(confidence[right].mean() - confidence[~right].mean()) < 0.02


def test_never_correct() -> None:
    traces = draw(NEVER_CORRECT, 5000, rollouts=4)
    ever_P = np.zeros(traces.n_problems, dtype=bool)
    np.logical_or.at(ever_P, traces.problem_R, traces.correct_RC.any(axis=1))
    assert 0.2 < 1 - ever_P.mean() < 0.35


def test_rollouts_of_a_clustered_problem_share_their_fate() -> None:
    policies = [ExitPolicy(answer_on_low=True)]
    shares = [
        replay(draw(world, 5000, 4), policies, ERROR).losses.loss_UT[:, 0]
        for world in (CALIBRATED, CLUSTERED)
    ]
    correlations = [(4 * x.var() / (x.mean() * (1 - x.mean())) - 1) / 3 for x in shares]
    assert correlations[0] < 0.6 < 0.8 < correlations[1]


def test_groups_are_the_units_and_share_their_fate() -> None:
    losses = replay(draw(GROUPED, 5000), [ExitPolicy(answer_on_low=True)], ERROR).losses
    assert losses.n_units == 5000
    mean = losses.loss_UT.mean()
    assert losses.loss_UT.var() > 1.3 * mean * (1 - mean) / GROUPED.group_size


def test_ties() -> None:
    traces = draw(TIES, 2000)
    values = np.unique(traces.confidence_RC[~np.isnan(traces.confidence_RC)])
    assert len(values) <= 11
    assert set(HIGH) & set(values.round(2))


def high_chain(world: World) -> np.ndarray:
    policies = [ExitPolicy(lambda_high=high, answer_on_low=True) for high in HIGH]
    return replay(draw(world), policies, ERROR).losses.risk_T


def test_risk_is_not_monotone_where_models_overthink() -> None:
    steps = np.diff(high_chain(OVERTHINKING))
    assert steps.min() < -0.02
    assert steps.max() > 0.02


def test_constant_confidence_exits_at_once_or_never() -> None:
    assert len(np.unique(high_chain(CONSTANT))) == 2


@pytest.mark.parametrize(
    ("risk", "expected"),
    [(ERROR, 1 - GUESS), (SELECTIVE, 1 - GUESS / (1 - (1 - GUESS) * UNREADABLE))],
    ids=lambda value: getattr(value, "name", None),
)
def test_guessing_has_one_risk_whatever_the_policy(risk: Risk, expected: float) -> None:
    """In closed form: a wrong answer that cannot be read is none under `selective`."""
    losses = replay(draw(GUESSING, 100_000), Grid.of(risk, 1).policies, risk).losses
    error_T = np.sqrt(expected * (1 - expected) / losses.total_weight_T)
    assert np.abs((losses.risk_T - expected) / error_T).max() < 4.5


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
@pytest.mark.parametrize("risk", [SELECTIVE, ERROR, REGRET], ids=lambda risk: risk.name)
def test_a_population_has_nulls_just_above_each_level(world: World, risk: Risk) -> None:
    population = Population.replayed(world, risk, ONE, 4000, seed=1)
    alphas = population.levels()
    assert len(population.grid.policies) <= 64
    assert all(np.diff(alphas) > 0)
    for alpha in alphas:
        above_T = population.risk_T[population.risk_T > alpha]
        assert above_T.size
        assert above_T.min() < alpha * 1.25


def test_samples_have_the_risk_of_the_population() -> None:
    population = Population.replayed(TIES, SELECTIVE, Recording(4, 1), 5000, seed=2)
    losses = population.sample(np.random.default_rng(3), 200_000)
    assert losses.risk_T == pytest.approx(population.risk_T, abs=0.01)


def test_a_procedure_has_the_same_risk_however_many_rollouts_it_is_drawn_from() -> None:
    """Subsets of recorded rollouts stand for new ones: no policy's risk moves."""
    policies = Grid.of(SELECTIVE, samples=3).policies
    found = [
        replay(draw(CALIBRATED, n, rollouts), policies, SELECTIVE, Procedure(3)).losses
        for n, rollouts in ((60_000, 3), (20_000, 8))
    ]
    variance_T = sum(
        np.var(x.loss_UT - x.risk_T * x.weight_UT, axis=0)
        / x.n_units
        / x.weight_UT.mean(axis=0) ** 2
        for x in found
    )
    scores_T = (found[0].risk_T - found[1].risk_T) / np.sqrt(variance_T)
    assert np.abs(scores_T).max() < 5


def test_draws_differ() -> None:
    rng = np.random.default_rng(0)
    first, second = CALIBRATED.draw(rng, 10), CALIBRATED.draw(rng, 10)
    assert not np.array_equal(first.correct_RC, second.correct_RC)
