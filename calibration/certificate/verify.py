"""Verification: a certificate recomputed from its traces, one question at a time.

Questions are answered one by one, as in serving (`calibration.simulation.walk`). No figure uses the
vectorised replay that fitted the certificate. Only the family-wise decisions, which need all tested
policies, are repeated by the fitting code.
"""

from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibration.certificate.certificate import CONTENT, Certificate
from calibration.certificate.certify import check_splits
from calibration.certificate.certify_kinds import divided
from calibration.certificate.evaluate import resolve_risk
from calibration.certificate.fitting.request import DesignRequest
from calibration.certificate.fitting.tested import (
    Tested,
    certify_policies,
    explaining_policy,
    target_level,
)
from calibration.certificate.levels import CertifiedLevel, Level
from calibration.certificate.wording import covers, does_not_cover
from calibration.errors import CalibrationError, CertificateError
from calibration.policy.exit_rule import ExitPolicy
from calibration.simulation.losses import Losses
from calibration.simulation.predictions import expected, self_labelled
from calibration.simulation.procedure import Draws, simulate
from calibration.simulation.risks import SELECTIVE, SIDE_RISKS, Outcomes, Risk
from calibration.simulation.walk import walk
from calibration.testing.families import Family
from calibration.testing.joint import Joint, bound_of, next_delta, next_most
from calibration.testing.methods import find_split
from calibration.testing.p_values import (
    PValue,
    p_values,
    smallest_certifiable,
    upper_bounds,
)
from calibration.testing.side_risks import SideRisks
from calibration.traces.fingerprint import Effect
from calibration.traces.traces import Traces

TOLERANCE = 1e-9
"""Relative tolerance for a figure."""
BETTING_TOLERANCE = 1e-2
"""Relative tolerance for figures from betting tests.

Their bets come from tables, where the last bit of a processor's logarithm can select the next
entry.
"""


def verify(
    certificate: Certificate,
    traces: Traces,
    order: Traces | None = None,
    risk: str | Risk | None = None,
) -> list[str]:
    """The differences between a certificate and what its traces give; [] if there are none.

    Args:
        certificate: a loaded certificate; loading has checked its digest.
        traces: the traces it was fitted on: those of the test, or all, including the part set aside
            for the order, and other kinds.
        order: the traces that gave the order, if they were separate.
        risk: required if the certificate bounds a custom loss.

    Raises:
        CertificateError: the traces have another fingerprint than the certificate, or the
            certificate was made in the order of names.
        CalibrationError: the loss is missing, or the test cannot be run on the certificate's own
            traces. With other traces, what stops the test is one of the differences.
    """
    if certificate.ordered_by != CONTENT:
        raise CertificateError(
            "the certificate was made by an earlier version, in the order of the problems' names, "
            "so it cannot be computed again: fit again"
        )
    risk = resolve_risk(certificate, risk)
    kinds = [*_kinds(certificate, traces.passing(), risk)]
    order, traces = _parts(certificate, traces, order)
    return [*kinds, *_differences(certificate, traces, order, risk)]


def sees_order(certificate: Certificate, traces: Traces, order: Traces | None = None) -> bool:
    """Whether `verify` sees the problems that gave the order of the policies, if any did.

    Otherwise it cannot say that they are others than those of the test.
    """
    return not certificate.n_order_problems or _parts(certificate, traces, order)[0] is not None


def _parts(
    certificate: Certificate, traces: Traces, order: Traces | None
) -> tuple[Traces | None, Traces]:
    """The problems that gave the order, as far as they are there, and those of the test."""
    traces, order = certificate.problems_of(traces), order and order.passing()
    if order is None and certificate.n_order_problems:
        return find_split(traces, certificate.calibration_digest) or (None, traces)
    return order, traces


def _kinds(certificate: Certificate, traces: Traces, risk: Risk) -> Iterator[str]:
    """The kinds that have enough labels, and the others: they tell this one's share of delta.

    Traces of one kind alone cannot say which others there are.
    """
    kind = certificate.kind
    kinds = set(filter(None, traces.kinds or ()))
    if kind is None or kinds == {kind.name}:
        return
    known = (*kind.certified, *kind.pooled)
    yield from _compare("kinds", sorted(known), sorted(kinds))
    if kinds != set(known):
        return
    joint = certificate.joint
    request = DesignRequest.of(
        risk=risk,
        alphas=[level.alpha for level in certificate.levels],
        delta=kind.delta,
        promise=certificate.promise,
    )
    bounds = {bound.risk: bound.at_most for bound in joint.bounds} if joint else None
    n_next = joint.next.questions if joint and joint.next else None
    enough, _ = divided(traces, kind.by, request, bounds, n_next)
    yield from _compare("kinds with enough labels", kind.certified, enough)


def _differences(
    certificate: Certificate, traces: Traces, order: Traces | None, risk: Risk
) -> Iterator[str]:
    others = [*_other_problems(certificate, traces, order)]
    yield from others
    try:
        yield from _other_figures(certificate, traces, risk)
    except CalibrationError as error:
        if not others:
            raise
        yield f"the test cannot be run on these traces: {error}"


def _other_problems(
    certificate: Certificate, traces: Traces, order: Traces | None
) -> Iterator[str]:
    here, there = certificate.fingerprint, traces.fingerprint
    if here is not None and there is not None:  # the rest of it was compared before
        for line in here.differences(there, (Effect.WARNS,)):
            yield f"fingerprint (certificate, traces): {line}"
    yield from _compare("calibration_digest", certificate.calibration_digest, traces.digest)
    if order is not None:
        yield from _compare("order_digest", certificate.order_digest, order.digest)
        yield from _compare("n_order_problems", certificate.n_order_problems, order.n_problems)
        try:
            check_splits(order, traces)
        except CalibrationError as error:
            yield f"the order was not learned on other problems of the same recording: {error}"
    yield from _compare("n_problems", certificate.n_problems, traces.n_problems)
    yield from _compare("n_units", certificate.n_units, traces.n_units)
    yield from _compare("n_rollouts", certificate.n_rollouts, traces.n_rollouts)


def _other_figures(certificate: Certificate, traces: Traces, risk: Risk) -> Iterator[str]:
    if certificate.sequential is not None:
        certificate.sequential.require_unchanged(traces)
        certificate.design.require_labels(traces, risk)
    else:
        traces.require_labels()
    seed = traces.seed
    tested = tested_again(certificate, traces, risk, seed)
    recount = _Recount(certificate, traces, risk, tested, seed)
    yield from recount.compare_words()
    for number, level in enumerate(certificate.levels):
        here = asdict(level)
        for name, there in recount.figures(number, level).items():
            loose = name in ("p_value", "risk_upper")
            yield from recount.compare(f"alpha {level.alpha:g}: {name}", here[name], there, loose)
    served_LT, allowed_T = tested.certified_LT, None
    if certificate.joint is not None:
        how = certificate.tested.policies, certificate.procedure, certificate.groups, seed
        sides = SideRisks.measured(certificate.joint, traces, *how)
        allowed_T = sides.allowed_T
        served_LT = served_LT & allowed_T
        yield from recount.compare_joint(certificate.joint, sides.kind)
    yield from recount.compare_smallest_alpha(allowed_T)
    for number, level in enumerate(certificate.levels):
        if verdict := _verdict(level, certificate.tested, served_LT[number]):
            yield f"alpha {level.alpha:g}: {verdict}"


class _Recount:
    """The figures of a certificate, recomputed from its traces."""

    def __init__(
        self, certificate: Certificate, traces: Traces, risk: Risk, tested: Tested, seed: int
    ) -> None:
        self._certificate, self._traces, self._risk = certificate, traces, risk
        self._tested, self._seed = tested, seed
        self._draws = simulate(traces, certificate.procedure)
        self._walked: dict[ExitPolicy, Outcomes] = {}
        # Which problems have a label depends on all tested policies, as the decisions do.
        shared = certificate.label_share is not None
        self._drawn = certificate.design.draw(traces, risk) if shared else None

    def compare_words(self) -> Iterator[str]:
        """What the certificate should say that it covers, and what not."""
        made, gated = self._certificate, self._traces.is_gated
        said = covers(
            self._risk,
            made.whole_delta,
            made.promise,
            made.p_value,
            groups=made.groups,
            gated=gated,
            of_kind=made.kind,
            joint=made.joint,
            label_share=made.label_share,
        )
        yield from _compare("covers", made.covers, said)
        limits = does_not_cover(
            self._risk,
            groups=made.groups,
            gated=gated,
            sequential=made.sequential is not None,
            of_kind=made.kind,
            label_share=made.label_share,
        )
        yield from _compare("does_not_cover", made.does_not_cover, limits)

    def figures(self, number: int, level: Level) -> dict[str, float]:
        """The numbers of a level."""
        policies = self._certificate.tested.policies
        if isinstance(level, CertifiedLevel):
            policy = level.policy
        else:
            policy = policies[explaining_policy(self._certificate.tested, self._tested, number)]
        outcomes, losses = self._outcomes(policy), self._losses(policy)
        (p_value,) = p_values(
            losses, level.alpha, self._certificate.p_value, self._seed, self._target_level(number)
        )
        figures = {
            "p_value": float(p_value),
            "total_weight": float(losses.total_weight_T[0]),
            "total_loss": float(losses.total_loss_T[0]),
        }
        if not isinstance(level, CertifiedLevel):
            return figures
        level_delta = self._certificate.delta / len(policies)
        return figures | {
            "risk": float(losses.risk_T[0]),
            "risk_upper": max(self._bound(losses, level_delta), float(losses.risk_T[0])),
            "share_answered": self._mean(outcomes.answered_DT[:, 0]),
            "share_right": self._share_right(outcomes),
            "expected_tokens": self._mean(outcomes.tokens_DT[:, 0]),
            "full_budget_tokens": self._mean(outcomes.full_tokens_D),
        }

    def compare_joint(self, joint: Joint, kind: PValue) -> Iterator[str]:
        """The figures of what holds jointly with the levels."""
        made = self._certificate
        loose = BETTING_TOLERANCE if kind is PValue.BETTING else TOLERANCE
        delta = next_delta(joint, made.promise, len(made.levels))
        for number, level in enumerate(made.levels):
            if not isinstance(level, CertifiedLevel):
                continue
            outcomes = self._outcomes(level.policy)
            for bound in joint.bounds:
                losses = self._losses_by_content(outcomes, SIDE_RISKS[bound.risk])
                n_policies, share = len(made.tested.policies), joint.statement_delta
                there = bound_of(bound, losses, n_policies, kind, share, self._seed)
                name = f"alpha {level.alpha:g}: bound on {bound.risk}"
                yield from _compare(name, bound.bounds[number], there, loose)
            if joint.next is not None:
                most = next_most(joint.next.questions, level.alpha, delta)
                name = f"alpha {level.alpha:g}: of the next {joint.next.questions}"
                yield from _compare(name, joint.next.most[number], most)

    def compare_smallest_alpha(self, allowed_T: NDArray[np.bool_] | None) -> Iterator[str]:
        """The smallest certifiable alpha, or the bound that earlier versions gave for it.

        They gave the upper bound of a first policy, although its risk on the problems was not below
        it, or no limit allowed the policy (`allowed_T`).
        """
        made = self._certificate
        certified = [level.alpha for level in made.certified_levels]
        numbers = range(len(made.levels))
        now = min(certified + [self._first_certifiable(number, allowed_T) for number in numbers])
        former = min(certified + [self._first_bound(number) for number in numbers])
        found = [
            [*self.compare(field, made.smallest_certifiable_alpha, there, loose=True)]
            for field, there in (("smallest_certifiable_alpha", one) for one in (now, former))
        ]
        yield from found[0] if all(found) else ()

    def compare(self, name: str, here: object, there: object, loose: bool) -> Iterator[str]:
        """A loose figure comes from a betting test if the certificate uses one."""
        betting = loose and self._certificate.p_value is PValue.BETTING
        yield from _compare(name, here, there, BETTING_TOLERANCE if betting else TOLERANCE)

    def _first_certifiable(self, number: int, allowed_T: NDArray[np.bool_] | None) -> float:
        made, level = self._certificate, self._certificate.levels[number]
        first, _ = made.tested.first(number)
        if allowed_T is not None and not allowed_T[first]:
            return 1.0
        (alpha,) = smallest_certifiable(
            self._losses(made.tested.policies[first]), self._target_level(number), made.p_value,
            self._seed, above=0.0 if level.certified else level.alpha,
        )  # fmt: skip
        return float(alpha)

    def _first_bound(self, number: int) -> float:
        first, _ = self._certificate.tested.first(number)
        losses = self._losses(self._certificate.tested.policies[first])
        return self._bound(losses, self._target_level(number))

    def _target_level(self, number: int) -> float:
        made = self._certificate
        alphas = [level.alpha for level in made.levels]
        return target_level(made.tested, number, alphas, made.delta, made.promise)

    def _outcomes(self, policy: ExitPolicy) -> Outcomes:
        """The outcomes of a policy; computed once, as several levels may share it."""
        if policy not in self._walked:
            procedure = self._certificate.procedure
            self._walked[policy] = walk(self._traces, self._draws, policy, procedure)
        return self._walked[policy]

    def _bound(self, losses: Losses, level_delta: float) -> float:
        (bound,) = upper_bounds(losses, level_delta, self._certificate.p_value, self._seed)
        return float(bound)

    def _mean(self, values_D: NDArray[Any]) -> float:
        by_problem = self._certificate.groups is None or self._certificate.groups.by_size
        mean_P = _problem_means(values_D, self._draws)
        if by_problem:
            return float(mean_P.mean())
        return float(np.mean([np.mean(means) for means in _by_unit(mean_P, self._traces)]))

    def _share_right(self, outcomes: Outcomes) -> float:
        if self._drawn is None:
            return self._mean(outcomes.correct_DT[:, 0])
        answers = self._losses_by_content(outcomes, SELECTIVE)
        (wrong,) = self._drawn.ratio_T(answers.loss_UT, answers.weight_UT)
        return self._mean(outcomes.answered_DT[:, 0]) * float(1 - wrong)

    def _losses(self, policy: ExitPolicy) -> Losses:
        """One row per unit, in the order of the test."""
        losses = self._losses_by_content(self._outcomes(policy), self._risk)
        if self._drawn is not None:
            losses = losses.with_labels(replace(self._drawn, predicted_UT=self._predicted(policy)))
        return self._certificate.in_test_order(losses, self._traces)

    def _predicted(self, policy: ExitPolicy) -> NDArray[np.float64]:
        """The predicted losses of units, one row each."""
        likely = walk(self_labelled(self._traces), self._draws, policy, self._certificate.procedure)
        return self._losses_by_content(likely, expected(self._risk)).loss_UT

    def _losses_by_content(self, outcomes: Outcomes, risk: Risk) -> Losses:
        """One row per unit, in the order of `Traces.unit_P`."""
        loss_DT, weight_DT = risk.loss(outcomes)
        loss_U1 = self._unit_losses(np.asarray(loss_DT, dtype=np.float64)[:, 0])
        if weight_DT is not None:
            weight_D = np.asarray(weight_DT, dtype=np.float64)[:, 0]
            return Losses(loss_U1, self._unit_losses(weight_D))
        size_U1 = self._unit_losses(np.ones(self._draws.n_draws))
        return Losses.unweighted(loss_U1) if (size_U1 == 1).all() else Losses(loss_U1, size_U1)

    def _unit_losses(self, values_D: NDArray[np.float64]) -> NDArray[np.float64]:
        """The mean over a unit's problems, or their sum over the largest size of a group."""
        of_unit = _by_unit(_problem_means(values_D, self._draws), self._traces)
        groups = self._certificate.groups
        if groups is None or groups.max_size is None:
            return np.array([[np.mean(means)] for means in of_unit])
        return np.array([[np.sum(means) / groups.max_size] for means in of_unit])


def tested_again(certificate: Certificate, traces: Traces, risk: Risk, seed: int) -> Tested:
    """P-values and verdicts of all tested policies, computed again by the fitting code."""
    family, alphas = certificate.tested, [level.alpha for level in certificate.levels]
    losses = certificate.design.measure(traces, risk).losses
    losses = certificate.in_test_order(losses, traces)
    return certify_policies(
        losses, family, alphas, certificate.delta, certificate.promise, certificate.p_value, seed
    )


def _verdict(level: Level, family: Family, certified_T: NDArray[np.bool_]) -> str | None:
    certified = {family.policies[t] for t in np.flatnonzero(certified_T)}
    if not isinstance(level, CertifiedLevel):
        return (
            f"infeasible in the certificate, but {len(certified)} policies pass the tests"
            if certified
            else None
        )
    return None if level.policy in certified else "its policy does not pass the tests"


def _problem_means(values_D: NDArray[Any], draws: Draws) -> NDArray[np.float64]:
    """Draws are averaged into problems."""
    return np.asarray(np.bincount(draws.problem_D, values_D) / np.bincount(draws.problem_D))


def _by_unit(mean_P: NDArray[np.float64], traces: Traces) -> list[list[float]]:
    """The figures of each unit's problems, units in the order of `Traces.unit_P`."""
    of_unit: dict[int, list[float]] = {}
    for unit, mean in zip(traces.unit_P.tolist(), mean_P.tolist(), strict=True):
        of_unit.setdefault(unit, []).append(mean)
    return [of_unit[unit] for unit in sorted(of_unit)]


def _compare(name: str, here: object, there: object, tolerance: float = TOLERANCE) -> Iterator[str]:
    if isinstance(here, float) and isinstance(there, float):
        if abs(here - there) <= tolerance * max(abs(here), abs(there)):
            return
    elif here == there:
        return
    yield f"{name} is {here!r} in the certificate, {there!r} from the traces"
