"""Learn-then-Test (arXiv 2110.01052), start to finish: from recorded reasoning to a certificate."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibration.certificate import Certificate, CertifiedLevel, InfeasibleLevel, Level
from calibration.errors import CalibrationError
from calibration.exit_rule import FULL_BUDGET, ExitPolicy
from calibration.fwer import Promise, delta_per_level, fixed_sequence
from calibration.path import SLACK, choose, lay_path, policy_grid
from calibration.pvalues import (
    binomial_p_values,
    clopper_pearson_upper,
    fewest_problems,
    require_rate,
)
from calibration.replay import Replay, replay
from calibration.traces import Traces

METHOD = (
    "Learn-then-Test: exact binomial tests given the problems answered, in a fixed sequence along "
    "one path of policies that was laid out on other problems"
)
DOES_NOT_COVER = (
    "problems drawn from elsewhere than the calibration problems",
    "a changed prompt, chat template, model, probe, sampling, budget, number of samples or grader",
    "conversations of several turns",
    "a single question, or a kind of question: the risk is an average over all questions answered",
    "questions the service declines to answer",
)


def certify(
    *,
    order: Traces,
    calibration: Traces,
    alphas: Sequence[float],
    delta: float = 0.1,
    promise: Promise = Promise.SIMULTANEOUS,
    policies: Sequence[ExitPolicy] | None = None,
    slack: float = SLACK,
    created: str | None = None,
) -> Certificate:
    """Certify, for each alpha, an exit policy that answers at most a share alpha wrong.

    The risk is `selective`: of the questions answered, the share answered wrong. With probability
    at least 1 - delta over the draw of the calibration problems, every certified policy keeps its
    alpha on new problems drawn like them: at all levels at once (simultaneous), or at each level
    alone (pointwise). It needs the calibration problems to be independent draws with one rollout
    each. It does not cover other problems, prompts or engines, nor any single question.

    Args:
        order: problems on which the path of policies is laid out; used for no test.
        calibration: other problems, on which it is tested.
        alphas: risk levels, each in (0, 1).
        delta: probability with which the promise may fail.
        promise: what holds with probability 1 - delta.
        policies: candidates; by default `policy_grid` of the fingerprint.
        slack: among the certified, tokens are saved as long as the share answered and right stays
            within this of the best.
        created: ISO date to note in the certificate.

    Raises:
        CalibrationError: the splits share problems or groups, were recorded under different
            fingerprints, do not have one rollout per independent calibration problem, or an
            argument is out of range.
    """
    alphas = _check_alphas(alphas)
    require_rate("delta", delta)
    _check_splits(order, calibration)
    fingerprint = calibration.fingerprint
    if policies is None:
        policies = policy_grid(fingerprint.checkpoint_interval, fingerprint.max_tokens)
    if not policies:
        raise CalibrationError("policies is empty: give at least one candidate, or leave it out")

    level_delta = delta_per_level(delta, alphas, promise)
    path = [policies[t] for t in lay_path(replay(order, policies), level_delta, slack)]
    measured = _measure(replay(calibration, [*path, FULL_BUDGET]), path, delta)
    first_bound = clopper_pearson_upper(measured.wrong_T[0], measured.answered_T[0], level_delta)
    return Certificate(
        risk="selective",
        delta=delta,
        promise=promise,
        method=METHOD,
        levels=tuple(_test_level(alpha, measured, level_delta, slack) for alpha in alphas),
        n_problems=calibration.n_problems,
        n_order_problems=order.n_problems,
        n_policies=len(path),
        smallest_certifiable_alpha=float(first_bound),
        covers=_covers(delta, promise),
        does_not_cover=DOES_NOT_COVER,
        fingerprint=fingerprint,
        calibration_digest=calibration.digest,
        order_digest=order.digest,
        created=created,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Measured:
    """The policies (T) of the path on the calibration problems."""

    path: Sequence[ExitPolicy]
    n_problems: int
    answered_T: NDArray[np.int64]
    wrong_T: NDArray[np.int64]
    risk_T: NDArray[np.float64]
    risk_upper_T: NDArray[np.float64]
    share_right_T: NDArray[np.float64]
    tokens_T: NDArray[np.float64]
    full_budget_tokens: float


def _measure(outcomes: Replay, path: Sequence[ExitPolicy], delta: float) -> _Measured:
    """Counts along the path; the last policy replayed is the full-budget one, for comparison."""
    answered_T = outcomes.answered_PT[:, :-1].sum(axis=0).astype(np.int64)
    wrong_T = outcomes.wrong_PT[:, :-1].sum(axis=0).astype(np.int64)
    tokens_T = outcomes.tokens_PT.mean(axis=0)
    return _Measured(
        path=path,
        n_problems=outcomes.n_problems,
        answered_T=answered_T,
        wrong_T=wrong_T,
        # Where nothing was answered there is no risk; 1 keeps such a policy last in a tie.
        risk_T=np.where(answered_T > 0, wrong_T / np.maximum(answered_T, 1), 1.0),
        # Bonferroni over the path, which was fixed before: these bounds hold for all policies at
        # once.
        risk_upper_T=clopper_pearson_upper(wrong_T, answered_T, delta / len(path)),
        share_right_T=(answered_T - wrong_T) / outcomes.n_problems,
        tokens_T=tokens_T[:-1],
        full_budget_tokens=float(tokens_T[-1]),
    )


def _test_level(alpha: float, measured: _Measured, level_delta: float, slack: float) -> Level:
    p_value_T = binomial_p_values(measured.wrong_T, measured.answered_T, alpha)
    certified_T = np.flatnonzero(fixed_sequence(p_value_T, level_delta))
    if not certified_T.size:
        answered, wrong = int(measured.answered_T[0]), int(measured.wrong_T[0])
        p_value = float(p_value_T[0])
        return InfeasibleLevel(
            alpha=alpha,
            reason=_why_infeasible(
                alpha, measured.n_problems, answered, wrong, p_value, level_delta
            ),
            p_value=p_value,
            n_answered=answered,
            n_wrong=wrong,
        )
    chosen = choose(
        measured.share_right_T[certified_T],
        measured.tokens_T[certified_T],
        measured.risk_T[certified_T],
        slack,
    )
    return CertifiedLevel(
        alpha=alpha,
        policy=measured.path[chosen],
        p_value=float(p_value_T[chosen]),
        n_answered=int(measured.answered_T[chosen]),
        n_wrong=int(measured.wrong_T[chosen]),
        risk=float(measured.risk_T[chosen]),
        risk_upper=float(measured.risk_upper_T[chosen]),
        share_answered=float(measured.answered_T[chosen] / measured.n_problems),
        share_right=float(measured.share_right_T[chosen]),
        expected_tokens=float(measured.tokens_T[chosen]),
        full_budget_tokens=measured.full_budget_tokens,
    )


def _why_infeasible(
    alpha: float, n_problems: int, answered: int, wrong: int, p_value: float, level_delta: float
) -> str:
    needed = fewest_problems(alpha, level_delta)
    if answered < needed:
        return (
            f"n too small: the safest policy answers {answered} of {n_problems} calibration "
            f"problems, and alpha = {alpha:g} takes {needed} answers even if none is wrong; record "
            "more problems"
        )
    found = (
        f"the safest policy answers {wrong} of {answered} wrong, p = {p_value:.3g} where "
        f"{level_delta:.3g} is needed"
    )
    if wrong < alpha * answered:
        return f"n too small: {found}; the risk may well be below alpha, record more problems"
    return f"risk too high: {found}; choose a larger alpha, or a better model or probe"


def _check_alphas(alphas: Sequence[float]) -> tuple[float, ...]:
    if not alphas or len(set(alphas)) < len(alphas):
        raise CalibrationError(f"alphas are {list(alphas)}: give at least one, none twice")
    for alpha in alphas:
        require_rate("alpha", alpha)
    return tuple(sorted(alphas))


def _check_splits(order: Traces, calibration: Traces) -> None:
    if differences := calibration.fingerprint.differences(order.fingerprint):
        raise CalibrationError(
            "the splits were recorded under different fingerprints (calibration here, order "
            f"there): {'; '.join(differences)}"
        )
    if shared := sorted(set(order.units) & set(calibration.units)):
        raise CalibrationError(
            f"{len(shared)} problems or groups are in both splits, {shared[0]!r} among them: the "
            "problems that lay out the path must not test it; split with Traces.split"
        )
    if calibration.fingerprint.samples != 1:
        raise CalibrationError(
            f"the fingerprint says {calibration.fingerprint.samples} samples per question: this "
            "release certifies one; record with samples = 1"
        )
    if (rollouts_P := calibration.rollouts_P).max() > 1:
        at = int(rollouts_P.argmax())
        raise CalibrationError(
            f"problem {calibration.problem_ids[at]!r} has {rollouts_P[at]} rollouts: the binomial "
            "test takes one per problem, more are not independent; record one rollout per problem"
        )
    if len(set(calibration.units)) < calibration.n_problems:
        raise CalibrationError(
            f"{calibration.n_problems} calibration problems lie in {len(set(calibration.units))} "
            "groups: the binomial test takes independent problems; keep one problem per group"
        )


def _covers(delta: float, promise: Promise) -> str:
    together = (
        "all certified levels at once, so alpha may be chosen after looking"
        if promise is Promise.SIMULTANEOUS
        else "each level alone, so alpha must be chosen before looking"
    )
    return (
        f"With probability at least {1 - delta:g} over the draw of the calibration problems: of "
        "the questions that a certified policy answers, at most a share alpha is answered wrong, "
        "on average over new problems drawn like the calibration problems and solved by the very "
        f"procedure of the fingerprint. This holds for {together}."
    )
