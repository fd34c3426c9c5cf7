"""Validity and power, by simulation in a world whose risk is known in closed form."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import brentq

from calibration import (
    CalibrationError,
    Certificate,
    CertifiedLevel,
    ExitPolicy,
    Fingerprint,
    InfeasibleLevel,
    Promise,
    Rollout,
    Traces,
    binomial_p_value,
    certify,
    evaluate,
    read_traces,
    write_traces,
)

MakeRollout = Callable[..., Rollout]

DELTA = 0.1
ALPHAS = (0.1, 0.2, 0.3)
POLICIES = tuple(
    ExitPolicy(lambda_high=high, lambda_answer=answer)
    for high in (0.7, 0.8, 0.85, 0.9, 0.95, 1.01)
    for answer in (0.5, 0.6, 0.7, 0.78, 0.82, 0.9, 1.0)
)


def standard_error(rate: float, runs: int) -> float:
    return float(np.sqrt(rate * (1 - rate) / runs))


@pytest.fixture(scope="module")
def certificates(world) -> list[Certificate]:
    """500 certificates, each from its own 100 + 200 problems."""
    rng = np.random.default_rng(1)
    return [
        certify(
            order=world.draw(rng, 100, "order"),
            calibration=world.draw(rng, 200, "test"),
            alphas=ALPHAS,
            delta=DELTA,
            policies=POLICIES,
        )
        for _ in range(500)
    ]


def certified_levels(certificate: Certificate) -> list[CertifiedLevel]:
    return [level for level in certificate.levels if isinstance(level, CertifiedLevel)]


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
    assert len(served[0.2]) >= 0.9 * len(certificates)
    assert len(served[0.3]) >= 0.95 * len(certificates)
    tokens = np.mean([level.expected_tokens for level in served[0.3]])
    assert tokens < 0.8 * served[0.3][0].full_budget_tokens
    assert np.mean([level.share_right for level in served[0.3]]) > 0.5


def test_certified_at_alpha_is_certified_above(certificates: list[Certificate]) -> None:
    for certificate in certificates:
        flags = [level.certified for level in certificate.levels]
        assert flags == sorted(flags)


def test_error_where_every_candidate_is_a_null(world) -> None:
    """Ten candidates of risk exactly 0.1, each answering other questions: no choice is right."""
    highs = np.linspace(0.8, 0.99, 10)
    nulls = [ExitPolicy(lambda_high=high, lambda_answer=null_answer(world, high)) for high in highs]
    assert [world.risk(null) for null in nulls] == pytest.approx([0.1] * 10)
    rng = np.random.default_rng(4)
    runs, errors, naive_errors = 400, 0, 0
    for _ in range(runs):
        calibration = world.draw(rng, 200)
        certificate = certify(
            order=world.draw(rng, 100, "order"),
            calibration=calibration,
            alphas=[0.1],
            delta=DELTA,
            policies=nulls,
        )
        errors += certificate.levels[0].certified
        results = [evaluate(null, calibration) for null in nulls]
        naive_errors += any(
            binomial_p_value(np.arange(r.n_answered) < r.n_wrong, 0.1) <= DELTA for r in results
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
    """The one candidate has risk exactly 0.1: certifying it is always an error."""
    null = ExitPolicy(lambda_answer=0.8)
    assert world.risk(null) == pytest.approx(0.1)
    rng = np.random.default_rng(2)
    order = world.draw(rng, 50, "order")
    runs = 400
    errors = [
        certify(
            order=order,
            calibration=world.draw(rng, 400),
            alphas=(0.1 - 1e-9, 0.05),
            delta=DELTA,
            policies=[null],
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
    order, calibration = world.draw(np.random.default_rng(3), 600).split(0.4)
    certificate = certify(order=order, calibration=calibration, alphas=(0.3, 0.1), delta=0.1)
    assert [level.alpha for level in certificate.levels] == [0.1, 0.3]
    assert certificate.n_problems == 360
    assert certificate.n_order_problems == 240
    assert certificate.fingerprint == fingerprint
    assert certificate.calibration_digest == calibration.digest
    assert certificate.order_digest == order.digest
    level = certificate.level_for(0.3)
    measured = evaluate(level.policy, calibration)
    assert level.n_answered == measured.n_answered
    assert level.n_wrong == measured.n_wrong
    assert level.risk == pytest.approx(measured.risk)
    assert level.share_answered == pytest.approx(measured.share_answered)
    assert level.share_right == pytest.approx(measured.share_right)
    assert level.expected_tokens == pytest.approx(measured.mean_tokens)
    assert level.full_budget_tokens == pytest.approx(measured.full_budget_tokens)
    assert level.expected_tokens < level.full_budget_tokens
    assert level.p_value <= 0.05  # two levels share delta
    assert level.risk < level.risk_upper


def test_from_file_to_file(
    tmp_path: Path, make_rollout: MakeRollout, fingerprint: Fingerprint
) -> None:
    write_traces(tmp_path / "traces.parquet", some(make_rollout, 60, wrong=3), fingerprint)
    order, calibration = read_traces(tmp_path / "traces.parquet").split(0.4)
    certificate = certify(
        order=order, calibration=calibration, alphas=(0.2, 0.4), created="2026-01-31"
    )
    certificate.save(tmp_path / "certificate.json")
    loaded = Certificate.load(tmp_path / "certificate.json")
    assert loaded == certificate
    assert loaded.created == "2026-01-31"
    assert loaded.level_for(0.4).policy == certificate.level_for(0.4).policy


def test_same_data_same_certificate(world) -> None:
    order, calibration = world.draw(np.random.default_rng(3), 200).split(0.4)
    kwargs = {"order": order, "calibration": calibration, "policies": POLICIES}
    first = certify(**kwargs, alphas=(0.2, 0.3))
    assert certify(**kwargs, alphas=(0.3, 0.2)).id == first.id
    assert certify(**kwargs, alphas=(0.2,)).id != first.id


def some(make_rollout: MakeRollout, n: int, wrong: int = 0, name: str = "p") -> list[Rollout]:
    """n problems that answer at once with full confidence, the first `wrong` of them wrong."""
    return [make_rollout(f"{name}{i}", (1.0,), (i >= wrong,), end=8) for i in range(n)]


@pytest.mark.parametrize(
    ("n", "wrong", "reason"),
    [
        (21, 0, r"n too small: the safest policy answers 21 of 21 .*0.1 takes 22 answers"),
        (40, 2, r"n too small: the safest policy answers 2 of 40 wrong, p = 0.223"),
        (40, 8, r"risk too high: the safest policy answers 8 of 40 wrong, p = 0.985"),
    ],
)
def test_why_a_level_is_infeasible(
    make_rollout: MakeRollout, fingerprint: Fingerprint, n: int, wrong: int, reason: str
) -> None:
    certificate = certify(
        order=Traces.from_rollouts(some(make_rollout, 30, name="o"), fingerprint),
        calibration=Traces.from_rollouts(some(make_rollout, n, wrong), fingerprint),
        alphas=[0.1],
    )
    (level,) = certificate.levels
    assert isinstance(level, InfeasibleLevel)
    assert level.n_answered == n
    assert level.n_wrong == wrong
    assert level.p_value > 0.1
    with pytest.raises(CalibrationError, match=reason):
        certificate.level_for(0.1)


def test_none_answered_certifies_nothing(
    make_rollout: MakeRollout, fingerprint: Fingerprint
) -> None:
    certificate = certify(
        order=Traces.from_rollouts(some(make_rollout, 30, name="o"), fingerprint),
        calibration=Traces.from_rollouts(some(make_rollout, 30), fingerprint),
        alphas=[0.5],
        policies=[ExitPolicy(lambda_answer=1.01)],
    )
    (level,) = certificate.levels
    assert isinstance(level, InfeasibleLevel)
    assert level.p_value == 1.0
    assert level.reason.startswith("n too small: the safest policy answers 0 of 30")
    assert certificate.smallest_certifiable_alpha == 1.0


def test_smallest_certifiable_alpha_would_be_certified(
    make_rollout: MakeRollout, fingerprint: Fingerprint
) -> None:
    splits = {
        "order": Traces.from_rollouts(some(make_rollout, 30, name="o"), fingerprint),
        "calibration": Traces.from_rollouts(some(make_rollout, 30), fingerprint),
    }
    smallest = certify(**splits, alphas=[0.01]).smallest_certifiable_alpha
    assert smallest == pytest.approx(1 - 0.1 ** (1 / 30))
    assert certify(**splits, alphas=[smallest + 1e-9]).levels[0].certified
    assert not certify(**splits, alphas=[smallest - 1e-9]).levels[0].certified


def test_refuses_splits_that_do_not_support_the_claim(
    make_rollout: MakeRollout, fingerprint: Fingerprint
) -> None:
    order = Traces.from_rollouts(some(make_rollout, 5, name="o"), fingerprint)
    sound = Traces.from_rollouts(some(make_rollout, 5), fingerprint)

    def refused(message: str, calibration: Traces, order: Traces = order, **kwargs) -> None:
        with pytest.raises(CalibrationError, match=message):
            certify(order=order, calibration=calibration, **{"alphas": [0.1], **kwargs})

    refused("5 problems or groups are in both splits, 'problem p0' among them", sound, sound)
    hotter = replace(order, fingerprint=replace(fingerprint, temperature=1.0))
    refused("different fingerprints .*temperature: 0.8 here, 1.0 there", sound, hotter)

    repeated = [*some(make_rollout, 5), make_rollout("p3", rollout=1)]
    refused(
        "problem 'p3' has 2 rollouts: the binomial test takes one per problem",
        Traces.from_rollouts(repeated, fingerprint),
    )
    grouped = [replace(rollout, group="g") for rollout in some(make_rollout, 5)]
    refused("5 calibration problems lie in 1 groups", Traces.from_rollouts(grouped, fingerprint))
    voting = replace(fingerprint, samples=4)
    refused(
        "says 4 samples per question: this release certifies one",
        replace(sound, fingerprint=voting),
        replace(order, fingerprint=voting),
    )
    refused(r"alphas are \[\]", sound, alphas=[])
    refused(r"alphas are \[0.1, 0.1\]: give at least one, none twice", sound, alphas=[0.1, 0.1])
    refused("alpha is 1", sound, alphas=[1])
    refused("delta is 0", sound, delta=0)
    refused("policies is empty", sound, policies=[])


def test_several_rollouts_may_lay_out_the_path(
    make_rollout: MakeRollout, fingerprint: Fingerprint
) -> None:
    rollouts = some(make_rollout, 30, name="o")
    rollouts += [replace(rollout, rollout=1) for rollout in rollouts]
    certificate = certify(
        order=Traces.from_rollouts(rollouts, fingerprint),
        calibration=Traces.from_rollouts(some(make_rollout, 30), fingerprint),
        alphas=[0.1],
    )
    assert certificate.level_for(0.1).n_answered == 30
