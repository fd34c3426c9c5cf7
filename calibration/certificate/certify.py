"""Learn-then-Test (arXiv 2110.01052): from recorded rollouts to a certificate."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from calibration.certificate.batches import Batches
from calibration.certificate.certificate import CONTENT, Certificate
from calibration.certificate.design import ALPHAS, DELTA, Design, DesignRequest, parse_choice
from calibration.certificate.levels import CertifiedLevel, InfeasibleLevel, Level
from calibration.certificate.wording import covers, does_not_cover
from calibration.errors import CalibrationError
from calibration.simulation.groups import Average, Groups
from calibration.simulation.losses import Losses
from calibration.simulation.replay import Replay
from calibration.simulation.risks import SELECTIVE, Risk
from calibration.testing.families import Correction, Family, Grid
from calibration.testing.fwer import Promise, bonferroni, certify_levels, delta_per_level, holm
from calibration.testing.joint import Joint, levels_delta, requested
from calibration.testing.learned_path import TOKEN_PRICE, choose_certified
from calibration.testing.methods import Method, split_traces
from calibration.testing.p_values import (
    PValue,
    fewest_problems,
    fewest_units,
    p_value_table,
    p_values,
    smallest_certifiable,
    upper_bounds,
)
from calibration.testing.side_risks import SideRisks
from calibration.traces.traces import Traces


def certify(
    traces: Traces,
    *,
    risk: str | Risk = SELECTIVE,
    alphas: Sequence[float] = ALPHAS,
    delta: float = DELTA,
    promise: Promise | str = Promise.SIMULTANEOUS,
    samples: int = 1,
    vote: str = "confidence",
    draws: int | None = None,
    p_value: PValue | str = "auto",
    method: Method | str = Method.AUTO,
    family: Family | None = None,
    grid: Grid | None = None,
    order: Traces | None = None,
    token_price: float = TOKEN_PRICE,
    average: Average | str = Average.PROBLEMS,
    max_group_size: int | None = None,
    created: str | None = None,
    bounds: Mapping[str, float | None] | None = None,
    next_questions: int | None = None,
) -> Certificate:
    """Certify, for each alpha, an exit policy whose risk is at most alpha.

    The guarantee: with probability at least 1 - delta over the draw of the problems of the test,
    every certified policy keeps its alpha on new problems drawn from the same distribution; at all
    levels simultaneously, or at each level separately (pointwise). It requires independent units:
    problems, or groups where problems share one. The risk is an average over problems, in which a
    group counts by its size, or over groups (`average`). It covers the whole procedure, including
    several samples, vote and abstention. It does not cover other problems, prompts or engines, or
    any single question. With the p-value "clt" it holds only in the limit of many problems.

    Args:
        traces: recorded full-budget rollouts of labelled problems.
        risk: "selective", "error", "regret", or a custom `Risk`.
        alphas: risk levels, each in (0, 1).
        delta: the probability with which the guarantee may fail.
        promise: which statement holds with probability 1 - delta.
        samples: samples per question; several are simulated from each problem's rollouts.
        vote: how several samples are merged, "confidence" or "majority".
        draws: simulations of several samples per problem; by default as many as its rollouts allow
            without using one twice.
        p_value: the test; "auto" is the exact binomial for losses of 0 or 1, otherwise betting.
        method: which policies are tested, and in what structure (`Method`).
        family: your own policies and structure, fixed before looking at the labels of `traces`.
            Then `method` and `grid` have no effect, and `order` is noted as the data it was learned
            on.
        grid: the policies that a learned or unordered method chooses from.
        order: labelled problems on which the order of the policies is learned; the test does not
            use them. Without them, the method "split" sets aside a part of `traces`.
        token_price: for a risk that may abstain: the share of right answers that a full budget of
            tokens is worth. Served is the certified policy with the most right answers, less this
            price times its share of the full budget's tokens. For other risks it is the one with
            the fewest tokens.
        average: what counts the same in the risk, "problems" or "groups". Over problems, a group
            counts by its size.
        max_group_size: the most problems that a group can have, declared before any label is seen.
            Required over problems, where groups differ in size; see `Groups`.
        created: ISO date to note in the certificate.
        bounds: other risks to bound under the same delta, "declined", "wrong" or "lost". A share
            is a limit: no policy is served that is not shown to keep it. None only bounds the risk
            of the policies that are served.
        next_questions: of how many next questions to say how many go wrong at most.

    Raises:
        CalibrationError: there are fewer problems than any level needs, a problem has fewer
            rollouts than samples, splits share problems or differ in fingerprint, or an argument is
            out of range.
    """
    request = DesignRequest.of(
        risk=risk, alphas=alphas, delta=delta, promise=promise, samples=samples, vote=vote,
        draws=draws, method=method, grid=grid, token_price=token_price, average=average,
        max_group_size=max_group_size,
    )  # fmt: skip
    joint = requested(delta, request.risk, bounds or {}, next_questions)
    request = replace(request, delta=levels_delta(delta, joint))
    traces, order = traces.passing(), order and order.passing()
    groups = request.groups_of(traces)
    if family is None and order is None:
        order, traces = split_traces(request.method, request.risk, traces)
    if order is not None:
        check_splits(order, traces)
    _check_size(traces, request.alphas, request.level_delta)
    design = request.design(traces, traces.n_units, order, groups=groups, family=family)
    return fit_design(design, traces, request.risk, p_value, token_price, created, joint=joint)


def fit_design(
    design: Design,
    traces: Traces,
    risk: Risk,
    p_value: PValue | str,
    token_price: float,
    created: str | None,
    sequential: Batches | None = None,
    joint: Joint | None = None,
) -> Certificate:
    """The certificate that the tests of a design give.

    Args:
        design: fixed before looking at the labels of `traces`.
        traces: the problems of the test.
        risk: the risk of the design.
        p_value: see `certify`.
        token_price: see `certify`.
        created: see `certify`.
        sequential: the batches in which the problems came, for an anytime test.
        joint: what shall hold jointly with the levels; the design has their part of delta.

    Raises:
        CalibrationError: see `certify`.
    """
    family, groups = design.tested, design.groups
    if sequential is not None:
        traces = sequential.numbered(traces)
    measured = design.measure(traces, risk)
    if sequential is not None:
        measured = replace(measured, losses=sequential.in_order(measured.losses, traces))
    kind = default_p_value(measured, risk, groups)
    if p_value != "auto":
        kind = _chosen(parse_choice("p_value", PValue, p_value, "auto"), kind, sequential)
    seed = traces.seed
    tested = certify_policies(
        measured.losses, family, design.alphas, design.delta, design.promise, kind, seed
    )
    sides = None
    if joint is not None:
        how = family.policies, design.procedure, groups, seed
        sides = SideRisks.measured(joint, traces, *how)
    fit = _Fit(
        family, measured, tested, kind, seed, design.delta,
        level_delta=delta_per_level(design.delta, design.alphas, design.promise),
        token_price=None if risk.answers_always else token_price,
        groups=groups,
        sides=sides,
    )  # fmt: skip
    served = tuple(fit.served(level) for level in range(len(design.alphas)))
    levels = tuple(
        _infeasible(fit, level, alpha) if policy is None else _certified(fit, level, alpha, policy)
        for level, (alpha, policy) in enumerate(zip(design.alphas, served, strict=True))
    )
    if sides is not None:
        joint = sides.at(served, design.alphas, design.promise)
    whole = design.delta if joint is None else joint.delta
    return Certificate(
        risk=design.risk,
        delta=design.delta,
        promise=design.promise,
        procedure=design.procedure,
        method=_method(family, kind),
        p_value=kind,
        tested=family,
        levels=levels,
        n_problems=traces.n_problems,
        n_units=measured.losses.n_units,
        n_rollouts=traces.n_rollouts,
        n_order_problems=design.n_order_problems,
        smallest_certifiable_alpha=_smallest_certifiable(fit, levels),
        covers=covers(
            risk,
            whole,
            design.promise,
            kind,
            groups=groups,
            gated=traces.is_gated,
            joint=joint,
            label_share=design.label_share,
        ),
        does_not_cover=does_not_cover(
            risk,
            groups=groups,
            gated=traces.is_gated,
            sequential=sequential is not None,
            label_share=design.label_share,
        ),
        fingerprint=design.fingerprint,
        calibration_digest=traces.digest,
        order_digest=design.order_digest,
        created=created,
        groups=groups,
        sequential=sequential,
        ordered_by=CONTENT,
        joint=joint,
        label_share=design.label_share,
    )


def default_p_value(measured: Replay, risk: Risk, groups: Groups | None = None) -> PValue:
    """The exact binomial if a unit is one draw of a loss of 0 or 1, otherwise betting.

    This depends on how losses arise, not on their values: averages that happen to be 0 or 1 in one
    sample are not binomial.
    """
    one_draw = groups is None and measured.n_draws == measured.losses.n_units
    return PValue.BINOMIAL if one_draw and risk.binary else PValue.BETTING


def _chosen(kind: PValue, default: PValue, sequential: Batches | None) -> PValue:
    if (kind is PValue.ANYTIME) != (sequential is not None):
        raise CalibrationError(
            f"the p-value is {kind.value!r}: the anytime test is that of sequential certificates, "
            "and theirs alone; choose between `--sequential` and another p-value"
        )
    if kind is PValue.BINOMIAL and default is not PValue.BINOMIAL:
        raise CalibrationError(
            "the p-value is 'binomial', but losses are averages (several rollouts, draws or "
            "problems per unit) or not 0 or 1: use 'betting', or record one rollout per problem"
        )
    return kind


@dataclass(frozen=True, slots=True, eq=False)
class Tested:
    """P-values and verdicts: risk levels (L, by rising alpha) x policies (T)."""

    p_LT: NDArray[np.float64]
    certified_LT: NDArray[np.bool_]


def certify_policies(
    losses: Losses,
    family: Family,
    alphas: Sequence[float],
    delta: float,
    promise: Promise,
    kind: PValue,
    seed: int = 0,
) -> Tested:
    """Which policies of a family are certified at which alpha.

    The probability that any certified policy has a risk above its alpha is at most delta: over all
    levels (simultaneous), or at each level (pointwise). This holds for any dependence between the
    policies. It does not cover a family that was chosen by the labels behind `losses`.

    Args:
        losses: losses of the family's policies, in its order.
        family: the policies and the structure of the tests.
        alphas: risk levels, rising.
        delta: the probability with which the guarantee may fail.
        promise: simultaneous or pointwise.
        kind: the test.
        seed: shuffles the units for the betting test: `Traces.seed`.
    """
    _check_weights(family, len(alphas))
    target_LT = np.empty((len(alphas), losses.n_policies))
    target_LT.T[:] = [
        target_level(family, level, alphas, delta, promise) for level in range(len(alphas))
    ]
    p_LT = p_value_table(losses, alphas, kind, seed, target_LT)
    certified_LT = _rejected(_evidence(p_LT, losses, alphas), family, alphas, delta, promise)
    # By implication from a smaller alpha, a level may inherit a policy that its own data question.
    return Tested(p_LT, certified_LT & (p_LT <= delta))


def _evidence(
    p_LT: NDArray[np.float64], losses: Losses, alphas: Sequence[float]
) -> NDArray[np.float64]:
    """The p-values to test with: 1 where the risk on these very problems is not below alpha.

    A betting test takes the wealth at its peak, and may reject although the losses that came later
    are against it. A larger p-value is as valid.
    """
    return np.where(losses.risk_T < np.asarray(alphas)[:, None], p_LT, 1.0)


def _rejected(
    p_LT: NDArray[np.float64],
    family: Family,
    alphas: Sequence[float],
    delta: float,
    promise: Promise,
) -> NDArray[np.bool_]:
    """Which policies pass at which level, by the structure of the family."""
    if family.correction is Correction.GRAPH:
        if family.weights_LT is None or family.graph is None:
            raise CalibrationError(
                "a family tested by a graph needs weights and a graph: give both"
            )
        return certify_levels(
            p_LT, np.array(alphas), np.array(family.weights_LT), family.graph, delta, promise
        )
    correct = bonferroni if family.correction is Correction.BONFERRONI else holm
    if promise is Promise.SIMULTANEOUS:
        certified_LT = correct(p_LT.ravel(), delta).reshape(p_LT.shape)
        # A risk of at most alpha is also at most any larger alpha.
        return np.logical_or.accumulate(certified_LT, axis=0)
    return np.stack([correct(p_T, delta) for p_T in p_LT])


def target_level(
    family: Family, level: int, alphas: Sequence[float], delta: float, promise: Promise
) -> float:
    """The share of delta of a level's first test; betting tests have the most power there."""
    _, share = family.first(level)
    return share * delta_per_level(delta, alphas, promise)


def explaining_policy(family: Family, tested: Tested, level: int) -> int:
    """The policy that explains an infeasible level: the first, or without order the closest."""
    if family.correction is Correction.GRAPH:
        first, _ = family.first(level)
        return first
    return int(tested.p_LT[level].argmin())


@dataclass(frozen=True, slots=True, eq=False)
class _Fit:
    """The data from which the levels are written."""

    family: Family
    measured: Replay
    tested: Tested
    kind: PValue
    seed: int
    delta: float
    level_delta: float
    token_price: float | None
    groups: Groups | None
    sides: SideRisks | None = None

    def served(self, level: int) -> int | None:
        """The policy to serve at a level; None if no certified one keeps all limits."""
        certified_T = self.tested.certified_LT[level]
        if self.sides is not None:
            certified_T = certified_T & self.sides.allowed_T
        return choose_certified(self.measured, certified_T, self.token_price)

    @property
    def counted(self) -> str:
        """What a weight of 1 stands for."""
        if self.groups is None:
            return "problems"
        if self.groups.by_size:
            return f"groups of full size ({self.groups.max_size} problems)"
        return "groups"

    @property
    def full_weight(self) -> float:
        """The total weight if every question counts."""
        n_units, groups = self.measured.losses.n_units, self.groups
        return groups.full_weight(self.measured.n_problems, n_units) if groups else float(n_units)


def _certified(fit: _Fit, level: int, alpha: float, chosen: int) -> CertifiedLevel:
    losses, p_T = fit.measured.losses, fit.tested.p_LT[level]
    # Bonferroni over the tested policies, which were fixed before: the bounds hold simultaneously.
    (upper,) = upper_bounds(
        losses.select(np.array([chosen])), fit.delta / losses.n_policies, fit.kind, fit.seed
    )
    return CertifiedLevel(
        alpha=alpha,
        policy=fit.family.policies[chosen],
        p_value=float(p_T[chosen]),
        risk=float(losses.risk_T[chosen]),
        risk_upper=max(float(upper), float(losses.risk_T[chosen])),
        total_weight=float(losses.total_weight_T[chosen]),
        total_loss=float(losses.total_loss_T[chosen]),
        share_answered=float(fit.measured.answered_T[chosen]),
        share_right=float(fit.measured.right_T[chosen]),
        expected_tokens=float(fit.measured.tokens_T[chosen]),
        full_budget_tokens=fit.measured.full_tokens,
    )


def _infeasible(fit: _Fit, level: int, alpha: float) -> InfeasibleLevel:
    shown = explaining_policy(fit.family, fit.tested, level)
    losses = fit.measured.losses.select(np.array([shown]))
    _, share = fit.family.first(level)
    level_delta = share * fit.level_delta
    p_value = float(fit.tested.p_LT[level, shown])
    weight, loss = float(losses.total_weight_T[0]), float(losses.total_loss_T[0])
    without_loss = replace(losses, loss_UT=np.zeros_like(losses.loss_UT))
    (best,) = p_values(without_loss, alpha, fit.kind, fit.seed, level_delta)
    # Where labels are drawn, what bets can win depends on which units have one.
    needed = 0 if losses.drawn is not None else fewest_units(alpha, level_delta, fit.kind)
    ordered = fit.family.correction is Correction.GRAPH
    policy = "the policy tested first" if ordered else "the policy with the smallest p-value"
    n_too_small = bool(best > level_delta or loss < alpha * weight)
    if weight == 0:
        # More problems only help if answering more of them would keep the risk.
        n_too_small = 1 - fit.measured.full_right < alpha
        why = (
            f"{policy} answers none of {fit.measured.n_problems} calibration problems, because no "
            "confidence reaches its thresholds"
        )
    elif best > level_delta and weight < needed:
        why = (
            f"{policy} is measured on {weight:.5g} of {fit.full_weight:.5g} calibration "
            f"{fit.counted}, with a total loss of {loss:.5g}; alpha = {alpha:g} needs at least "
            f"{needed} even if no answer is wrong"
        )
    elif p_value <= level_delta:
        # Bets were won on the first units and lost again on the others.
        why = (
            f"{policy} has a total loss of {loss:.5g} on {weight:.5g} {fit.counted}: the share "
            f"{loss / weight:.3g} is not below alpha = {alpha:g}"
        )
    else:
        why = (
            f"{policy} has a total loss of {loss:.5g} on {weight:.5g} {fit.counted}; its p-value "
            f"is {p_value:.3g} and must be at most {level_delta:.3g}"
        )
    if n_too_small:
        reason = f"too few problems: {why}; record more problems"
    else:
        reason = f"risk too high: {why}; choose a larger alpha, or use a better model or probe"
    certified_T = fit.tested.certified_LT[level]
    if fit.sides is not None and certified_T.any():
        n_too_small, why = fit.sides.why_none(certified_T)
        remedy = "record more problems" if n_too_small else "choose a larger alpha or limit"
        reason = f"{'too few problems' if n_too_small else 'limit too low'}: {why}; {remedy}"
    return InfeasibleLevel(
        alpha=alpha,
        n_too_small=n_too_small,
        reason=reason,
        p_value=p_value,
        total_weight=weight,
        total_loss=loss,
    )


def _smallest_certifiable(fit: _Fit, levels: Sequence[Level]) -> float:
    def of_first(number: int, level: Level) -> float:
        first, share = fit.family.first(number)
        if fit.sides is not None and not fit.sides.allowed_T[first]:
            return 1.0
        losses = fit.measured.losses.select(np.array([first]))
        refused = 0.0 if level.certified else level.alpha
        (alpha,) = smallest_certifiable(
            losses, share * fit.level_delta, fit.kind, fit.seed, above=refused
        )
        return float(alpha)

    certified = [level.alpha for level in levels if level.certified]
    return min(certified + [of_first(*one) for one in enumerate(levels)])


def _method(family: Family, kind: PValue) -> str:
    test = {
        PValue.BINOMIAL: "exact binomial tests (for `selective`, given the questions answered)",
        PValue.BETTING: "betting tests (arXiv 2010.09686)",
        PValue.ANYTIME: "betting tests that are valid at all times (arXiv 2009.03167)",
        PValue.HOEFFDING_BENTKUS: "Hoeffding-Bentkus tests (arXiv 2110.01052)",
        PValue.CLT: "normal approximations (asymptotic: valid only in the limit of many problems)",
    }[kind]
    return f"Learn-then-Test: {test}; {family.source}"


def _check_size(traces: Traces, alphas: Sequence[float], level_delta: float) -> None:
    needed = fewest_problems(max(alphas), level_delta)
    if traces.n_units < needed:
        raise CalibrationError(
            f"{traces.n_units} problems or groups to test on: alpha = {max(alphas):g}, tested at "
            f"level {level_delta:.3g}, needs at least {needed} even if no answer is wrong (alpha = "
            f"{min(alphas):g} needs {fewest_problems(min(alphas), level_delta)}); record more "
            "problems"
        )


def _check_weights(family: Family, n_levels: int) -> None:
    """Checks only the number of weights; their values are checked where they are used."""
    if family.weights_LT is None:
        return
    lengths = [len(weights_T) for weights_T in family.weights_LT]
    if lengths != [len(family.policies)] * n_levels:
        raise CalibrationError(
            f"the family has rows of {lengths} weights for {n_levels} alphas and "
            f"{len(family.policies)} policies: give one row per alpha, by rising alpha, with one "
            "weight per policy"
        )


def check_splits(order: Traces, calibration: Traces) -> None:
    """Refuse splits of different recordings, or that share problems.

    Raises:
        CalibrationError: the message says which.
    """
    here, there = calibration.fingerprint, order.fingerprint
    if (here is None) != (there is None):
        raise CalibrationError(
            "one split has a fingerprint and the other has none, so they cannot be compared: "
            "record both with `rlcm collect`"
        )
    if here and there and (differences := here.differences(there)):
        raise CalibrationError(
            "the splits have different fingerprints (calibration here, order "
            f"there): {'; '.join(differences)}. Record both with the same model and settings"
        )
    if shared := sorted(_names(order) & _names(calibration)):
        raise CalibrationError(
            f"{len(shared)} problems or groups are in both splits, {shared[0]!r} among them: the "
            "problems that give the order must not be tested on; split with Traces.split"
        )


def _names(traces: Traces) -> set[str]:
    """Units and all problem ids, because the other split may lack the groups."""
    return {*traces.units, *(f"problem {problem_id}" for problem_id in traces.problem_ids)}
