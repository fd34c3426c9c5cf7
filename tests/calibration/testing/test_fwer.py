import itertools

import numpy as np
import pytest
from numpy.typing import NDArray
from statsmodels.stats.multitest import multipletests

from calibration.errors import CalibrationError
from calibration.testing.fwer import (
    Promise,
    bonferroni,
    certify_levels,
    delta_per_level,
    fixed_sequence,
    graph_test,
    holm,
)
from calibration.testing.graphs import Graph, chain_graph

Dense = NDArray[np.float64]


def sparse(share: Dense) -> Graph:
    nodes = range(len(share))
    return Graph(tuple(tuple((k, float(share[i, k])) for k in nodes if share[i, k]) for i in nodes))


def random_graph(rng: np.random.Generator, n: int, density: float = 0.6) -> Dense:
    share = rng.random((n, n)) * (rng.random((n, n)) < density)
    np.fill_diagonal(share, 0)
    return share / np.maximum(share.sum(axis=1, keepdims=True), rng.choice([1e-9, 1.3]))


def bretz(p: Dense, weight: Dense, share: Dense, delta: float) -> NDArray[np.bool_]:
    """The algorithm as printed in Bretz et al. 2009, on dense matrices."""
    weight, share, left = weight.copy(), share.copy(), np.ones(len(p), dtype=bool)
    while (ready := left & (p <= delta * weight) & (weight > 0)).any():
        j = int(np.flatnonzero(ready)[0])
        left[j] = False
        weight = np.where(left, weight + weight[j] * share[j], 0)
        passed = share + np.outer(share[:, j], share[j])
        back = share[:, j] * share[j]
        share = np.where(
            (back < 1 - 1e-12)[:, None], passed / np.maximum(1 - back, 1e-12)[:, None], 0
        )
        share[j] = share[:, j] = 0
        np.fill_diagonal(share, 0)
    return ~left


def test_bonferroni_and_holm_by_hand() -> None:
    p = [0.01, 0.04, 0.03, 0.2]
    assert bonferroni(p, 0.1).tolist() == [True, False, False, False]
    assert holm(p, 0.1).tolist() == [True, True, True, False]
    assert bonferroni([], 0.1).tolist() == holm([], 0.1).tolist() == []


def test_holm_is_the_closure_of_bonferroni() -> None:
    """Holm rejects what Bonferroni rejects in every intersection that contains it."""
    rng, delta = np.random.default_rng(1), 0.2
    for p in rng.beta(0.3, 2, (200, 4)):
        subsets = [list(s) for size in range(1, 5) for s in itertools.combinations(range(4), size)]
        closed = [
            all((p[s] <= delta / len(s)).any() for s in subsets if hypothesis in s)
            for hypothesis in range(4)
        ]
        assert holm(p, delta).tolist() == closed


@pytest.mark.parametrize("delta", [0.05, 0.2])
def test_bonferroni_and_holm_are_those_of_statsmodels(delta: float) -> None:
    rng = np.random.default_rng(7)
    for size in [1, 2, 3, 5, 8, 40, 600]:
        many, few = rng.beta(0.2, 3, size), rng.choice([0, delta / size, delta / 2, delta], size)
        for p in (many, few):  # few differ, and some are where a test just rejects
            for test in (bonferroni, holm):
                assert test(p, delta).tolist() == multipletests(p, delta, test.__name__)[0].tolist()


def test_what_is_no_number_is_not_rejected() -> None:
    assert bonferroni([np.nan, 0], 0.1).tolist() == holm([np.nan, 0], 0.1).tolist() == [False, True]


def test_stops_at_the_first_failure() -> None:
    assert fixed_sequence([0.01, 0.1, 0.11, 0.01], 0.1).tolist() == [True, True, False, False]
    assert fixed_sequence([0.2, 0.0], 0.1).tolist() == [False, False]
    assert fixed_sequence([], 0.1).tolist() == []


def test_refuses_a_delta_that_is_no_rate() -> None:
    for test in (fixed_sequence, bonferroni, holm):
        with pytest.raises(CalibrationError, match="delta is 0"):
            test([0.1], 0)
    with pytest.raises(CalibrationError, match="delta is 1"):
        graph_test([0.1], [1], Graph(((),)), 1)
    with pytest.raises(CalibrationError, match="delta is 1"):
        certify_levels([[0.1]], [0.1], [1], Graph(((),)), 1, Promise.POINTWISE)


def test_shares_of_delta() -> None:
    alphas = (0.05, 0.1, 0.2)
    assert delta_per_level(0.1, alphas, Promise.POINTWISE) == 0.1
    assert delta_per_level(0.1, alphas, Promise.SIMULTANEOUS) == pytest.approx(0.1 / 3)


@pytest.mark.parametrize("copies", [1, 20])
def test_family_wise_error_at_the_null(copies: int) -> None:
    """Twenty true nulls after two alternatives; independent (1 draw each) or all equal."""
    rng = np.random.default_rng(copies)
    runs, delta, first_null = 20_000, 0.1, 2
    null_p = np.repeat(rng.random((runs, 20 // copies)), copies, axis=1)
    p = np.concatenate([rng.beta(0.1, 5, (runs, first_null)), null_p], axis=1)
    errors = np.array([fixed_sequence(row, delta)[first_null:].any() for row in p])
    assert errors.mean() <= delta + 3 * np.sqrt(delta * (1 - delta) / runs)
    assert errors.mean() > 0.05  # not trivially safe: the alternatives are passed
    # Without the sequence, independent nulls would be rejected far more often.
    naive = (null_p <= delta).any(axis=1).mean()
    assert naive == pytest.approx(delta if copies == 20 else 1 - 0.9**20, abs=0.02)


class TestGraph:
    def test_one_chain_is_a_fixed_sequence(self) -> None:
        rng = np.random.default_rng(2)
        order = rng.permutation(30)
        graph, start = chain_graph([order.tolist()], 30), np.zeros(30)
        start[order[0]] = 1
        for p in rng.beta(0.1, 5, (100, 30)):
            rejected = graph_test(p, start, graph, 0.1)
            assert (rejected[order] == fixed_sequence(p[order], 0.1)).all()

    def test_no_edges_is_weighted_bonferroni(self) -> None:
        rng, weight = np.random.default_rng(3), np.array([0.5, 0.3, 0.2])
        for p in rng.beta(0.3, 2, (100, 3)):
            rejected = graph_test(p, weight, Graph(((), (), ())), 0.2)
            assert (rejected == (p <= 0.2 * weight)).all()

    def test_the_complete_graph_is_holm(self) -> None:
        rng, n = np.random.default_rng(4), 6
        share = (1 - np.eye(n)) / (n - 1)
        for p in rng.beta(0.2, 3, (200, n)):
            assert (graph_test(p, np.full(n, 1 / n), sparse(share), 0.2) == holm(p, 0.2)).all()

    def test_is_bretz_et_al_on_any_graph(self) -> None:
        rng, rejections = np.random.default_rng(5), 0
        for _ in range(300):
            n = int(rng.integers(1, 9))
            share, weight = random_graph(rng, n), rng.dirichlet(np.ones(n))
            p = rng.beta(0.3, 4, n)
            rejected = graph_test(p, weight, sparse(share), 0.3)
            assert (rejected == bretz(p, weight, share, 0.3)).all()
            rejections += int(rejected.sum())
        assert rejections > 300

    def test_chains_share_what_they_no_longer_need(self) -> None:
        graph, start = chain_graph([[0, 1], [2, 3], [4]], 5), np.array([0.5, 0, 0.25, 0, 0.25])
        # The first chain ends and hands 0.25 to each of the others.
        p = [0.05, 0.05, 0.05, 0.06, 0.051]
        assert graph_test(p, start, graph, 0.1).tolist() == [True, True, True, False, False]
        # With 2 and 3 gone too, all of delta is at 4.
        p = [0.05, 0.05, 0.05, 0.05, 0.1]
        assert graph_test(p, start, graph, 0.1).all()

    @pytest.mark.parametrize(
        ("weights", "fault"),
        [([0.6, 0.6], "sum to 1.2"), ([-0.1, 0.5], "smallest is -0.1"), ([0.5], "1 weights")],
    )
    def test_refuses_weights(self, weights: list[float], fault: str) -> None:
        with pytest.raises(CalibrationError, match=fault):
            graph_test([0.1, 0.1], weights, Graph(((), ())), 0.1)

    def test_family_wise_error(self) -> None:
        """Chains of alternatives that end in true nulls: nearly as often as allowed, never more."""
        rng, runs, delta = np.random.default_rng(6), 4000, 0.1
        graph, start = chain_graph([[0, 1, 2], [3, 4, 5]], 6), np.array([0.7, 0, 0, 0.3, 0, 0])
        null = np.array([False, True, True, False, False, True])
        for common in (False, True):
            p = np.where(null, rng.random((runs, 1 if common else 6)), 1e-9)
            wrong = np.array([graph_test(row, start, graph, delta)[null].any() for row in p])
            assert wrong.mean() <= delta + 3 * np.sqrt(delta * (1 - delta) / runs)
            assert wrong.mean() > 0.06


def dense_levels(p_LT: Dense, weight_LT: Dense, share: Dense, delta: float) -> NDArray[np.bool_]:
    """The simultaneous test as one graph over all (level, policy), rejecting one at a time.

    It is for graphs in which every hypothesis loses some share, so that no share circulates for
    ever.
    """
    levels, policies = p_LT.shape
    n = levels * policies
    everything = np.zeros((levels, policies, levels, policies))
    for level in range(levels):
        everything[level, :, level] = share
        for other in set(range(levels)) - {level}:
            leak = (1 - share.sum(axis=1)) / (levels - 1)
            everything[level, :, other] = leak[:, None] * weight_LT[other]
    flat = everything.reshape(n, n)
    p, weight = p_LT.ravel().copy(), weight_LT.ravel() / levels
    while True:
        rejected = bretz(p, weight, flat, delta).reshape(levels, policies)
        implied = np.logical_or.accumulate(rejected, axis=0)
        if (implied == rejected).all():
            return rejected
        p[implied.ravel()] = 0


class TestLevels:
    def test_pointwise_is_a_test_per_level(self) -> None:
        rng = np.random.default_rng(7)
        p_LT, weight_LT = rng.beta(0.3, 4, (3, 6)), rng.dirichlet(np.ones(6), 3)
        graph = chain_graph([[0, 1, 2], [3, 4, 5]], 6)
        certified = certify_levels(p_LT, [0.1, 0.2, 0.3], weight_LT, graph, 0.1, Promise.POINTWISE)
        for level in range(3):
            alone = graph_test(p_LT[level], weight_LT[level], graph, 0.1)
            assert (certified[level] == alone).all()

    def test_one_level_has_nothing_to_share(self) -> None:
        rng, graph = np.random.default_rng(8), chain_graph([[0, 1, 2]], 3)
        for p in rng.beta(0.3, 4, (50, 3)):
            both = [
                certify_levels(p, [0.1], [1, 0, 0], graph, 0.1, promise)[0] for promise in Promise
            ]
            assert (both[0] == both[1]).all()
            assert (both[0] == fixed_sequence(p, 0.1)).all()

    def test_is_one_graph_over_levels_and_policies(self) -> None:
        rng, certified = np.random.default_rng(9), 0
        for _ in range(200):
            levels, policies = int(rng.integers(2, 4)), int(rng.integers(1, 5))
            share = random_graph(rng, policies) * 0.9
            weight_LT = rng.dirichlet(np.ones(policies), levels)
            weight_LT[rng.random(weight_LT.shape) < 0.2] = 1e-6
            weight_LT /= weight_LT.sum(axis=1, keepdims=True)
            p_LT = np.sort(rng.beta(0.2, 4, (levels, policies)), axis=0)[::-1]
            alphas = np.linspace(0.1, 0.3, levels)
            found = certify_levels(
                p_LT, alphas, weight_LT, sparse(share), 0.2, Promise.SIMULTANEOUS
            )
            assert (found == dense_levels(p_LT, weight_LT, share, 0.2)).all()
            certified += int(found.sum())
        assert certified > 200

    def test_a_level_that_is_done_pays_for_the_others(self) -> None:
        graph, start = chain_graph([[0, 1]], 2), [1.0, 0.0]
        # All of the larger level is certified at 0.05, so the smaller one has 0.1 to spend.
        p_LT = [[0.08, 0.5], [0.05, 0.05]]
        certified = certify_levels(p_LT, [0.1, 0.2], start, graph, 0.1, Promise.SIMULTANEOUS)
        assert certified.tolist() == [[True, False], [True, True]]
        # Several chains hand on among themselves first, and to other levels when all are done.
        graph, start = chain_graph([[0], [1]], 2), [0.5, 0.5]
        p_LT = [[0.05, 0.5], [0.025, 0.05]]
        certified = certify_levels(p_LT, [0.1, 0.2], start, graph, 0.1, Promise.SIMULTANEOUS)
        assert certified.tolist() == [[True, False], [True, True]]

    def test_a_smaller_alpha_implies_a_larger_one(self) -> None:
        graph, start = chain_graph([[0, 1]], 2), [1.0, 0.0]
        p_LT = [[0.05, 0.5], [0.9, 0.05]]
        certified = certify_levels(p_LT, [0.1, 0.2], start, graph, 0.1, Promise.SIMULTANEOUS)
        assert certified.tolist() == [[True, False], [True, True]]
        apart = certify_levels(p_LT, [0.1, 0.2], start, graph, 0.1, Promise.POINTWISE)
        assert apart.tolist() == [[True, False], [False, False]]

    def test_never_less_than_delta_split_evenly(self) -> None:
        rng, graph = np.random.default_rng(10), chain_graph([[0, 1, 2], [3, 4]], 5)
        start = np.array([0.8, 0, 0, 0.2, 0])
        for _ in range(100):
            p_LT = np.sort(rng.beta(0.1, 4, (3, 5)), axis=0)[::-1]
            found = certify_levels(p_LT, [0.1, 0.2, 0.3], start, graph, 0.1, Promise.SIMULTANEOUS)
            split = np.stack([graph_test(p_T, start, graph, 0.1 / 3) for p_T in p_LT])
            assert (found | ~split).all()
            assert (found[1:] | ~found[:-1]).all()

    @pytest.mark.parametrize("common", [False, True])
    def test_family_wise_error_over_all_levels(self, common: bool) -> None:
        """True risks are between the levels; a null of one level is often a null of the next."""
        rng, runs, delta, alphas = np.random.default_rng(11), 4000, 0.1, np.array([0.1, 0.2, 0.3])
        risk_T = np.array([0.05, 0.12, 0.25, 0.15, 0.22, 0.35])
        null_LT = risk_T > alphas[:, None]
        graph, start = chain_graph([[0, 1, 2], [3, 4, 5]], 6), np.array([0.7, 0, 0, 0.3, 0, 0])
        wrong = 0
        for _ in range(runs):
            uniform = rng.random((1, 1) if common else (3, 6))
            p_LT = np.where(null_LT, uniform, 1e-9)
            found = certify_levels(p_LT, alphas, start, graph, delta, Promise.SIMULTANEOUS)
            wrong += bool((found & null_LT).any())
        assert wrong / runs <= delta + 3 * np.sqrt(delta * (1 - delta) / runs)
        assert wrong / runs > (0.02 if common else 0.06)

    @pytest.mark.parametrize("alphas", [[0.2, 0.1], [0.1, 0.1], [0.1]])
    def test_refuses_levels_out_of_order(self, alphas: list[float]) -> None:
        with pytest.raises(CalibrationError, match="ascending"):
            certify_levels(np.ones((2, 1)), alphas, [1], Graph(((),)), 0.1, Promise.SIMULTANEOUS)
