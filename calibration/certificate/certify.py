"""Learn-then-Test (arXiv 2110.01052): from recorded rollouts to a certificate."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from calibration.certificate.batches import Batches
from calibration.certificate.certificate import CONTENT, Certificate
from calibration.certificate.design import Design
from calibration.certificate.fitting.levels import Fit, level_of, method_of, smallest_alpha
from calibration.certificate.fitting.request import ALPHAS, DELTA, DesignRequest, parse_choice
from calibration.certificate.fitting.tested import certify_policies
from calibration.certificate.wording import covers, does_not_cover
from calibration.errors import CalibrationError
from calibration.simulation.groups import Average, Groups
from calibration.simulation.replay import Replay
from calibration.simulation.risks import SELECTIVE, Risk
from calibration.testing.families import Family, Grid
from calibration.testing.fwer import Promise, delta_per_level
from calibration.testing.joint import Joint, levels_delta, requested
from calibration.testing.learned_path import TOKEN_PRICE
from calibration.testing.methods import Method, split_traces
from calibration.testing.p_values import PValue
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
    joint = requested(delta, request.risk, bounds or {}, next_questions, average)
    request = replace(request, delta=levels_delta(delta, joint))
    traces, order = traces.passing(), order and order.passing()
    for labelled in (traces, order):
        if labelled is not None:
            labelled.require_labels()
    groups = request.groups_of(traces)
    if family is None and order is None:
        order, traces = split_traces(request.method, request.risk, traces, request.needed)
    if order is not None:
        check_splits(order, traces)
    _check_size(traces, request)
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
    fit = Fit(
        family, measured, tested, kind, seed, design.delta,
        level_delta=delta_per_level(design.delta, design.alphas, design.promise),
        token_price=None if risk.answers_always else token_price,
        groups=groups,
        sides=sides,
    )  # fmt: skip
    served = tuple(fit.served(level) for level in range(len(design.alphas)))
    levels = tuple(
        level_of(fit, level, alpha, policy)
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
        method=method_of(family, kind),
        p_value=kind,
        tested=family,
        levels=levels,
        n_problems=traces.n_problems,
        n_units=measured.losses.n_units,
        n_rollouts=traces.n_rollouts,
        n_order_problems=design.n_order_problems,
        smallest_certifiable_alpha=smallest_alpha(fit, levels),
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
    if kind is PValue.ANYTIME and sequential is None:
        raise CalibrationError(
            "the p-value is 'anytime', which only sequential certificates use: make one with "
            "`--sequential`, or choose another p-value"
        )
    if kind is PValue.BINOMIAL and default is not PValue.BINOMIAL:
        raise CalibrationError(
            "the p-value is 'binomial', but losses are averages (several rollouts, draws or "
            "problems per unit) or not 0 or 1: use 'betting', or record one rollout per problem"
        )
    return kind


def _check_size(traces: Traces, request: DesignRequest) -> None:
    """Raises CalibrationError if no level could be certified, if no answer is wrong."""
    small, large = request.alphas[0], request.alphas[-1]
    if traces.n_units < request.needed:
        raise CalibrationError(
            f"{traces.n_units} problems or groups to test on: alpha = {large:g}, tested at level "
            f"{request.level_delta:.3g}, needs at least {request.needed} even if no answer "
            f"is wrong (alpha = {small:g} needs at least {request.fewest[small]}); record more "
            "problems"
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
    if shared := sorted(names_of(order) & names_of(calibration)):
        raise CalibrationError(
            f"{len(shared)} problems or groups are in both splits, {shared[0]!r} among them: the "
            "problems that give the order must not be tested on; take other problems for the order"
        )


def names_of(traces: Traces) -> set[str]:
    """Units and all problem ids, because the other split may lack the groups."""
    return {*traces.units, *(f"problem {problem_id}" for problem_id in traces.problem_ids)}
