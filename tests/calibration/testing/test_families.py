import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from calibration import (
    ERROR,
    FULL_BUDGET,
    REGRET,
    SELECTIVE,
    CalibrationError,
    Chain,
    Correction,
    ExitPolicy,
    Family,
    Graph,
    Grid,
    LowExit,
    Procedure,
    family_of_chains,
)
from calibration.policy.exit_rule import NEVER
from calibration.testing.families import (
    INTERVAL,
    LADDER,
    NO_LOW_EXIT,
    VOTE_LADDER,
    full_budget,
    interval_of,
)
from tests.calibration.recordings import constant_confidence

ONE, FOUR = Procedure(), Procedure(4)


class TestGrid:
    def test_holds_distinct_policies_and_the_full_budget_first(self) -> None:
        policies = Grid.absolute(interval=16, max_tokens=1024).policies(SELECTIVE, ONE)
        assert policies[0] == FULL_BUDGET
        assert len(set(policies)) == len(policies) > 1000
        assert {policy.patience for policy in policies} == {0, 64, 128, 256}

    def test_a_patience_as_long_as_the_budget_is_left_out(self) -> None:
        """It would never lead to an exit."""
        policies = Grid.absolute(16, 128).policies(SELECTIVE, ONE)
        assert {policy.patience for policy in policies} == {0, 64}

    def test_impossible_combinations_are_left_out(self) -> None:
        grid = Grid((0.3, 0.9), (NO_LOW_EXIT, LowExit(0.3, 64)), (0.0, 0.5))
        kept = {(p.lambda_high, p.lambda_low, p.lambda_answer) for p in grid.policies(ERROR, ONE)}
        assert kept == {(NEVER, -1.0, 0.0), (0.3, -1.0, 0.0), (0.9, -1.0, 0.0), (0.9, 0.3, 0.0)}
        selective = grid.policies(SELECTIVE, ONE)
        assert all(p.lambda_answer <= p.lambda_high for p in selective)
        assert len(selective) == 1 + 1 + 2 * 2

    @pytest.mark.parametrize("risk", [ERROR, REGRET])
    def test_where_every_question_counts_all_are_answered(self, risk) -> None:
        policies = Grid.absolute(16, 1024).policies(risk, FOUR)
        risk.check_policies(policies)
        assert {(p.answer_on_low, p.lambda_answer, p.lambda_vote) for p in policies} == {
            (True, 0.0, 0.0)
        }
        assert policies[0] == full_budget(risk) == replace(FULL_BUDGET, answer_on_low=True)

    def test_the_vote_has_a_threshold_only_if_several_vote(self) -> None:
        grid = Grid((0.9,), lambda_answer=(0.0,), lambda_vote=(0.0, 0.5, 0.9))
        assert {p.lambda_vote for p in grid.policies(SELECTIVE, ONE)} == {0.0}
        assert {p.lambda_vote for p in grid.policies(SELECTIVE, FOUR)} == {0.0, 0.5, 0.9}
        never = FULL_BUDGET.lambda_stop
        stopping = replace(grid, lambda_stop=(never, 0.3))
        assert {p.lambda_stop for p in stopping.policies(SELECTIVE, ONE)} == {never}
        assert {p.lambda_stop for p in stopping.policies(REGRET, FOUR)} == {never, 0.3}

    def test_smoothing(self) -> None:
        grid = Grid.absolute(16, 128, smoothing=[0.0, 0.5])
        plain, smooth = (
            [p for p in grid.policies(SELECTIVE, ONE) if p.smoothing == weight]
            for weight in (0.0, 0.5)
        )
        assert [replace(policy, smoothing=0.0) for policy in smooth] == sorted(
            plain, key=[replace(policy, smoothing=0.0) for policy in smooth].index
        )
        with pytest.raises(CalibrationError, match="smoothing is 1"):
            Grid.absolute(16, 128, smoothing=[1.0]).policies(SELECTIVE, ONE)

    def test_sigmoid(self) -> None:
        policies = Grid.absolute(16, 1024, sigmoid=True).policies(REGRET, ONE)
        rising = [policy for policy in policies if policy.low_rise > 0]
        assert {policy.low_shift for policy in rising} == {256.0, 512.0}
        for policy in rising:
            assert policy.low_threshold(0) < 0.2 * policy.low_rise
            assert policy.low_threshold(1024) > 0.95 * policy.low_rise
        with pytest.raises(CalibrationError, match="give max_tokens"):
            Grid.absolute(16, sigmoid=True)

    def test_thresholds_from_a_pool(self, world) -> None:
        pool = world.draw(np.random.default_rng(1), 400)
        grid = Grid.quantiles(pool, count=6, smoothing=[0.25])
        np.testing.assert_allclose(grid.lambda_high, [*np.linspace(0.4, 0.99, 6), NEVER], atol=0.03)
        assert grid.lambda_answer == (0.0, *grid.lambda_high[:-1])
        assert grid.low_exits[0] == NO_LOW_EXIT
        assert {low.patience for low in grid.low_exits[1:]} == {64, 128, 256}
        np.testing.assert_allclose(
            sorted({low.threshold for low in grid.low_exits[1:]}), [0.02, 0.3], atol=0.03
        )
        assert grid.smoothing == (0.25,)
        assert grid.source == "quantiles of the confidences of 400 other problems"
        flipped = replace(pool, correct_RC=~pool.correct_RC)
        assert Grid.quantiles(flipped, count=6, smoothing=[0.25]) == grid

    def test_a_pool_without_spread_still_gives_a_grid(self, world) -> None:
        pool = constant_confidence(world.draw(np.random.default_rng(1), 50), 0.6)
        policies = Grid.quantiles(pool).policies(SELECTIVE, ONE)
        assert {policy.lambda_high for policy in policies} == {0.6, NEVER}

    def test_too_few_quantiles(self, world) -> None:
        with pytest.raises(CalibrationError, match="count is 2: give 3 quantiles or more"):
            Grid.quantiles(world.draw(np.random.default_rng(1), 50), 2)


def test_ladders_go_from_safe_to_bold() -> None:
    assert all(high > low for high, low in pairwise(LADDER))
    assert all(high > low for high, low in pairwise(VOTE_LADDER))
    assert LADDER[0] == NEVER
    assert VOTE_LADDER[-1] == 0.0


def test_interval_is_that_of_the_recording(world) -> None:
    traces = world.draw(np.random.default_rng(1), 2)
    assert interval_of(traces) == 16
    assert interval_of(replace(traces, fingerprint=None)) == INTERVAL == 500


A, B, C, D = (ExitPolicy(lambda_high=high) for high in (0.9, 0.8, 0.7, 0.6))


class TestFamilyOfChains:
    def test_one_chain_hands_all_on_along_itself(self) -> None:
        family = family_of_chains([[Chain((A, B, C), 1.0)]], "here")
        assert family == Family(
            (A, B, C),
            Correction.GRAPH,
            "here",
            ((1.0, 0.0, 0.0),),
            Graph((((1, 1.0),), ((2, 1.0),), ())),
        )

    def test_the_end_of_a_chain_goes_to_its_siblings(self) -> None:
        chains = [Chain((A, B), 0.5), Chain((C,), 0.3), Chain((D,), 0.2)]
        family = family_of_chains([chains], "here")
        assert family.weights_LT == ((0.5, 0.0, 0.3, 0.2),)
        assert family.graph is not None
        edges = [dict(edge) for edge in family.graph.edges]
        assert edges == [{1: 1.0}, {2: 0.5, 3: 0.5}, {0: 0.5, 3: 0.5}, {0: 0.5, 2: 0.5}]

    def test_levels_with_chains_of_their_own(self) -> None:
        """A chain that two levels share is present once."""
        shared, other = Chain((A, B), 1.0), Chain((C,), 1.0)
        family = family_of_chains([[shared], [shared], [other]], "here")
        assert family.policies == (A, B, C)
        assert family.weights_LT == ((1.0, 0.0, 0.0), (1.0, 0.0, 0.0), (0.0, 0.0, 1.0))

    def test_shares_of_a_chain_given_twice_add_up(self) -> None:
        family = family_of_chains([[Chain((A,), 0.5), Chain((A,), 0.25)]], "here")
        assert family.weights_LT == ((0.75,),)
        assert family.graph == Graph(((),))

    def test_a_policy_may_be_on_two_chains(self) -> None:
        """It is then two hypotheses: each chain must reject its own."""
        family = family_of_chains([[Chain((A, B), 0.5), Chain((C, B), 0.5)]], "here")
        assert family.policies == (A, B, C, B)


def test_first_is_what_a_level_starts_with() -> None:
    family = family_of_chains(
        [[Chain((A, B), 0.4), Chain((C,), 0.6)], [Chain((A, B), 1.0)]], "here"
    )
    assert family.first(0) == (2, 0.6)
    assert family.first(1) == (0, 1.0)
    assert Family((A, B, C, D), Correction.HOLM, "here").first(0) == (0, 0.25)


@pytest.mark.parametrize(
    "family",
    [
        Family((A, replace(B, patience=32, lambda_low=0.1)), Correction.BONFERRONI, "one"),
        family_of_chains([[Chain((A, B), 0.4), Chain((C, D), 0.6)]] * 2, "two"),
    ],
)
def test_json_and_back(family: Family) -> None:
    assert Family.from_json(json.loads(json.dumps(family.to_json()))) == family


def test_json_of_an_impossible_family_is_refused() -> None:
    plain = family_of_chains([[Chain((A, B), 1.0)]], "here").to_json()
    names = plain["fields"]
    row = [*plain["policies"][0]]
    row[names.index("lambda_low")] = 0.95
    with pytest.raises(CalibrationError, match="λ1 must stay below λ2"):
        Family.from_json({**plain, "policies": [row]})
    with pytest.raises(CalibrationError, match="passes on to 7"):
        Family.from_json({**plain, "edges": [[[7, 1.0]], []]})
    with pytest.raises(CalibrationError, match="unknown policy fields"):
        Family.from_json({**plain, "fields": ["lambda_2", *names[1:]]})
    for edge in ([1.0, 1.0], [True, 1.0], [1, "x"], [1, False]):
        with pytest.raises(TypeError, match=r"is no whole number|is no number"):
            Family.from_json({**plain, "edges": [[edge], []]})
    for weights in ([["x", 0]], [[[], 0]], [[True, 0]]):
        with pytest.raises(TypeError, match="is no number"):
            Family.from_json({**plain, "weights": weights})
