from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibration import (
    ERROR,
    FULL_BUDGET,
    REGRET,
    SELECTIVE,
    CalibrationError,
    Correction,
    Family,
    Fingerprint,
    Grid,
    Method,
    Procedure,
    Risk,
    Rollout,
    Traces,
    fewest_problems,
    replay,
)
from calibration.testing.families import NO_LOW_EXIT, full_budget
from calibration.testing.methods import (
    LEARN_FROM,
    PATH_FROM,
    RESCALE_FROM,
    SHARE_OF_PATH,
    family_for,
    find_split,
    share_learned_from,
    split_traces,
    units_tested,
)
from calibration.testing.recipe import Recipe
from calibration.testing.rescale import Scale
from tests.calibration.recordings import distorted, in_groups
from tests.statistical.worlds import CALIBRATED, OVERTHINKING, World

ALPHAS = (0.05, 0.1, 0.2)
ONE, FOUR = Procedure(), Procedure(4)
GRID = Grid((0.8, 0.9, 1.01), (NO_LOW_EXIT,), (0.0, 0.8, 0.9))


@pytest.fixture(scope="module")
def traces(world) -> Traces:
    return world.draw(np.random.default_rng(1), 300)


@pytest.fixture(scope="module")
def order(world) -> Traces:
    return world.draw(np.random.default_rng(2), 200, "order")


def family(
    method: Method,
    traces: Traces,
    risk: Risk = SELECTIVE,
    procedure: Procedure = ONE,
    grid: Grid | None = None,
    order: Traces | None = None,
    n_units: int = 10_000,
) -> Family:
    return family_for(
        method, risk, procedure, ALPHAS, 0.1 / 3, 0.02,
        grid=grid, order=order, recording=traces, n_units=n_units,
    )  # fmt: skip


class TestSplit:
    @pytest.mark.parametrize(
        ("method", "n", "aside"),
        [
            (Method.AUTO, RESCALE_FROM - 1, 0),
            (Method.AUTO, RESCALE_FROM, 15),
            (Method.RESCALED_CHAINS, 40, 4),
            (Method.SPLIT, 40, 12),
            (Method.CHAINS, 300, 0),
            (Method.FIXED_SEQUENCE, 300, 0),
            (Method.HOLM, 300, 0),
            (Method.BONFERRONI, 300, 0),
        ],
    )
    def test_how_many_are_put_aside(
        self, traces: Traces, method: Method, n: int, aside: int
    ) -> None:
        some = traces.select(np.arange(300) < n)
        learned_from, tested = split_traces(method, SELECTIVE, some)
        assert (learned_from.n_problems if learned_from else 0) == aside
        assert tested.n_problems == n - aside
        found = find_split(some, tested.digest)
        assert found is not None
        assert found[1].problem_ids == tested.problem_ids
        if learned_from:
            assert not set(learned_from.problem_ids) & set(tested.problem_ids)

    @pytest.mark.parametrize("n", range(2, 12))
    @pytest.mark.parametrize("method", [Method.SPLIT, Method.RESCALED_CHAINS])
    def test_the_split_of_few_problems_is_found(
        self, traces: Traces, method: Method, n: int
    ) -> None:
        some = traces.select(np.arange(300) < n)
        if not round(share_learned_from(method, SELECTIVE, n) * n) > 0:
            return
        _, tested = split_traces(method, SELECTIVE, some)
        found = find_split(some, tested.digest)
        assert found is not None
        assert found[1].problem_ids == tested.problem_ids

    @pytest.mark.parametrize(("risk", "tested"), [(SELECTIVE, 270), (ERROR, 270), (REGRET, 300)])
    def test_under_regret_the_default_needs_no_other_problems(
        self, traces: Traces, risk: Risk, tested: int
    ) -> None:
        """There the full budget has no risk; elsewhere a start at the least risk is worth more."""
        assert split_traces(Method.AUTO, risk, traces)[1].n_problems == tested

    def test_groups_count_and_stay_whole(self, traces: Traces) -> None:
        assert split_traces(Method.AUTO, SELECTIVE, in_groups(traces, 3))[0] is None  # 100 of them
        learned_from, tested = split_traces(Method.SPLIT, SELECTIVE, in_groups(traces, 3))
        assert learned_from is not None
        assert (learned_from.n_units, tested.n_units) == (30, 70)
        assert not set(learned_from.groups) & set(tested.groups)


class TestChains:
    @pytest.mark.parametrize("procedure", [ONE, FOUR])
    @pytest.mark.parametrize("risk", [SELECTIVE, ERROR, REGRET])
    @pytest.mark.parametrize("method", [Method.CHAINS, Method.FIXED_SEQUENCE])
    def test_fit_their_risk(
        self, traces: Traces, method: Method, risk: Risk, procedure: Procedure
    ) -> None:
        made = family(method, traces, risk, procedure)
        risk.check_policies(made.policies)
        assert made.correction is Correction.GRAPH
        assert made.weights_LT is not None
        for weights_T in made.weights_LT:
            assert sum(weights_T) == pytest.approx(1)
        for policy in made.policies:
            assert policy.patience % 16 == 0
            assert policy.lambda_vote == 0 or procedure.samples > 1
            if method is Method.FIXED_SEQUENCE:
                assert policy.lambda_low == FULL_BUDGET.lambda_low
        gives_up = risk is REGRET or (risk is SELECTIVE and procedure.samples == 1)
        if method is Method.CHAINS and gives_up:
            assert any(policy.lambda_low > 0 for policy in made.policies)

    @pytest.mark.parametrize(("risk", "shares"), [(ERROR, [1, 1, 1]), (REGRET, [0.75] * 3)])
    def test_where_every_question_counts_they_start_at_the_full_budget(
        self, traces: Traces, risk: Risk, shares: list[float]
    ) -> None:
        made = family(Method.CHAINS, traces, risk)
        assert made.policies[0] == full_budget(risk)
        assert made.weights_LT is not None
        assert [weights_T[0] for weights_T in made.weights_LT] == pytest.approx(shares)

    def test_what_is_asked_of_an_answer_falls_along_a_chain(self) -> None:
        for alpha in (0.01, 0.05, 0.2, 0.5, 0.9):
            chain, _ = Recipe(SELECTIVE, ONE, 16, Scale(), True, 1000, (0.0,)).chains(alpha)
            assert chain.policies[0].lambda_answer <= 1 - alpha
            for here, following in pairwise(chain.policies):
                assert here.lambda_answer >= following.lambda_answer
                assert here.lambda_high >= following.lambda_high
            assert chain.policies[-1].lambda_answer == 0

    def test_the_share_of_the_vote_falls_for_every_high_exit(self) -> None:
        chain, _ = Recipe(SELECTIVE, FOUR, 16, Scale(), True, 1000, (0.0,)).chains(0.1)
        first, last = chain.policies[0], chain.policies[-1]
        assert (first.lambda_high, first.lambda_vote) == (0.9, 0.95)
        assert (last.lambda_high, last.lambda_vote) == (0.05, 0.0)
        for high in (0.9, 0.75, 0.5):
            shares = [step.lambda_vote for step in chain.policies if step.lambda_high == high]
            assert shares == sorted(shares, reverse=True)
            assert (shares[0], shares[-1]) == (0.95, 0.0)
        assert len(set(chain.policies)) == len(chain.policies)

    @pytest.mark.parametrize(
        ("samples", "leads"), [(1, 1.01), (2, 1.01), (3, 0.4), (4, 0.3), (8, 0.3)]
    )
    def test_several_samples_stop_once_an_answer_leads(self, samples: int, leads: float) -> None:
        """Under every policy but the first, which lets all of them end."""
        chain, _ = Recipe(REGRET, Procedure(samples), 16, Scale(), True, 1000, (0.0,)).chains(0.05)
        first, *others = chain.policies
        assert first.lambda_stop == FULL_BUDGET.lambda_stop
        assert [policy.lambda_stop for policy in others] == pytest.approx([leads] * len(others))
        if samples > 2:
            assert replace(others[0], lambda_stop=first.lambda_stop) == first

    def test_where_a_vote_may_abstain_it_stops_later(self) -> None:
        chain, _ = Recipe(SELECTIVE, FOUR, 16, Scale(), True, 1000, (0.0,)).chains(0.1)
        assert {policy.lambda_stop for policy in chain.policies} == {0.6}

    @pytest.mark.parametrize("procedure", [ONE, FOUR])
    def test_a_little_goes_to_a_chain_that_answers_everything(self, procedure: Procedure) -> None:
        _, chain = Recipe(SELECTIVE, procedure, 16, Scale(), True, 1000, (0.0,)).chains(0.1)
        assert chain.share == 0.1
        assert chain.policies[0] == full_budget(SELECTIVE)
        assert all(policy.lambda_answer == policy.lambda_vote == 0 for policy in chain.policies)

    def test_under_regret_chains_are_one_until_their_low_exits_differ(self) -> None:
        main, second = Recipe(REGRET, ONE, 16, Scale(), True, 1000, (0.0,)).chains(0.1)
        assert (main.share, second.share) == (0.75, 0.25)
        assert all(policy.lambda_low < 0 for policy in main.policies)
        plain, doubting = main.forks
        assert (plain.share, doubting.share) == (0.5, 0.5)
        assert plain.policies[0].lambda_high == doubting.policies[0].lambda_high
        assert all(policy.lambda_low < 0 for policy in plain.policies)
        assert all(policy.lambda_low >= 0.02 for policy in doubting.policies)
        assert {policy.lambda_low for policy in second.policies} == {0.05}

    def test_few_units_test_one_chain_of_the_two(self) -> None:
        main, _ = Recipe(REGRET, ONE, 16, Scale(), True, 149, (0.0,)).chains(0.1)
        assert main.forks == ()
        assert main.policies[-1].lambda_low > 0.02

    def test_an_alpha_too_small_for_low_exits_has_no_chain_of_them(self) -> None:
        (main,) = Recipe(REGRET, ONE, 16, Scale(), True, 1000, (0.0,)).chains(0.03)
        assert main.share == 1

    def test_each_answer_threshold_is_tried_with_fewer_and_fewer_low_exits(self) -> None:
        main, _ = Recipe(SELECTIVE, ONE, 16, Scale(), True, 1000, (0.0,)).chains(0.1)
        assert [policy.lambda_low for policy in main.policies[:6]] == [0.4, 0.1, -1] * 2
        first, second = main.policies[2], main.policies[3]
        assert (first.lambda_answer, second.lambda_answer) == (0.9, 0.875)

    def test_smoothing_shares_the_error(self, traces: Traces) -> None:
        smooth = replace(GRID, smoothing=(0.0, 0.5))
        made = family(Method.CHAINS, traces, grid=smooth)
        plain = family(Method.CHAINS, traces)
        assert made.weights_LT is not None
        assert max(made.weights_LT[0]) == 0.45
        assert len(made.policies) == 2 * len(plain.policies)
        assert {policy.smoothing for policy in made.policies} == {0.0, 0.5}

    def test_a_grid_gives_chains_its_smoothing_alone(self, traces: Traces) -> None:
        assert family(Method.CHAINS, traces, grid=GRID) == family(Method.CHAINS, traces)

    @settings(max_examples=60)
    @given(st.floats(0.05, 20), st.floats(-20, 20), st.floats(0, 2), st.integers(0, 170))
    def test_low_exits_increase_as_the_high_ones_do(
        self, slope: float, offset: float, per_fall: float, start: int
    ) -> None:
        """From a first policy without any, on every scale."""
        recipe = Recipe(ERROR, ONE, 16, Scale(slope, offset), True, 1000, (0.0,))
        (chain,) = recipe.chains(0.1)
        chain = replace(chain, policies=chain.policies[min(start, len(chain.policies) - 1) :])
        made = recipe.giving_up(chain, per_fall)
        assert made.policies[0] == chain.policies[0]
        for here, following in pairwise(made.policies):
            assert following.lambda_high <= here.lambda_high
            assert here.lambda_low <= following.lambda_low < following.lambda_high
        ERROR.check_policies(made.policies)

    @pytest.mark.parametrize("risk", [SELECTIVE, REGRET])
    @pytest.mark.parametrize("procedure", [ONE, FOUR])
    @settings(max_examples=60)
    @given(
        st.floats(0.05, 20), st.floats(-20, 20), st.floats(1e-4, 0.999), st.sampled_from([0.0, 0.9])
    )
    def test_every_scale_and_alpha_gives_chains(
        self,
        risk: Risk,
        procedure: Procedure,
        slope: float,
        offset: float,
        alpha: float,
        smoothing: float,
    ) -> None:
        """Includes a scale on which all thresholds are 0 or 1: λ1 must stay below λ2."""
        recipe = Recipe(risk, procedure, 16, Scale(slope, offset), True, 1000, (smoothing,))
        chains = recipe.chains(alpha)
        assert 0 < sum(chain.share for chain in chains) <= 1 + 1e-9
        assert all(chain.policies for chain in chains)


class TestRescaled:
    def test_thresholds_are_meant_on_the_learned_scale(self, order: Traces) -> None:
        shown = distorted(order, 0.5, -1.0)
        scale = Scale.fit(shown)
        assert not scale.is_recorded
        plain = family(Method.CHAINS, shown)
        made = family(Method.RESCALED_CHAINS, shown, order=shown)
        assert "confidence scale learned from other problems" in made.source
        first, rescaled = plain.policies[0], made.policies[0]
        assert rescaled.lambda_high == scale.threshold(first.lambda_high)
        assert rescaled.lambda_answer == scale.threshold(first.lambda_answer)
        assert rescaled.lambda_low == scale.threshold(first.lambda_low)
        assert rescaled.patience == first.patience

    def test_a_chain_starts_where_enough_is_answered_to_pass(self, order: Traces) -> None:
        """A chain whose first policy answers nothing fails at once."""
        modest = replace(order, confidence_RC=np.minimum(order.confidence_RC, 0.93))
        plain = family(Method.CHAINS, modest)
        made = family(Method.RESCALED_CHAINS, modest, order=modest, n_units=200)
        for level, alpha in enumerate(ALPHAS):
            start, share = made.first(level)
            needed = fewest_problems(alpha, share * 0.1 / 3) / 200
            answered = replay(modest, [made.policies[start]]).answered_T[0]
            assert answered >= needed
        first, _ = plain.first(0)
        assert replay(modest, [plain.policies[first]]).answered_T[0] == 0

    def test_where_every_question_counts_a_chain_starts_at_the_least_risk(
        self, fingerprint: Fingerprint, make_rollout: Callable[..., Rollout]
    ) -> None:
        """Rollouts that have the right answer at a confidence of 0.95, and lose it at the end."""
        lost = Traces.from_rollouts(
            [make_rollout(f"p{i}", (0.3, 0.95, 0.6), (False, True, i % 4 > 0)) for i in range(40)],
            fingerprint,
        )
        made = family(Method.RESCALED_CHAINS, lost, ERROR, order=lost)
        start, _ = made.first(0)
        assert replay(lost, [made.policies[start]], ERROR).losses.risk_T[0] == 0
        assert replay(lost, [FULL_BUDGET], ERROR).losses.risk_T[0] == 0.25
        made = family(Method.RESCALED_CHAINS, lost, ERROR, FOUR, order=lost)
        assert made.policies[made.first(0)[0]] == full_budget(ERROR)

    @pytest.mark.parametrize(("copies", "lucky"), [(1, False), (3, True)])
    def test_few_units_start_a_chain_where_its_neighbours_are_safe_too(
        self,
        fingerprint: Fingerprint,
        make_rollout: Callable[..., Rollout],
        copies: int,
        lucky: bool,
    ) -> None:
        """One answer is right at a λ2 of up to 0.58 alone, and five are wrong at up to 0.55."""
        shapes = [((0.3, 0.95, 0.6), (False, True, i % 4 > 0)) for i in range(34)]
        shapes += [((0.55, 0.95, 0.6), (False, True, True))] * 5
        shapes += [((0.58, 0.95, 0.6), (True, False, False))]
        shown = Traces.from_rollouts(
            [make_rollout(f"p{i}", *shape) for i, shape in enumerate(shapes * copies)], fingerprint
        )
        made = family(Method.RESCALED_CHAINS, shown, ERROR, order=shown)
        start = made.policies[made.first(0)[0]]
        assert (0.55 < start.lambda_high <= 0.58) == lucky
        assert replay(shown, [start], ERROR).losses.risk_T[0] <= 1 / 40

    @pytest.mark.parametrize(("doubtful", "right"), [(4, False), (12, True)])
    def test_under_error_low_exits_come_where_they_save_tokens(
        self,
        fingerprint: Fingerprint,
        make_rollout: Callable[..., Rollout],
        doubtful: int,
        right: bool,
    ) -> None:
        """Doubtful rollouts stay doubtful; at the end, all of them are wrong or all are right."""
        wrong, half = (False,) * 20, (False,) * 10
        rising = (*np.linspace(0.4, 0.8, 20), 0.95)
        shown = Traces.from_rollouts(
            [make_rollout(f"p{i}", (0.1,) * 21, (*wrong, right), 330) for i in range(doubtful)]
            + [
                make_rollout(f"p{i}", rising, (*half, *(True,) * 11), 330)
                for i in range(doubtful, 40)
            ],
            replace(fingerprint, max_tokens=400),
        )
        made = family(Method.RESCALED_CHAINS, shown, ERROR, order=shown)
        assert any(policy.lambda_low > 0 for policy in made.policies) != right
        assert made.policies[made.first(0)[0]].lambda_low < 0

    def test_auto_rescales_if_there_is_an_order(self, traces: Traces, order: Traces) -> None:
        few = distorted(order, 0.5, -1.0).select(np.arange(order.n_problems) < LEARN_FROM - 1)
        assert family(Method.AUTO, traces, ERROR, order=few) == family(
            Method.RESCALED_CHAINS, traces, ERROR, order=few
        )
        assert family(Method.AUTO, traces) == family(Method.CHAINS, traces)

    def test_plain_chains_do_not_look_at_an_order(self, traces: Traces, order: Traces) -> None:
        shown = distorted(order, 0.5, -1.0)
        assert family(Method.CHAINS, traces, order=shown) == family(Method.CHAINS, traces)


class TestLearned:
    def test_a_path_through_the_grid(self, traces: Traces, order: Traces) -> None:
        made = family(Method.SPLIT, traces, grid=GRID, order=order)
        assert set(made.policies) <= set(GRID.policies(SELECTIVE, ONE))
        assert made.weights_LT is not None
        assert all(weights_T[0] == 1.0 for weights_T in made.weights_LT)
        assert "learned from 200 other problems over fixed thresholds" in made.source

    def test_auto_tests_the_path_beside_the_chains(self, traces: Traces, order: Traces) -> None:
        path = family(Method.SPLIT, traces, SELECTIVE, grid=GRID, order=order).policies
        made = family(Method.AUTO, traces, SELECTIVE, grid=GRID, order=order)
        assert made.policies[: len(path)] == path
        assert made.weights_LT is not None
        for weights_T in made.weights_LT:
            assert weights_T[0] == SHARE_OF_PATH
            assert sum(weights_T) == pytest.approx(1)
        chains = family(Method.RESCALED_CHAINS, traces, SELECTIVE, grid=GRID, order=order)
        assert set(made.policies[len(path) :]) <= set(chains.policies)
        assert "learned from 200 other problems over fixed thresholds" in made.source

    @pytest.mark.parametrize("risk", [ERROR, REGRET])
    def test_where_every_question_counts_the_safest_has_all_of_delta(
        self, traces: Traces, order: Traces, risk: Risk
    ) -> None:
        """Dividing delta before it would lose the levels that only that policy can keep."""
        path = family(Method.SPLIT, traces, risk, grid=GRID, order=order).policies
        chains = family(Method.RESCALED_CHAINS, traces, risk, grid=GRID, order=order)
        made = family(Method.AUTO, traces, risk, grid=GRID, order=order)
        assert made.weights_LT is not None
        for level, weights_T in enumerate(made.weights_LT):
            start, share = made.first(level)
            assert (share, sum(weights_T)) == (1, 1)
            firsts = [path[0], chains.policies[chains.first(level)[0]]]
            risk_T = replay(order, [made.policies[start], *firsts], risk).losses.risk_T
            assert risk_T[0] == risk_T.min()
        assert made.graph is not None
        heirs = dict(made.graph.edges[made.first(0)[0]])
        assert sum(heirs.values()) == pytest.approx(1)
        assert set(path) | set(chains.policies) == set(made.policies)

    def test_few_to_learn_from_give_no_path(self, traces: Traces, order: Traces) -> None:
        for count, has_path in ((LEARN_FROM - 1, False), (LEARN_FROM, True)):
            some = order.select(np.arange(order.n_problems) < count)
            made = family(Method.AUTO, traces, ERROR, grid=GRID, order=some)
            chains = family(Method.RESCALED_CHAINS, traces, ERROR, grid=GRID, order=some)
            assert (made != chains) == has_path

    @pytest.mark.parametrize(("risk", "has_path"), [(SELECTIVE, False), (REGRET, True)])
    def test_few_answers_are_not_enough_for_a_path(
        self, traces: Traces, order: Traces, risk: Risk, has_path: bool
    ) -> None:
        few = PATH_FROM - 1
        made = family(Method.AUTO, traces, risk, grid=GRID, order=order, n_units=few)
        chains = family(Method.RESCALED_CHAINS, traces, risk, grid=GRID, order=order, n_units=few)
        assert (made != chains) == has_path

    @pytest.mark.parametrize(("world", "tested"), [(OVERTHINKING, True), (CALIBRATED, False)])
    def test_few_give_a_path_if_they_show_that_the_chains_fail(
        self, world: World, tested: bool
    ) -> None:
        """Where rollouts become surer and wrong, chains from sure to unsure certify nothing."""
        few = world.draw(np.random.default_rng(1), LEARN_FROM - 1, prefix="order")
        made = family(Method.AUTO, few, order=few, n_units=PATH_FROM - 1)
        assert ("learned from 99 other problems over" in made.source) == tested
        assert made.weights_LT is not None
        assert (made.weights_LT[0][0] == SHARE_OF_PATH) == tested

    def test_no_path_for_more_samples_than_were_recorded(
        self, traces: Traces, order: Traces
    ) -> None:
        assert order.rollouts_P.min() < FOUR.samples
        assert family(Method.AUTO, traces, procedure=FOUR, order=order) == family(
            Method.RESCALED_CHAINS, traces, procedure=FOUR, order=order
        )

    @pytest.mark.parametrize("method", [Method.SPLIT, Method.RESCALED_CHAINS])
    def test_nothing_to_learn_from(self, traces: Traces, method: Method) -> None:
        with pytest.raises(CalibrationError, match=f"{method} learns from other problems: give `o"):
            family(method, traces)


@pytest.mark.parametrize("method", [Method.HOLM, Method.BONFERRONI])
def test_without_an_order_the_whole_grid(traces: Traces, method: Method) -> None:
    made = family(method, traces, grid=GRID)
    assert made.policies == GRID.policies(SELECTIVE, ONE)
    assert made.correction == Correction(str(method))
    assert made.weights_LT is made.graph is None


def test_the_default_grid_is_that_of_the_recording(traces: Traces) -> None:
    made = family(Method.HOLM, traces)
    assert made.policies == Grid.absolute(16, 80).policies(SELECTIVE, ONE)
    unknown = family(Method.HOLM, replace(traces, fingerprint=None))
    assert {policy.patience for policy in unknown.policies} == {0, 2000, 4000, 8000}


@pytest.mark.parametrize("needed", [149, 299])
def test_one_more_problem_never_leaves_too_few_to_test_on(needed: int) -> None:
    for n in range(needed - 20, needed + 60):
        is_enough = units_tested(Method.AUTO, SELECTIVE, n, needed) >= needed
        assert is_enough == (n >= needed)
