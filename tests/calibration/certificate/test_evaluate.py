from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from calibration import (
    ERROR,
    FULL_BUDGET,
    CalibrationError,
    Certificate,
    CertificateError,
    Chain,
    ExitPolicy,
    ExitReason,
    Fingerprint,
    Procedure,
    Risk,
    Traces,
    certify,
    evaluate,
    family_of_chains,
    replay_certificate,
)
from calibration.certificate.evaluate import _intervals, resolve_risk
from calibration.simulation.groups import Average, Groups
from calibration.simulation.losses import Losses
from tests.calibration.recordings import in_groups, several_rollouts, sure

EAGER = ExitPolicy(lambda_low=0.1, patience=32, lambda_high=0.6, lambda_answer=0.5)


def test_by_hand(make_rollout, fingerprint: Fingerprint) -> None:
    traces = Traces.from_rollouts(
        [
            make_rollout("high", (0.2, 0.6, 0.9), (False, True, True), end=40),
            make_rollout("low", (0.05,) * 5, (False,) * 5, end=80, natural=False),
            make_rollout("natural", (0.3, 0.5), (False, False), end=20),
            make_rollout("budget", (0.3,) * 4 + (0.4,), (True,) * 5, end=80, natural=False),
        ],
        fingerprint,
    )
    eager, full = evaluate([EAGER, FULL_BUDGET], traces)
    assert eager.exits == {
        ExitReason.HIGH: 1,
        ExitReason.LOW: 1,
        ExitReason.NATURAL: 1,
        ExitReason.BUDGET: 1,
    }
    assert full.exits == {
        ExitReason.HIGH: 0,
        ExitReason.LOW: 0,
        ExitReason.NATURAL: 2,
        ExitReason.BUDGET: 2,
    }
    assert (eager.n_units, eager.n_draws) == (4, 4)
    # Answered: high right, natural wrong; the budget ends below λa, and nothing is forced.
    assert (eager.answered_share, eager.right_share, eager.realised_risk) == (0.5, 0.25, 0.5)
    assert eager.tokens == (35 + 32 + 23 + 80) / 4
    assert eager.full_budget_tokens == full.tokens == (43 + 83 + 23 + 83) / 4
    assert eager.tokens_share == eager.tokens / full.tokens
    assert (full.answered_share, full.realised_risk, full.tokens_share) == (1.0, 0.5, 1.0)
    # Clopper-Pearson: 1 wrong of 2.
    low, high = eager.risk_interval or (0, 0)
    assert low == pytest.approx(1 - 0.975**0.5)
    assert high == pytest.approx(0.975**0.5)


@pytest.mark.parametrize(("n", "wrong"), [(30, 0), (30, 30), (30, 7), (1, 0)])
def test_exact_interval(fingerprint: Fingerprint, n: int, wrong: int) -> None:
    (found,) = evaluate([FULL_BUDGET], sure(fingerprint, n, wrong), ERROR)
    expected = stats.binomtest(wrong, n).proportion_ci(0.95, "exact")
    assert found.risk_interval == pytest.approx((expected.low, expected.high))
    assert found.realised_risk == wrong / n


@pytest.mark.parametrize(("problems", "rollouts"), [(60, 2), (60, 8), (240, 2)])
def test_intervals_cover_a_rare_loss_of_several_rollouts(problems: int, rollouts: int) -> None:
    """One answer in 41 is wrong, most of them of the same few problems."""
    rng, worlds, covered = np.random.default_rng(5), 300, 0
    for _ in range(worlds):
        answered_P = rng.binomial(rollouts, rng.beta(4, 1, problems))
        wrong_P = rng.binomial(answered_P, rng.beta(0.1, 4, problems))
        losses = Losses(*(counts_P[:, None] / rollouts for counts_P in (wrong_P, answered_P)))
        ((low, high),) = _intervals(losses, problems * rollouts, problems)
        covered += low <= 0.1 / 4.1 <= high
    assert covered / worlds > 0.93


def test_units_that_are_all_alike_leave_doubt(world) -> None:
    """Half of the rollouts of every problem are wrong: at best they are independent."""
    traces = several_rollouts(world.draw(np.random.default_rng(1), 80), 4)
    right_R = np.tile([True, True, False, False], 20)[:, None]
    (found,) = evaluate(
        [FULL_BUDGET], replace(traces, correct_RC=right_R | np.zeros_like(traces.correct_RC))
    )
    expected = stats.binomtest(40, 80).proportion_ci(0.95, "exact")
    assert found.realised_risk == 0.5
    assert found.risk_interval == pytest.approx((expected.low, expected.high))


@pytest.mark.parametrize("group", [1, 3])
def test_intervals_cover_the_risk(world, group: int) -> None:
    """Exact intervals of problems, and intervals of ratios over groups."""
    policy = ExitPolicy(lambda_high=0.9, lambda_answer=0.6)
    rng = np.random.default_rng(2)
    covered = 0
    for _ in range(200):
        (found,) = evaluate([policy], in_groups(world.draw(rng, 240), group))
        assert found.risk_interval is not None
        low, high = found.risk_interval
        covered += low <= world.risk(policy) <= high
    assert covered >= 200 * (0.95 - 3 * np.sqrt(0.95 * 0.05 / 200))


def test_the_interval_does_not_depend_on_the_largest_size_that_a_group_may_have(world) -> None:
    pairs = in_groups(world.draw(np.random.default_rng(5), 80), 2)
    ((two,), (twenty,)) = (
        evaluate([FULL_BUDGET], pairs, groups=Groups(Average.PROBLEMS, size)) for size in (2, 20)
    )
    assert two.realised_risk == pytest.approx(twenty.realised_risk)
    assert two.risk_interval == pytest.approx(twenty.risk_interval)


def test_nothing_answered(world) -> None:
    (found,) = evaluate([ExitPolicy(lambda_answer=1.01)], world.draw(np.random.default_rng(3), 20))
    assert (found.realised_risk, found.risk_interval, found.answered_share) == (None, None, 0.0)


def test_of_a_procedure(world) -> None:
    traces = several_rollouts(world.draw(np.random.default_rng(4), 240), 8)
    (one,) = evaluate([FULL_BUDGET], traces, ERROR)
    (four,) = evaluate([FULL_BUDGET], traces, ERROR, Procedure(4))
    assert (one.n_units, one.n_draws, four.n_units, four.n_draws) == (30, 240, 30, 60)
    assert four.tokens == pytest.approx(4 * one.tokens)
    assert sum(four.exits.values()) == 240


def test_refuses_a_policy_that_does_not_fit(world) -> None:
    with pytest.raises(CalibrationError, match="policy 1 has answer_on_low = False"):
        evaluate([FULL_BUDGET, EAGER], world.draw(np.random.default_rng(5), 20), ERROR)


@pytest.fixture(scope="module")
def certificate(world) -> Certificate:
    family = family_of_chains([[Chain((EAGER,), 1.0)]] * 2, "by hand")
    made = certify(world.draw(np.random.default_rng(6), 200), alphas=(0.05, 0.4), family=family)
    assert [level.certified for level in made.levels] == [False, True]
    return made


@pytest.fixture(scope="module")
def fresh(world) -> Traces:
    return world.draw(np.random.default_rng(7), 150, "new")


class TestCertificateOnOtherTraces:
    def test_levels_are_those_of_the_certificate(
        self, certificate: Certificate, fresh: Traces
    ) -> None:
        infeasible, certified = replay_certificate(certificate, fresh)
        assert (infeasible.alpha, infeasible.evaluation) == (0.05, None)
        assert infeasible.reason == certificate.levels[0].reason
        assert (certified.alpha, certified.reason) == (0.4, None)
        assert certified.evaluation == evaluate([EAGER], fresh)[0]

    def test_json(self, certificate: Certificate, fresh: Traces) -> None:
        infeasible, certified = (
            level.to_json() for level in replay_certificate(certificate, fresh)
        )
        assert list(infeasible) == list(certified)
        assert set(certified) == {
            *("alpha", "certified", "reason", "realised_risk", "risk_interval", "tokens_share"),
            *("answered_share", "right_share", "tokens", "full_budget_tokens", "exits"),
            *("n_units", "n_draws"),
        }
        assert (infeasible["certified"], infeasible["realised_risk"]) == (False, None)
        assert (certified["certified"], certified["reason"]) == (True, None)
        assert certified["tokens_share"] == certified["tokens"] / certified["full_budget_tokens"]
        assert certified["exits"].keys() == {"high", "low", "natural", "budget"}

    def test_in_words(self, certificate: Certificate, fresh: Traces) -> None:
        infeasible, certified = (
            level.in_words() for level in replay_certificate(certificate, fresh)
        )
        assert infeasible.startswith("alpha 0.05: not certified. ")
        assert certified.startswith("alpha 0.4: realised risk 0.")
        for part in ("(95%: 0.", "% answered, ", "% saved; exits: ", " high, ", " budget"):
            assert part in certified

    def test_nothing_certified(self, world, fresh: Traces) -> None:
        failed = certify(world.draw(np.random.default_rng(8), 50), risk="error", alphas=[0.06])
        (level,) = replay_certificate(failed, fresh)
        assert level.evaluation is None

    def test_nothing_answered_in_words(self, certificate: Certificate, fresh: Traces) -> None:
        hopeless = replace(fresh, confidence_RC=np.full_like(fresh.confidence_RC, 0.05))
        words = replay_certificate(certificate, hopeless)[1].in_words()
        assert "nothing was answered; 0% answered" in words
        assert "150 low" in words

    def test_of_a_procedure(self, world) -> None:
        rng = np.random.default_rng(9)
        made = certify(
            several_rollouts(world.draw(rng, 400), 4), alphas=[0.5], samples=2, vote="majority"
        )
        other = several_rollouts(world.draw(rng, 80, "new"), 4)
        (level,) = replay_certificate(made, other)
        assert level.evaluation is not None
        assert level.evaluation.n_draws == 40
        with pytest.raises(CalibrationError, match="'new00000' has 1 rollouts"):
            replay_certificate(made, world.draw(rng, 80, "new"))

    def test_another_recording(
        self, certificate: Certificate, fresh: Traces, fingerprint: Fingerprint
    ) -> None:
        other = replace(fresh, fingerprint=replace(fingerprint, max_tokens=96, model="m1"))
        with pytest.raises(
            CertificateError, match="model: 'm0' here, 'm1' there; max_tokens: 80 here, 96 there"
        ):
            replay_certificate(certificate, other)
        with pytest.raises(CertificateError, match="only the certificate has a fingerprint"):
            replay_certificate(certificate, replace(fresh, fingerprint=None))


def test_the_risk_of_a_certificate(certificate: Certificate) -> None:
    own = Risk.custom("cost", lambda outcomes: outcomes.tokens_DT)
    assert resolve_risk(certificate, None).name == "selective"
    assert resolve_risk(certificate, "selective").name == "selective"
    with pytest.raises(CalibrationError, match="bounds 'selective', not 'cost'"):
        resolve_risk(certificate, own)
    with pytest.raises(CalibrationError, match="bounds 'selective', not 'error'"):
        resolve_risk(certificate, "error")
    of_own = replace(certificate, risk="cost")
    assert resolve_risk(of_own, own) is own
    with pytest.raises(CalibrationError, match=r"bounds the custom loss 'cost': give .* --loss"):
        resolve_risk(of_own, None)


@pytest.mark.parametrize("weight", [0.1, 0.25, 0.5, 0.75])
@pytest.mark.parametrize("n", [2, 3, 10])
@pytest.mark.parametrize("wrong", [0.0, 0.5, 1.0])
def test_the_interval_holds_the_risk_where_less_than_one_question_is_answered(
    weight: float, n: int, wrong: float
) -> None:
    """Equal units show no spread; their weights may sum to less than 1."""
    losses = Losses(np.full((n, 1), wrong * weight), np.full((n, 1), weight))
    ((low, high),) = _intervals(losses, draws=4 * n, full_weight=n)
    assert 0 <= low <= losses.risk_T[0] == pytest.approx(wrong)
    assert losses.risk_T[0] <= high <= 1
    fewer = losses.take(np.arange(n - 1))
    ((less_low, less_high),) = _intervals(fewer, draws=4 * (n - 1), full_weight=n - 1)
    assert less_high - less_low >= high - low, "fewer answers say less"
