"""Validity and power where the risk has a closed form, and every figure of a certificate."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import beta, binom

from calibration import (
    FULL_BUDGET,
    CalibrationError,
    Certificate,
    CertifiedLevel,
    Chain,
    Correction,
    ExitPolicy,
    Family,
    Fingerprint,
    Graph,
    Grid,
    InfeasibleAlpha,
    InfeasibleLevel,
    Level,
    Method,
    Outcomes,
    Promise,
    PValue,
    Risk,
    Rollout,
    Traces,
    binomial_p_value,
    certify,
    evaluate,
    family_of_chains,
    read_traces,
    verify,
    write_traces,
)
from calibration.certificate.fitting.request import check_alphas
from calibration.simulation.groups import Average, Groups
from calibration.simulation.replay import replay
from calibration.simulation.risks import RISKS
from calibration.testing.families import NO_LOW_EXIT
from calibration.testing.learned_path import learn_path
from tests.calibration.recordings import (
    all_correct,
    constant_confidence,
    copies,
    distorted,
    in_groups,
    several_rollouts,
    sure,
)

MakeRollout = Callable[..., Rollout]

DELTA = 0.1
ALPHAS = (0.1, 0.2, 0.3)
GRID = Grid(
    lambda_high=(0.7, 0.8, 0.85, 0.9, 0.95, 1.01),
    lambda_answer=(0.5, 0.6, 0.7, 0.78, 0.82, 0.9, 1.0),
    low_exits=(NO_LOW_EXIT,),
)


def standard_error(rate: float, runs: int) -> float:
    return float(np.sqrt(rate * (1 - rate) / runs))


def chain(*policies: ExitPolicy, levels: int = 1) -> Family:
    return family_of_chains([[Chain(policies, 1.0)]] * levels, "by hand")


def certified_levels(certificate: Certificate) -> list[CertifiedLevel]:
    return [level for level in certificate.levels if isinstance(level, CertifiedLevel)]


def infeasible_level(certificate: Certificate) -> InfeasibleLevel:
    (level,) = certificate.levels
    assert isinstance(level, InfeasibleLevel)
    return level


@pytest.fixture(scope="module", params=["split", "fixed-sequence"])
def certificates(request: pytest.FixtureRequest, world) -> list[Certificate]:
    """Many certificates, each from 200 new problems, with a path learned from another 100."""
    rng = np.random.default_rng(1)
    learned = request.param == "split"
    return [
        certify(
            world.draw(rng, 200, "test"),
            order=world.draw(rng, 100, "order") if learned else None,
            alphas=ALPHAS,
            delta=DELTA,
            method=request.param,
            grid=GRID if learned else None,
        )
        for _ in range(300 if learned else 150)
    ]


@pytest.mark.slow
def test_all_levels_hold_at_once(certificates: list[Certificate], world) -> None:
    broken = [
        any(world.risk(level.policy) > level.alpha for level in certified_levels(certificate))
        for certificate in certificates
    ]
    assert np.mean(broken) <= DELTA + 3 * standard_error(DELTA, len(broken))


def test_upper_bounds_hold_for_the_policies_chosen(certificates: list[Certificate], world) -> None:
    broken = [
        any(world.risk(level.policy) > level.risk_upper for level in certified_levels(certificate))
        for certificate in certificates
    ]
    assert np.mean(broken) <= DELTA + 3 * standard_error(DELTA, len(broken))


def test_there_is_power(certificates: list[Certificate]) -> None:
    served = {alpha: [] for alpha in ALPHAS}
    for certificate in certificates:
        for level in certified_levels(certificate):
            served[level.alpha].append(level)
    assert len(served[0.2]) >= 0.8 * len(certificates)
    assert len(served[0.3]) >= 0.95 * len(certificates)
    tokens = np.mean([level.expected_tokens for level in served[0.3]])
    assert tokens < 0.8 * served[0.3][0].full_budget_tokens
    assert np.mean([level.share_right for level in served[0.3]]) > 0.5


def test_certified_at_alpha_is_certified_above(certificates: list[Certificate]) -> None:
    for certificate in certificates:
        flags = [level.certified for level in certificate.levels]
        assert flags == sorted(flags)


def test_error_where_every_candidate_is_a_null(world) -> None:
    """Ten candidates with risk exactly 0.1, on different questions: every choice is an error."""
    highs = np.linspace(0.8, 0.99, 10)
    nulls = [ExitPolicy(lambda_high=high, lambda_answer=null_answer(world, high)) for high in highs]
    assert [world.risk(null) for null in nulls] == pytest.approx([0.1] * 10)
    rng = np.random.default_rng(4)
    runs, errors, naive_errors = 250, 0, 0
    for _ in range(runs):
        path = learn_path(replay(world.draw(rng, 100, "order"), nulls), DELTA)
        calibration = world.draw(rng, 200)
        certificate = certify(
            calibration, alphas=[0.1], delta=DELTA, family=chain(*(nulls[t] for t in path))
        )
        errors += certificate.levels[0].certified
        losses = replay(calibration, nulls).losses
        naive_errors += any(
            binomial_p_value(np.arange(answered) < wrong, 0.1) <= DELTA
            for wrong, answered in zip(losses.total_loss_T, losses.total_weight_T, strict=True)
        )
    assert errors / runs <= DELTA + 3 * standard_error(DELTA, runs)
    # What the sequence is for: whichever passes on its own is an error far too often.
    assert naive_errors / runs > 2 * DELTA


def null_answer(world, high: float) -> float:
    """The λa at which, with λ2 = `high`, the risk is 0.1."""
    return brentq(
        lambda answer: world.risk(ExitPolicy(lambda_high=high, lambda_answer=answer)) - 0.1, 0, 0.99
    )


@pytest.mark.parametrize("promise", Promise)
def test_error_at_the_very_null(world, promise: Promise) -> None:
    """The only candidate has risk exactly 0.1: certifying it is always an error."""
    null = ExitPolicy(lambda_answer=0.8)
    assert world.risk(null) == pytest.approx(0.1)
    rng = np.random.default_rng(2)
    runs = 300
    errors = [
        certify(
            world.draw(rng, 400),
            alphas=(0.1 - 1e-9, 0.05),
            delta=DELTA,
            family=chain(null, levels=2),
            promise=promise,
        )
        .levels[1]
        .certified
        for _ in range(runs)
    ]
    level_delta = DELTA if promise is Promise.POINTWISE else DELTA / 2
    assert np.mean(errors) <= level_delta + 3 * standard_error(level_delta, runs)
    assert np.mean(errors) > level_delta / 4  # exact, not merely safe


def test_in_three_lines(world, fingerprint: Fingerprint) -> None:
    traces = world.draw(np.random.default_rng(3), 140)
    certificate = certify(traces, alphas=(0.3, 0.1), delta=0.1)
    assert [level.alpha for level in certificate.levels] == [0.1, 0.3]
    assert certificate.servable
    assert certificate.fingerprint == fingerprint
    assert (certificate.n_problems, certificate.n_units, certificate.n_rollouts) == (140, 140, 140)
    assert (certificate.n_order_problems, certificate.order_digest) == (0, None)
    assert certificate.calibration_digest == traces.digest
    assert certificate.p_value is PValue.BINOMIAL
    level = certificate.level_for(0.3)
    (measured,) = evaluate([level.policy], traces)
    assert level.risk == measured.realised_risk == level.total_loss / level.total_weight
    assert level.total_weight == round(140 * measured.answered_share)
    assert level.share_answered == measured.answered_share
    assert level.share_right == measured.right_share
    assert level.expected_tokens == measured.tokens
    assert level.full_budget_tokens == measured.full_budget_tokens
    assert level.expected_tokens < level.full_budget_tokens
    wrong, answered = level.total_loss, level.total_weight
    assert level.p_value == pytest.approx(binom.cdf(wrong, answered, 0.3))
    n_tested = len(certificate.tested.policies)
    assert level.risk_upper == pytest.approx(
        beta.ppf(1 - 0.1 / n_tested, wrong + 1, answered - wrong)
    )
    assert level.risk < level.risk_upper


@pytest.mark.parametrize(("risk", "alpha"), [("selective", 0.3), ("regret", 0.2)])
def test_the_policy_served_is_the_cheapest_of_the_certified(world, risk: str, alpha: float) -> None:
    traces = world.draw(np.random.default_rng(5), 140)
    grid = replace(GRID, lambda_high=(0.1, 0.5, 0.8, 0.95), lambda_answer=(0.5, 0.9))
    made = certify(traces, risk=risk, alphas=[alpha], method="bonferroni", grid=grid)
    (level,) = certified_levels(made)
    policies = made.tested.policies
    found = replay(traces, policies, RISKS[risk])
    wrong_T, n_T = found.losses.total_loss_T, found.losses.total_weight_T
    passed_T = binom.cdf(wrong_T, n_T, alpha) <= 0.1 / len(policies)
    assert 1 < passed_T.sum() < len(policies)
    near_T = passed_T
    if risk == "selective":
        near_T = passed_T & (found.right_T >= found.right_T[passed_T].max() - 0.02)
    assert level.expected_tokens == found.tokens_T[near_T].min()
    chosen = policies.index(level.policy)
    assert near_T[chosen]
    tied_T = near_T & (found.tokens_T == level.expected_tokens)
    assert level.risk == found.losses.risk_T[tied_T].min()


def test_a_tie_in_tokens_goes_to_the_lower_risk(
    make_rollout: MakeRollout, fingerprint: Fingerprint
) -> None:
    """Every rollout ends by itself; its own answer costs tokens, whether it is given or not."""
    rollouts = [
        make_rollout(f"p{i:02d}", (0.95 if i < 40 else 0.6,), (i < 40,), end=8) for i in range(45)
    ]
    bold, careful = ExitPolicy(lambda_answer=0.5), ExitPolicy(lambda_answer=0.9)
    for policies in ((bold, careful), (careful, bold)):
        family = Family(policies, Correction.BONFERRONI, "by hand")
        made = certify(Traces.from_rollouts(rollouts, fingerprint), alphas=[0.3], family=family)
        assert made.level_for(0.3).policy == careful


def test_from_file_to_file(tmp_path: Path, fingerprint: Fingerprint, make_rollout) -> None:
    rollouts = [make_rollout(f"p{i}", (1.0,), (i >= 3,), end=8) for i in range(60)]
    write_traces(tmp_path / "traces.parquet", rollouts, fingerprint)
    traces = read_traces(tmp_path / "traces.parquet")
    certificate = certify(traces, alphas=(0.2, 0.4), created="2026-01-31")
    certificate.save(tmp_path / "certificate.json")
    loaded = Certificate.load(tmp_path / "certificate.json")
    assert loaded == certificate
    assert loaded.created == "2026-01-31"
    assert loaded.level_for(0.4).policy == certificate.level_for(0.4).policy


def test_same_data_same_certificate(make_rollout: MakeRollout, fingerprint: Fingerprint) -> None:
    rng = np.random.default_rng(3)
    rollouts = [
        make_rollout(f"p{i:03d}", tuple(rng.random(3)), tuple(rng.random(3) < 0.7), rollout=r)
        for i in range(60)
        for r in range(2)
    ]
    traces = Traces.from_rollouts(rollouts, fingerprint)
    first = certify(traces, alphas=(0.4, 0.5))
    assert first.p_value is PValue.BETTING
    assert certify(traces, alphas=np.array([0.5, 0.4])).id == first.id
    assert (
        certify(Traces.from_rollouts(reversed(rollouts), fingerprint), alphas=(0.4, 0.5)) == first
    )
    assert certify(traces, alphas=(0.4,)).id != first.id


def test_alphas_are_sorted_plain_numbers() -> None:
    alphas = check_alphas(np.array([0.5, 0.25], dtype=np.float32))
    assert alphas == (0.25, 0.5)
    assert {type(alpha) for alpha in alphas} == {float}


@pytest.mark.parametrize("n", [149, 150, 164])
def test_one_more_problem_never_makes_a_fit_impossible(world, n: int) -> None:
    traces = world.draw(np.random.default_rng(0), n)
    assert certify(traces, alphas=[0.02], delta=0.05).n_problems == n


class TestInfeasible:
    @pytest.mark.parametrize("promise", Promise)
    @pytest.mark.parametrize(
        ("n", "wrong", "n_too_small", "reason"),
        [
            (
                14,
                0,
                True,
                "is measured on 14 of 14 .* 0; .* 0.09, alpha = 0.1 needs at least 23 even",
            ),
            (
                40,
                2,
                True,
                "has a total loss of 2 on 40 .*is 0.223, above its .* delta, 0.09; rec",
            ),
            (
                40,
                8,
                False,
                "has a total loss of 8 on 40 .*0.985, above .* 0.09; choose a larger",
            ),
            (
                40,
                4,
                True,
                "has a total loss of 4 on 40 .*; record more problems, or choose a larger",
            ),
            (14, 1, True, "is measured on 14 of 14 .* with a total loss of 1"),
            (14, 9, False, "has a total loss of 9 on 14 .* choose a larger alpha"),
        ],
    )
    def test_why(
        self,
        fingerprint: Fingerprint,
        promise: Promise,
        n: int,
        wrong: int,
        n_too_small: bool,
        reason: str,
    ) -> None:
        """Two levels start with half of 0.2 each, their main chains with 90% of that."""
        delta = 0.1 if promise is Promise.POINTWISE else 0.2
        traces = sure(fingerprint, n, wrong)
        made = certify(traces, alphas=(0.1, 0.9), delta=delta, promise=promise)
        level = made.levels[0]
        assert isinstance(level, InfeasibleLevel)
        assert (level.total_weight, level.total_loss) == (n, wrong)
        assert level.p_value == pytest.approx(binom.cdf(wrong, n, 0.1))
        assert level.n_too_small is n_too_small
        start = "too few problems" if n_too_small else "risk too high"
        with pytest.raises(InfeasibleAlpha, match=f"{start}: the policy tested first {reason}"):
            made.level_for(0.1)

    def test_none_answered(self, world, fingerprint: Fingerprint) -> None:
        """More problems help only if the withheld answers are good ones."""
        never = chain(ExitPolicy(lambda_answer=1.01))
        for traces, n_too_small in [
            (sure(fingerprint, 30), True),
            (sure(fingerprint, 30, wrong=15), True),
            (sure(fingerprint, 30, wrong=16), False),
        ]:
            made = certify(traces, alphas=[0.52], family=never)
            level = infeasible_level(made)
            assert (level.p_value, level.total_weight) == (1.0, 0.0)
            assert "answers none of 30 calibration problems; " in level.reason
            assert level.n_too_small is n_too_small
            assert made.smallest_certifiable_alpha == 1.0

    def test_averaged_losses_that_are_nearly_enough(self, world) -> None:
        """The betting test needs slightly more weight than the minimal number of problems."""
        traces = all_correct(several_rollouts(world.draw(np.random.default_rng(1), 200), 4))
        policy = ExitPolicy(lambda_answer=0.5)
        reasons = [
            infeasible_level(made).reason
            for n in range(40, 50)
            if not (
                made := certify(
                    traces.select(np.arange(50) < n), alphas=[0.1], delta=0.1, family=chain(policy)
                )
            )
            .levels[0]
            .certified
        ]
        assert reasons
        for reason in reasons:
            if "needs at least" in reason:
                assert float(reason.split("measured on ")[1].split(" of")[0]) < 22

    @pytest.mark.parametrize("method", ["holm", "bonferroni"])
    def test_without_an_order_by_the_policy_that_came_closest(self, world, method: str) -> None:
        traces = world.draw(np.random.default_rng(6), 60)
        grid = replace(GRID, lambda_high=(0.95, 1.01), lambda_answer=(0.0, 0.9))
        made = certify(traces, alphas=[0.03], delta=0.2, method=method, grid=grid)
        level = infeasible_level(made)
        losses = replay(traces, made.tested.policies).losses
        p_T = binom.cdf(losses.total_loss_T, losses.total_weight_T, 0.03)
        p_T[losses.total_weight_T == losses.total_loss_T] = 1
        assert level.p_value == pytest.approx(p_T.min())
        assert level.n_too_small
        assert level.reason.startswith(
            "too few problems: the policy with the smallest p-value is measured on"
        )


@pytest.mark.parametrize("promise", Promise)
@pytest.mark.parametrize("risk", ["selective", "error", "regret"])
@pytest.mark.parametrize("method", ["chains", "fixed-sequence", "split", "holm"])
def test_smallest_certifiable_alpha_is_certified_or_the_bound_of_a_first_policy(
    world, risk: str, promise: Promise, method: str
) -> None:
    """Clopper-Pearson, at the share of δ with which a level starts."""
    traces = world.draw(np.random.default_rng(7), 120)
    grid = replace(GRID, lambda_answer=(0.0, 0.9), lambda_high=(0.9, 1.01))
    order = world.draw(np.random.default_rng(8), 60, "order") if method == "split" else None
    made = certify(
        traces, risk=risk, alphas=(0.1, 0.3), promise=promise, method=method, grid=grid, order=order
    )
    family = made.tested
    found = [level.alpha for level in certified_levels(made)]
    for weights_T in family.weights_LT or [[1 / len(family.policies)]]:
        first, share = int(np.argmax(weights_T)), max(weights_T)
        level_delta = share * (0.1 if promise is Promise.POINTWISE else 0.05)
        losses = replay(traces, [family.policies[first]], RISKS[risk]).losses
        wrong, n = losses.total_loss_T[0], losses.total_weight_T[0]
        found.append(beta.ppf(1 - level_delta, wrong + 1, n - wrong))
    assert made.smallest_certifiable_alpha == pytest.approx(min(found))


def test_smallest_certifiable_alpha_would_be_certified(fingerprint: Fingerprint) -> None:
    traces = sure(fingerprint, 30)
    family = chain(ExitPolicy(lambda_answer=0.5))
    smallest = certify(traces, alphas=[0.5], family=family).smallest_certifiable_alpha
    assert smallest == pytest.approx(1 - 0.1 ** (1 / 30))
    assert certify(traces, alphas=[smallest + 1e-9], family=family).levels[0].certified
    assert certify(traces, alphas=[0.08], family=family).levels[0].certified
    below = certify(sure(fingerprint, 31, 1), alphas=[smallest - 1e-9], family=family)
    assert not below.levels[0].certified


def test_a_level_that_answers_too_little_does_not_hide_what_is_certified(
    fingerprint: Fingerprint,
) -> None:
    """The first policy of the strictest level hardly answers: its bound says nothing."""
    traces = sure(fingerprint, 30)
    family = replace(
        chain(ExitPolicy(lambda_answer=2.0), ExitPolicy(lambda_answer=0.5)),
        weights_LT=((1.0, 0.0), (0.0, 1.0)),
    )
    made = certify(traces, alphas=[0.01, 0.2], family=family)
    assert [level.certified for level in made.levels] == [False, True]
    assert made.smallest_certifiable_alpha == pytest.approx(1 - 0.05 ** (1 / 30))


class TestExtremes:
    """These are results, not errors."""

    @pytest.mark.parametrize("risk", ["selective", "error", "regret"])
    @pytest.mark.parametrize("n", [60, 400])
    def test_all_correct_certifies(self, world, risk: str, n: int) -> None:
        traces = all_correct(world.draw(np.random.default_rng(1), n))
        levels = certified_levels(certify(traces, risk=risk))
        assert levels
        for level in levels:
            assert (level.risk, level.total_loss) == (0.0, 0.0)
            assert level.expected_tokens < 0.5 * level.full_budget_tokens

    @pytest.mark.parametrize("risk", ["selective", "error"])
    @pytest.mark.parametrize("n", [100, 400])
    def test_all_wrong_is_infeasible(self, world, risk: str, n: int) -> None:
        made = certify(all_correct(world.draw(np.random.default_rng(1), n), False), risk=risk)
        assert not certified_levels(made)
        assert made.smallest_certifiable_alpha == 1.0
        assert "risk too high" in made.levels[-1].reason

    @pytest.mark.parametrize("n", [100, 400])
    def test_constant_confidence_gives_the_full_budget(self, world, n: int) -> None:
        traces = constant_confidence(world.draw(np.random.default_rng(1), n), 0.6)
        levels = certified_levels(certify(traces, risk="regret", alphas=(0.1, 0.2)))
        assert [level.alpha for level in levels] == [0.1, 0.2]
        for level in levels:
            assert level.expected_tokens == level.full_budget_tokens
            assert (level.risk, level.share_answered) == (0.0, 1.0)

    def test_constant_confidence_that_does_not_suffice_is_never_answered(self, world) -> None:
        traces = constant_confidence(world.draw(np.random.default_rng(1), 100), 0.6)
        level = infeasible_level(certify(traces, alphas=[0.2]))
        assert level.total_weight == 0
        assert not level.n_too_small

    def test_a_confidence_that_says_nothing_of_rare_right_answers(self, world) -> None:
        """The scale learned from it is so flat that all its thresholds are 0 or 1."""
        rng = np.random.default_rng(0)
        for rare in (0.02, 0.05, 0.1):
            traces = world.draw(rng, 400)
            right_RC = (rng.random(400) < rare)[:, None] & np.ones_like(traces.correct_RC)
            traces = replace(
                distorted(traces, 0.3, -2),
                correct_RC=right_RC,
                answer_class_RC=np.where(right_RC, 0, 1),
            )
            assert not certified_levels(certify(traces, method="rescaled-chains"))
            assert certified_levels(certify(traces, risk="regret", method="rescaled-chains"))


def reasons(level: Level) -> dict[str, str]:
    """What hides the words of an infeasible level, which name problems or groups."""
    return {} if isinstance(level, CertifiedLevel) else {"reason": ""}


class TestUnits:
    def test_rollouts_of_a_problem_average_and_do_not_count(self, world) -> None:
        traces = several_rollouts(world.draw(np.random.default_rng(9), 400), 4)
        made = certify(traces, alphas=(0.3, 0.5), family=chain(FULL_BUDGET, levels=2))
        assert made.p_value is PValue.BETTING
        assert (made.n_problems, made.n_units, made.n_rollouts) == (100, 100, 400)
        level = infeasible_level(replace(made, levels=made.levels[:1]))
        wrong_R = ~traces.correct_RC[:, -1]
        assert level.total_loss == wrong_R.reshape(100, 4).mean(axis=1).sum()
        assert level.total_weight == 100

    def test_averages_that_happen_to_be_0_or_1_are_averages(self, fingerprint: Fingerprint) -> None:
        made = certify(sure(fingerprint, 60, 2, rollouts=3), alphas=[0.2])
        assert made.p_value is PValue.BETTING
        assert made.levels[0].total_loss == 2

    def test_groups_are_the_unit(self, world) -> None:
        alone = world.draw(np.random.default_rng(10), 300)
        made = certify(in_groups(alone, 3), alphas=(0.3, 0.9), family=chain(FULL_BUDGET, levels=2))
        assert (made.n_problems, made.n_units) == (300, 100)
        assert made.p_value is PValue.BETTING
        (level,) = certified_levels(made)
        assert level.total_weight == 100
        assert level.total_loss == pytest.approx(300 * level.risk / 3)
        assert made.groups == Groups(max_size=3)
        assert "groups of at most 3, drawn independently; each problem counts the same" in (
            made.covers
        )

    def test_groups_of_one_size_are_tested_as_if_each_counted_the_same(self, world) -> None:
        traces = in_groups(world.draw(np.random.default_rng(13), 300), 3)
        for risk in ("selective", "error"):
            by_size, alike = (
                certify(traces, risk=risk, alphas=(0.2, 0.3, 0.6), average=average)
                for average in ("problems", "groups")
            )
            assert by_size.p_value is alike.p_value is PValue.BETTING
            for one, other in zip(by_size.levels, alike.levels, strict=True):
                assert one.certified == other.certified
                assert (one.p_value, one.total_loss, one.total_weight) == (
                    (other.p_value, other.total_loss, other.total_weight)
                )

    def test_a_declared_size_above_all_groups_costs_power_only(self, world) -> None:
        traces = world.draw(np.random.default_rng(14), 300)
        tested = {"alphas": (0.7,), "family": chain(FULL_BUDGET, levels=1), "risk": "error"}
        known, larger = (certify(traces, **tested, max_group_size=size) for size in (1, 2))
        assert known.groups is None
        assert known.levels == certify(traces, **tested).levels
        assert larger.groups == Groups(max_size=2)
        assert larger.p_value is PValue.BETTING
        (level,) = certified_levels(larger)
        assert level.risk == certified_levels(known)[0].risk
        assert level.p_value > certified_levels(known)[0].p_value
        assert level.total_weight == 150

    def test_sizes_that_differ_need_a_declared_size_or_groups_that_count_the_same(
        self, world
    ) -> None:
        alone = world.draw(np.random.default_rng(15), 300)
        traces = replace(alone, groups=tuple(f"g{(i + i % 2) // 5:03d}" for i in range(300)))
        with pytest.raises(CalibrationError, match=r"groups have 1 to 6 problems .*max_group_size"):
            certify(traces)
        with pytest.raises(CalibrationError, match="a group has 6 problems, and max_group_size is"):
            certify(traces, max_group_size=4)
        with pytest.raises(CalibrationError, match="max_group_size is 5, and has no effect"):
            certify(traces, average="groups", max_group_size=5)
        for size in (0, 2.5):
            with pytest.raises(CalibrationError, match=f"max_group_size is {size}: give a whole n"):
                certify(traces, max_group_size=size)
        with pytest.raises(CalibrationError, match="average 'questions' is unknown: give one of"):
            certify(traces, average="questions")
        by_size = certify(traces, max_group_size=6, alphas=[0.4])
        assert by_size.groups == Groups(max_size=6)
        alike = certify(traces, average="groups", alphas=[0.4])
        assert alike.groups == Groups(Average.GROUPS)
        assert "each group counts the same" in alike.covers
        for made in (by_size, alike):
            assert verify(made, traces) == []
            assert Certificate.from_json(made.to_json()) == made

    def test_a_problem_that_is_copied_within_its_group_changes_nothing(self, world) -> None:
        alone = world.draw(np.random.default_rng(11), 120)
        copied = copies(alone, 2, as_problems=True)
        for method in ("fixed-sequence", "chains"):
            once = certify(alone, alphas=(0.2, 0.3), method=method, p_value="hoeffding-bentkus")
            twice = certify(copied, alphas=(0.2, 0.3), method=method, p_value="hoeffding-bentkus")
            for one, two in zip(once.levels, twice.levels, strict=True):
                assert replace(one, **reasons(one)) == replace(two, **reasons(two))
            assert (twice.n_problems, twice.n_units) == (240, 120)

    def test_groups_of_one_are_tested_as_problems(self, world) -> None:
        alone = world.draw(np.random.default_rng(12), 120)
        made = certify(in_groups(alone, 1), alphas=(0.2, 0.3))
        assert made.p_value is PValue.BINOMIAL
        assert made.levels == certify(alone, alphas=(0.2, 0.3)).levels
        assert "groups" not in made.covers

    def test_named_groups_that_count_the_same_do_so_although_each_has_one_problem_here(
        self, world
    ) -> None:
        """Among others there may be a large one, whose questions a share of all would count."""
        alone = world.draw(np.random.default_rng(12), 120)
        made = certify(in_groups(alone, 1), alphas=(0.3,), average="groups")
        assert made.groups == Groups(Average.GROUPS)
        assert made.p_value is PValue.BETTING
        assert "each group counts the same" in made.covers
        assert verify(made, in_groups(alone, 1)) == []
        assert Certificate.from_json(made.to_json()) == made
        assert certify(alone, alphas=(0.3,), average="groups").groups is None


class TestProcedures:
    """With several samples, the loss is the loss of the whole procedure."""

    @pytest.fixture
    def traces(self, make_rollout: MakeRollout, fingerprint: Fingerprint) -> Traces:
        right, wrong = (True, True), (False, False)
        return Traces.from_rollouts(
            [
                # Stops at 16 (16 + 3 tokens), right, 0.9; ends at 40 (43), wrong, 0.5.
                make_rollout("a", (0.9, 0.95), right, end=31),
                make_rollout("a", (0.3, 0.5), wrong, end=31, rollout=1),
                # Abstains at its end with 0.3 (23, for it wrote an answer); wrong with 0.6 (33).
                make_rollout("b", (0.2, 0.3), right, end=20),
                make_rollout("b", (0.5, 0.6), wrong, end=30, rollout=1),
                # One right, one wrong, with nearly the same confidence.
                make_rollout("c", (0.5, 0.52), right, end=31),
                make_rollout("c", (0.5, 0.5), wrong, end=31, rollout=1),
            ],
            fingerprint,
        )

    def test_by_hand(self, traces: Traces) -> None:
        policy = ExitPolicy(lambda_high=0.8, lambda_answer=0.4, lambda_vote=0.6)
        made = certify(traces, alphas=[0.9], delta=0.5, samples=2, family=chain(policy))
        assert made.p_value is PValue.BINOMIAL  # one draw each
        assert made.fingerprint is not None
        assert (made.fingerprint.samples, made.fingerprint.vote) == (2, "confidence")
        (level,) = certified_levels(made)
        # a: 0.9 of 1.4 for the right answer. b: 0.6 of 0.9 for the wrong one. c: 0.51 is little.
        assert (level.total_loss, level.total_weight) == (1.0, 2.0)
        assert level.risk == 0.5
        assert level.share_answered == pytest.approx(2 / 3)
        assert level.share_right == pytest.approx(1 / 3)
        assert level.expected_tokens == pytest.approx((19 + 34 + 23 + 33 + 34 + 34) / 3)
        assert level.full_budget_tokens == pytest.approx((34 + 34 + 23 + 33 + 34 + 34) / 3)
        assert level.p_value == pytest.approx(1 - 0.9**2)  # P(Binomial(2, 0.9) <= 1)
        assert level.risk_upper == made.smallest_certifiable_alpha == pytest.approx(0.5**0.5)

    @pytest.mark.parametrize(
        ("risk", "loss"),
        [
            # c: the right answer wins by a little. b is decided by 0.6 against 0.2 at 16 tokens ...
            ("error", 1.0),
            # ... and by 0.6 against 0.3 at the full budget: it was wrong anyhow.
            ("regret", 0.0),
        ],
    )
    def test_risks_that_count_every_question(self, traces: Traces, risk: str, loss: float) -> None:
        policy = ExitPolicy(lambda_low=0.2, patience=16, lambda_high=0.8, answer_on_low=True)
        made = certify(traces, risk=risk, alphas=[0.9], delta=0.5, samples=2, family=chain(policy))
        (level,) = certified_levels(made)
        assert (level.total_loss, level.total_weight, level.share_answered) == (loss, 3.0, 1.0)
        assert level.expected_tokens == pytest.approx((19 + 34 + 19 + 33 + 34 + 34) / 3)

    def test_majority(self, traces: Traces) -> None:
        """With one vote each, the class drawn first wins; no class has more than half."""
        half = ExitPolicy(lambda_vote=0.5)
        made = certify(
            traces, alphas=[0.9], delta=0.5, samples=2, vote="majority", family=chain(half)
        )
        assert certified_levels(made)[0].share_answered == 1.0
        more = certify(
            traces,
            alphas=[0.9],
            samples=2,
            delta=0.5,
            vote="majority",
            family=chain(ExitPolicy(lambda_vote=0.51)),
        )
        assert infeasible_level(more).total_weight == 0

    def test_draws_of_a_problem_average(self, world) -> None:
        traces = several_rollouts(world.draw(np.random.default_rng(18), 480), 6)
        twice = certify(traces, alphas=[0.5], samples=3, family=chain(FULL_BUDGET))
        assert twice.p_value is PValue.BETTING
        assert (twice.n_units, twice.n_rollouts) == (80, 480)
        loss = twice.levels[0].total_loss
        assert loss != round(loss)
        assert 2 * loss == round(2 * loss)
        once = certify(traces, alphas=[0.5], samples=3, draws=1, family=chain(FULL_BUDGET))
        assert once.p_value is PValue.BINOMIAL
        often = certify(traces, alphas=[0.5], samples=3, draws=9, family=chain(FULL_BUDGET))
        assert 9 * often.levels[0].total_loss == pytest.approx(
            round(9 * often.levels[0].total_loss)
        )

    def test_voting_lowers_the_risk(self, world) -> None:
        """Independent rollouts, weighted by a calibrated confidence."""
        traces = several_rollouts(world.draw(np.random.default_rng(14), 2400), 8)
        one = certify(traces, risk="error", alphas=[0.9], family=chain(FULL_BUDGET))
        eight = certify(traces, risk="error", alphas=[0.9], samples=8, family=chain(FULL_BUDGET))
        assert eight.levels[0].risk < one.levels[0].risk - 0.1


class TestOwnLoss:
    @staticmethod
    def cost(outcomes: Outcomes) -> np.ndarray:
        share_DT = outcomes.tokens_DT / outcomes.full_tokens_D[:, None]
        return 0.8 * ~outcomes.correct_DT + 0.2 * share_DT.clip(0, 1)

    def test_from_end_to_end(self, world, tmp_path: Path) -> None:
        traces = world.draw(np.random.default_rng(15), 140)
        risk = Risk.custom("wrong or slow", self.cost, answers_always=True)
        made = certify(traces, risk=risk, alphas=(0.2, 0.7), method="fixed-sequence")
        assert made.risk == "wrong or slow"
        assert made.p_value is PValue.BETTING
        assert "the mean of the loss 'wrong or slow' is at most alpha" in made.covers
        (level,) = certified_levels(made)
        (found,) = evaluate([level.policy], traces, risk)
        assert level.risk == pytest.approx(found.realised_risk)
        assert level.share_answered == 1.0
        made.save(tmp_path / "c.json")
        assert Certificate.load(tmp_path / "c.json") == made

    def test_one_that_is_0_or_1_may_say_so(self, world) -> None:
        traces = world.draw(np.random.default_rng(15), 140)

        def wrong(outcomes: Outcomes) -> np.ndarray:
            return ~outcomes.correct_DT

        family = chain(FULL_BUDGET)
        said = Risk.custom("wrong", wrong, answers_always=True, binary=True)
        made = certify(traces, risk=said, alphas=[0.7], family=family)
        assert made.p_value is PValue.BINOMIAL
        same = certify(traces, risk="error", alphas=[0.7], family=family)
        assert made.levels == same.levels
        unsaid = certify(traces, risk=Risk.custom("w", wrong), alphas=[0.7], family=family)
        assert unsaid.p_value is PValue.BETTING


class TestPromises:
    """A safe policy that is tested only at the small level, a bad one only at the large level."""

    @pytest.fixture
    def family(self) -> Family:
        safe = ExitPolicy(lambda_high=0.95, lambda_answer=0.95)
        weights = ((1.0, 0.0), (0.0, 1.0))
        return Family((safe, FULL_BUDGET), Correction.GRAPH, "by hand", weights, Graph(((), ())))

    @pytest.fixture
    def traces(self, world) -> Traces:
        return world.draw(np.random.default_rng(16), 400)

    def test_a_level_without_weight_is_refused(self, traces: Traces, family: Family) -> None:
        no_weight = replace(family, weights_LT=((1.0, 0.0), (0.0, 0.0)))
        with pytest.raises(CalibrationError, match="all weights of alpha number 2 are 0: give at"):
            certify(traces, alphas=(0.1, 0.3), family=no_weight)

    def test_pointwise_does_not_fall_through(self, traces: Traces, family: Family) -> None:
        made = certify(traces, alphas=(0.1, 0.3), promise="pointwise", family=family)
        assert [level.certified for level in made.levels] == [True, False]
        assert made.level_for(0.29).alpha == 0.1
        with pytest.raises(InfeasibleAlpha, match="risk too high"):
            made.level_for(0.3)

    def test_simultaneous_certifies_larger_levels_too(self, traces: Traces, family: Family) -> None:
        made = certify(traces, alphas=(0.1, 0.3), family=family)
        assert [level.certified for level in made.levels] == [True, True]
        assert made.level_for(0.3).policy == made.level_for(0.1).policy

    def test_what_one_level_has_left_goes_to_the_others(self, fingerprint: Fingerprint) -> None:
        """At 0.45, p is above a third of δ, and below this plus half of another third."""
        traces, delta, alphas = sure(fingerprint, 50, 15), 0.06, (0.1, 0.45, 0.6)
        assert delta / 3 < binom.cdf(15, 50, 0.45) < delta / 2
        made = certify(traces, alphas=alphas, delta=delta, family=chain(FULL_BUDGET, levels=3))
        assert [level.certified for level in made.levels] == [False, True, True]
        unordered = Family((FULL_BUDGET,), Correction.BONFERRONI, "by hand")
        made = certify(traces, alphas=alphas, delta=delta, family=unordered)
        assert [level.certified for level in made.levels] == [False, False, True]


@pytest.mark.parametrize("risk", ["selective", "regret"])
@pytest.mark.parametrize("method", Method)
def test_every_method(world, method: Method, risk: str) -> None:
    traces = world.draw(np.random.default_rng(17), 300)
    grid = replace(GRID, lambda_high=(0.8, 0.9, 1.01), lambda_answer=(0.0, 0.8))
    made = certify(traces, risk=risk, alphas=(0.3, 0.4), method=method, grid=grid)
    assert certified_levels(made)
    scale = 30 if risk == "selective" else 0
    aside = {Method.SPLIT: 90, Method.RESCALED_CHAINS: 30, Method.AUTO: scale}.get(method, 0)
    assert (made.n_order_problems, made.n_problems) == (aside, 300 - aside)
    assert (made.order_digest is None) == (aside == 0)
    words = {
        Method.FIXED_SEQUENCE: "one chain of fixed thresholds",
        Method.SPLIT: "learned from 90 other problems over fixed thresholds",
        Method.HOLM: "holm over fixed thresholds",
        Method.BONFERRONI: "bonferroni over fixed thresholds",
    }.get(method, "along chains of fixed thresholds")
    assert words in made.method
    assert "exact binomial" in made.method


@pytest.mark.parametrize("kind", [kind for kind in PValue if kind is not PValue.ANYTIME])
def test_every_p_value_of_a_fixed_number_of_problems(world, kind: PValue) -> None:
    traces = world.draw(np.random.default_rng(18), 140)
    made = certify(traces, alphas=(0.3, 0.4), p_value=kind, method="fixed-sequence")
    assert made.p_value is kind
    assert made.level_for(0.4).p_value <= 0.05
    assert ("asymptotic" in made.method) == (kind is PValue.CLT)
    assert ("the test is asymptotic" in made.covers) == (kind is PValue.CLT)


def test_who_learns_and_who_tests_does_not_depend_on_labels(world) -> None:
    traces = world.draw(np.random.default_rng(19), 300)
    flipped = all_correct(traces)
    for method, share in (("split", 0.3), ("rescaled-chains", 0.1)):
        for recorded in (traces, flipped):
            order, tested = recorded.split_by_content(share)
            made = certify(recorded, alphas=[0.5], method=method)
            assert (made.order_digest, made.calibration_digest) == (order.digest, tested.digest)
        one, other = (recorded.split_by_content(share)[0] for recorded in (traces, flipped))
        assert one.problem_ids == other.problem_ids


def test_problems_given_for_the_order_leave_all_others_to_test(world) -> None:
    rng = np.random.default_rng(20)
    traces, order = world.draw(rng, 300), world.draw(rng, 50, "order")
    made = certify(traces, alphas=[0.4], order=order)
    assert (made.n_problems, made.n_order_problems) == (300, 50)
    assert made.order_digest == order.digest


def test_rescaled_thresholds_certify_where_plain_ones_fail(world) -> None:
    """An overconfident probe: answers at 0.9 are right about half of the time."""
    traces = distorted(world.draw(np.random.default_rng(21), 2000), 0.5, -1.0)
    plain = certify(traces, alphas=(0.1, 0.2), method="chains")
    assert not certified_levels(plain)
    rescaled = certify(traces, alphas=(0.1, 0.2), method="rescaled-chains")
    assert [level.certified for level in rescaled.levels] == [True, True]
    assert rescaled.level_for(0.2).share_right > 0.4
    assert "confidence scale learned from other problems" in rescaled.method


def test_thresholds_from_a_pool(world) -> None:
    rng = np.random.default_rng(25)
    pool = distorted(world.draw(rng, 100, "pool"), 2.0, 3.0)
    traces = distorted(world.draw(rng, 300), 2.0, 3.0)
    made = certify(traces, alphas=[0.3], method="split", grid=Grid.quantiles(pool, 9))
    (level,) = certified_levels(made)
    assert "quantiles of the confidences of 100 other problems" in made.method
    thresholds = {0.0, 1.01, *np.quantile(pool.confidence_RC, np.linspace(0.4, 0.99, 9))}
    for policy in made.tested.policies:
        assert {policy.lambda_high, policy.lambda_answer} <= thresholds
    assert level.share_right > 0.4


@pytest.mark.parametrize("method", ["chains", "split", "bonferroni"])
def test_smoothing_is_part_of_the_rule(world, method: str) -> None:
    traces = world.draw(np.random.default_rng(27), 300)
    grid = replace(GRID, lambda_high=(0.7, 0.8), lambda_answer=(0.0, 0.6), smoothing=(0.0, 0.5))
    made = certify(traces, risk="regret", alphas=[0.45], method=method, grid=grid)
    assert {policy.smoothing for policy in made.tested.policies} <= {0.0, 0.5}
    assert any(policy.smoothing == 0.5 for policy in made.tested.policies)
    smooth = certify(
        traces, alphas=[0.45], risk="regret", method=method, grid=replace(grid, smoothing=(0.5,))
    )
    (level,) = certified_levels(smooth)
    assert level.policy.smoothing == 0.5 or level.policy == replace(FULL_BUDGET, answer_on_low=True)


def test_dearer_tokens_are_saved(world) -> None:
    traces = world.draw(np.random.default_rng(24), 600)
    levels = [
        certify(traces, alphas=[0.4], method="chains", token_price=price).level_for(0.4)
        for price in (0.0, 0.05, 1.0)
    ]
    tokens = [level.expected_tokens for level in levels]
    right = [level.share_right for level in levels]
    assert tokens == sorted(tokens, reverse=True)
    assert right == sorted(right, reverse=True)
    assert tokens[-1] < tokens[0]


def test_without_a_fingerprint_it_is_not_servable(world) -> None:
    made = certify(replace(world.draw(np.random.default_rng(25), 100), fingerprint=None))
    assert made.fingerprint is None
    assert not made.servable


@pytest.mark.parametrize("share_right", [1.0, 0.95])
def test_a_model_that_is_hardly_ever_wrong_certifies_whatever_its_confidence(
    fingerprint: Fingerprint, make_rollout: MakeRollout, share_right: float
) -> None:
    """With a constant confidence below every threshold only the full budget is left; it passes."""
    rollouts = [
        make_rollout(f"p{p:03d}", [0.6] * 3, [p % 20 > 0 or share_right == 1.0] * 3)
        for p in range(400)
    ]
    made = certify(Traces.from_rollouts(rollouts, fingerprint), alphas=(0.1, 0.2))
    for level in made.levels:
        assert isinstance(level, CertifiedLevel)
        assert level.share_answered == 1
