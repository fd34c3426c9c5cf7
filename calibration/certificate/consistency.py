"""What a certificate must satisfy by its own figures, whoever wrote it.

A digest can be computed by anybody. So every certificate that is loaded is also checked for what
must hold among its fields: the p-value of a certified level is at most the share of delta that its
test can have had, the risk is below alpha, totals and shares agree with the counts, the policy is
one of the tested, and the texts are those of these figures. Where the test depends on nothing but
the totals (binomial, Hoeffding-Bentkus), p-value and upper bound are computed again.

What this cannot see, because it takes the traces:

- Figures that were invented together and agree with each other, such as fewer wrong answers with
  all that follows from them.
- With labels of a share of the problems: shares, and how many had which label.
- With a betting test: an alpha that is lower, but still above the risk, and a p-value or an upper
  bound that is lower, but not lower than any bets on these totals could reach. These depend on the
  loss of every unit.
- A policy that did not pass in the place of the served one, and whether those tested before it
  passed.
- A kind that takes the share of delta of other kinds.
- A bound on `lost`, and with another test than the binomial those on `declined` and `wrong`.
- An order that was learned on some of the problems of the test.
- Tokens, digests and the fingerprint.

Against these, recompute the certificate from its traces (`calibration.certificate.verify`), or
trust the signature of whoever did. Neither this nor the traces tell how the tested policies were
chosen, so the texts `method`, `tested.source` and `reason` are the word of whoever fitted it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from calibration.certificate.levels import CertifiedLevel, Level
from calibration.certificate.wording import (
    ASKED_AGAIN,
    covers,
    covers_before,
    does_not_cover,
    former_covers,
    former_does_not_cover,
)
from calibration.errors import CalibrationError, CertificateError
from calibration.simulation.risks import ERROR, REGRET, RISKS, SELECTIVE, Risk
from calibration.testing.betting import smallest_betting_p_value
from calibration.testing.families import Correction
from calibration.testing.fwer import Promise, delta_per_level
from calibration.testing.joint import Joint, SideBound, next_delta, next_most
from calibration.testing.p_values import (
    PValue,
    clopper_pearson_upper,
    p_value_of_totals,
    upper_bound_of_totals,
)

if TYPE_CHECKING:
    from calibration.certificate.certificate import Certificate
    from calibration.certificate.kinds import Kind

_ROUNDING = 1e-9
"""Relative tolerance for a sum of floating-point numbers."""
_RECOMPUTED = 1e-6
"""Relative tolerance for a p-value or bound: libraries differ in their last digits."""
_GRID_STEP = 0.011
"""Relative tolerance for a bound on the grid of `upper_bounds`: one step of it."""
_MOST = 2**53
"""Whole numbers up to here are exact as floating-point numbers."""


def require_consistent(certificate: Certificate) -> None:
    """Refuse a certificate whose fields contradict each other.

    It returns for every certificate that `certify` writes. See the module for what it cannot see.

    Raises:
        CertificateError: the message names the field, its value and what it had to be.
    """
    _check_counts(certificate)
    _check_tested(certificate)
    _check_texts(certificate)
    tested = frozenset(certificate.tested.policies)
    for number, (level, most) in enumerate(
        zip(certificate.levels, _largest_p_values(certificate), strict=True)
    ):
        _check_evidence(certificate, level, f"levels[{number}]")
        if isinstance(level, CertifiedLevel):
            listed = level.policy in tested
            _require(listed, f"levels[{number}].policy", level.policy, "one of tested.policies")
            _check_certified(certificate, level, f"levels[{number}]", most)
    _check_between_levels(certificate)
    _check_smallest_alpha(certificate)
    if certificate.joint is not None:
        _check_joint(certificate, certificate.joint)


def _check_counts(made: Certificate) -> None:
    _require(_is_number(made.delta) and 0 < made.delta < 1, "delta", made.delta, "between 0 and 1")
    samples = made.procedure.samples
    _require_count("procedure.samples", samples, 1)
    if made.procedure.draws is not None:
        _require_count("procedure.draws", made.procedure.draws, 1)
    _require_count("n_units", made.n_units, 1)
    _require_count("n_problems", made.n_problems, made.n_units, "n_units")
    per_problem = "n_problems x procedure.samples"
    _require_count("n_rollouts", made.n_rollouts, made.n_problems * samples, per_problem)
    _require_count("n_order_problems", made.n_order_problems, 0)
    _require(
        (made.order_digest is None) == (made.n_order_problems == 0),
        "order_digest",
        made.order_digest,
        f"null exactly if n_order_problems is 0, and that is {made.n_order_problems}",
    )
    rule = "another one than calibration_digest: an order is learned on other problems"
    other = made.order_digest != made.calibration_digest
    _require(other, "order_digest", made.order_digest, rule)
    if made.fingerprint is not None:
        for name in ("samples", "vote"):
            certified = getattr(made.procedure, name)
            found = getattr(made.fingerprint, name)
            rule = f"that of the procedure, {certified!r}"
            _require(found == certified, f"fingerprint.{name}", found, rule)
    _check_groups(made)
    _check_batches(made)
    if made.joint is not None:
        _check_joint_delta(made, made.joint)
    if made.kind is not None:
        _check_kind(made, made.kind)


def _check_batches(made: Certificate) -> None:
    """Batches add up to the counts, and belong to the design that the certificate shows."""
    anytime, batches = made.p_value is PValue.ANYTIME, made.sequential
    rule = "one with batches exactly if p_value is 'anytime'"
    _require((batches is not None) == anytime, "sequential", batches and batches.design, rule)
    share, rule = made.label_share, "null where the number of problems was fixed before"
    _require(share is None or anytime, "label_share", share and asdict(share), rule)
    if batches is None:
        return
    for name, counted in (("n_problems", batches.n_problems), ("n_units", batches.n_units)):
        rule = f"that of all batches together, {counted}"
        _require(getattr(made, name) == counted, name, getattr(made, name), rule)
    units = [unit for batch in batches.batches for unit in batch.units]
    twice = len(units) - len(set(units))
    _require(not twice, "sequential.batches", f"{twice} units twice", "disjoint batches")
    digest = made.design.digest
    rule = f"{digest!r}, which follows from risk, levels, tests and fingerprint"
    _require(batches.design == digest, "sequential.design", batches.design, rule)


def _check_kind(made: Certificate, kind: Kind) -> None:
    """Its delta is its share of that of all kinds, and no kind is listed twice."""
    names = [*kind.certified, *kind.pooled]
    for field in ("certified", "pooled"):
        listed = list(getattr(kind, field))
        rule = "names of kinds in order, each in one list and once"
        named = all(isinstance(name, str) for name in names)
        once = named and listed == sorted(set(listed)) and len(set(names)) == len(names)
        _require(once, field, listed, rule)
    inside = _is_number(kind.delta) and 0 < kind.delta < 1
    _require(inside, "kind.delta", kind.delta, "between 0 and 1")
    rule = f"the share of kind.delta that the certificate has, {kind.own_delta:g}"
    delta = made.delta if made.joint is None else made.joint.delta
    _require(_close(delta, kind.own_delta), "delta", delta, rule)


def _check_joint_delta(made: Certificate, joint: Joint) -> None:
    """Delta is divided as stated."""
    inside = _is_number(joint.delta) and 0 < joint.delta < 1
    _require(inside, "joint.delta", joint.delta, "between 0 and 1")
    rule = f"the part of joint.delta of the levels, {joint.levels_delta:g}"
    _require(_close(made.delta, joint.levels_delta), "delta", made.delta, rule)


def _check_joint(made: Certificate, joint: Joint) -> None:
    """Every certified level has figures that fit its own, which were checked before."""
    for bound in joint.bounds:
        name = f"joint {bound.risk}"
        _check_per_level(made, name, bound.bounds)
        for level, upper in zip(made.levels, bound.bounds, strict=True):
            if not isinstance(level, CertifiedLevel):
                continue
            share = {
                "declined": 1 - level.share_answered,
                "wrong": level.share_answered - level.share_right,
            }.get(bound.risk)
            _require_number(name, upper, (share or 0.0) * (1 - _ROUNDING), 1)
            if bound.at_most is not None:
                rule = f"the limit, {bound.at_most:g}"
                _require(upper == bound.at_most, name, upper, rule)
            if share is not None and made.p_value is PValue.BINOMIAL:
                _check_side_bound(made, joint, bound, share, upper)
    if joint.next is not None:
        _check_per_level(made, "joint.next", joint.next.most)
        delta = next_delta(joint, made.promise, len(made.levels))
        for level, most in zip(made.levels, joint.next.most, strict=True):
            if most is not None:
                again = next_most(joint.next.questions, level.alpha, delta)
                same = isinstance(most, int) and most == again
                _require(same, "joint.next.most", most, f"{again}, which follows")


def _check_side_bound(
    made: Certificate, joint: Joint, bound: SideBound, share: float, upper: float | None
) -> None:
    """A bound on a share of the questions follows from their number, where each counts 0 or 1."""
    count, n, delta = round(share * made.n_units), made.n_units, joint.statement_delta
    if bound.at_most is None:
        again = float(clopper_pearson_upper(count, n, delta / len(made.tested.policies)))
        rule = f"{again:.6g}, which follows from {count} of {n} questions"
        same = math.isclose(upper or 0, again, rel_tol=_RECOMPUTED)
        _require(same, f"joint {bound.risk}", upper, rule)
        return
    least = float(clopper_pearson_upper(count, n, delta))  # Holm's last hypothesis has all of it
    rule = f"at least {least:.6g}: no test of {count} of {n} questions allows less"
    _require(bound.at_most >= least * (1 - _RECOMPUTED), f"joint {bound.risk}", upper, rule)


def _check_per_level(made: Certificate, field: str, values: Sequence[object]) -> None:
    given = [value is not None for value in values]
    rule = "one value for each level, null exactly where none is certified"
    _require(given == [level.certified for level in made.levels], field, list(values), rule)


def _check_groups(made: Certificate) -> None:
    """Sizes of groups fit the counts, and only single problems take a binomial test."""
    groups, n_problems = made.groups, made.n_problems
    if groups is None:
        rule = f"n_units, {made.n_units}, because no groups are named"
        _require(n_problems == made.n_units, "n_problems", n_problems, rule)
        return
    if groups.by_size:
        _require_count("groups.max_size", groups.max_size, 2)
        largest = made.n_units * (groups.max_size or 1)
        rule = f"at most n_units x groups.max_size, {largest}"
        _require(n_problems <= largest, "n_problems", n_problems, rule)
    binomial = made.p_value is PValue.BINOMIAL
    _require(not binomial, "p_value", made.p_value, "a test of averaged losses: these are groups")


def _full_weight(made: Certificate) -> float:
    """The total weight if every question counts."""
    if made.groups is None:
        return float(made.n_units)
    return made.groups.full_weight(made.n_problems, made.n_units)


def _check_tested(made: Certificate) -> None:
    family, n_levels = made.tested, len(made.levels)
    n_policies = len(family.policies)
    _require(n_policies >= 1, "tested.policies", [], "at least one policy")
    _require(n_levels >= 1, "levels", [], "at least one level")
    alphas = [level.alpha for level in made.levels]
    for alpha in alphas:
        _require(_is_number(alpha) and 0 < alpha < 1, "alpha", alpha, "between 0 and 1")
    _require(alphas == sorted(set(alphas)), "levels", alphas, "levels by rising alpha")
    if made.risk in RISKS:
        try:
            RISKS[made.risk].check_policies(family.policies)
        except CalibrationError as error:
            raise CertificateError(f"tested.policies: {error}") from error
    if family.correction is Correction.GRAPH:
        n_edges = len(family.graph.edges) if family.graph else 0
        _require(n_edges == n_policies, "tested.edges", n_edges, f"{n_policies} lists of edges")
        rows = [len(row) for row in family.weights_LT or ()]
        shape = f"{n_levels} rows of {n_policies} weights"
        _require(rows == [n_policies] * n_levels, "tested.weights", rows, shape)
    else:
        rule = f"null, because the correction is {family.correction.value!r}"
        _require(family.weights_LT is None, "tested.weights", family.weights_LT, rule)
        _require(family.graph is None, "tested.edges", family.graph, rule)
    for row in family.weights_LT or ():
        for weight in row:
            _require(_is_number(weight) and weight >= 0, "tested.weights", weight, "0 or more")
        total = math.fsum(row)
        _require(total <= 1 + _ROUNDING, "tested.weights", total, "at most 1 in sum at each level")


def _check_texts(made: Certificate) -> None:
    """A changed delta or promise, or a wider claim, contradicts the words; see `wording`."""
    if made.risk in RISKS:
        risks = [RISKS[made.risk]]
    else:
        risks = [
            Risk(made.risk, answers_always=always, loss=SELECTIVE.loss) for always in (True, False)
        ]
    gated = made.fingerprint is not None and made.fingerprint.is_gated
    stated = risks[0], made.whole_delta, made.promise, made.p_value
    said = [
        covers(
            *stated,
            groups=made.groups,
            gated=gated,
            of_kind=made.kind,
            joint=made.joint,
            label_share=made.label_share,
        )
    ]
    special = made.groups, made.kind, made.joint, made.label_share
    plain = not gated and all(one is None for one in special)
    if plain:
        said.append(former_covers(*stated))
    said += covers_before(said[0])
    rule = f"the text that belongs to these figures, {said[0]!r}"
    _require(made.covers in said, "covers", made.covers, rule)
    limits = [
        does_not_cover(
            risk,
            groups=made.groups,
            gated=gated,
            sequential=made.sequential is not None,
            of_kind=made.kind,
            label_share=made.label_share,
        )
        for risk in risks
    ]
    if plain:
        limits += [former_does_not_cover(risk) for risk in risks]
    limits += [tuple(one for one in limit if one != ASKED_AGAIN) for limit in limits]
    rule = f"the text that belongs to this risk, {list(limits[0])!r}"
    _require(made.does_not_cover in limits, "does_not_cover", list(made.does_not_cover), rule)


def _check_evidence(made: Certificate, level: Level, name: str) -> None:
    """Totals and p-value of a level, certified or not."""
    loss, weight, full = level.total_loss, level.total_weight, _full_weight(made)
    _require_number(f"{name}.total_weight", weight, 0, full, "that of all questions")
    _require_number(f"{name}.total_loss", loss, 0, weight, "total_weight")
    _require_number(f"{name}.p_value", level.p_value, 0, 1)
    if made.risk in (ERROR.name, REGRET.name):
        rule = f"that of all questions, {full:g}"
        _require(_close(weight, full), f"{name}.total_weight", weight, rule)
    if made.p_value is PValue.BINOMIAL:
        for field, value in (("total_loss", loss), ("total_weight", weight)):
            rule = "a whole number, because the test is the binomial"
            _require(float(value).is_integer(), f"{name}.{field}", value, rule)
    again = p_value_of_totals(loss, weight, made.n_units, level.alpha, made.p_value)
    if again is not None:
        same = math.isclose(level.p_value, again, rel_tol=_RECOMPUTED, abs_tol=1e-300)
        rule = f"{again:.6g}, which follows from total_loss {loss:g} and total_weight {weight:g}"
        _require(same, f"{name}.p_value", level.p_value, rule)
    if _bounded_by_totals(made):
        least = smallest_betting_p_value(loss, weight, made.n_units, level.alpha)
        rule = f"at least {least:.6g}: no bets on total_loss {loss:g} and total_weight {weight:g} "
        rule += "reach less"
        _require(level.p_value >= least * (1 - _RECOMPUTED), f"{name}.p_value", level.p_value, rule)


def _check_certified(made: Certificate, level: CertifiedLevel, name: str, most: float) -> None:
    rule = f"at most {most:.6g}, the largest share of delta that its test can have had"
    _require(level.p_value <= most * (1 + _ROUNDING), f"{name}.p_value", level.p_value, rule)
    _require(level.total_weight > 0, f"{name}.total_weight", level.total_weight, "above 0")
    ratio = level.total_loss / level.total_weight
    rule = f"total_loss / total_weight, {ratio:.6g}"
    _require(_is_number(level.risk) and _close(level.risk, ratio), f"{name}.risk", level.risk, rule)
    _require(level.risk < level.alpha, f"{name}.risk", level.risk, f"below alpha, {level.alpha:g}")
    _check_upper(made, level, name)
    _check_shares(made, level, name)
    for field in ("expected_tokens", "full_budget_tokens"):
        value = getattr(level, field)
        _require(_is_number(value) and value >= 0, f"{name}.{field}", value, "0 or more")


def _largest_p_values(made: Certificate) -> list[float]:
    """For each level, the largest share of delta with which a policy can have been certified there.

    At a level without a certified policy nothing was rejected, so its part of delta stays there:
    of L levels, F of them without, a graph can bring at most delta / (F + 1) to another level, and
    Holm's last rejection has at least F x T hypotheses beside it. Simultaneously, a policy may also
    be certified at a smaller alpha and counts here by implication. A binomial p-value then is
    smaller here; another may be larger, but is at most delta (see `certify_policies`).
    """
    family, n_levels = made.tested, len(made.levels)
    if made.joint is not None and made.joint.has_limits:
        # Policies may be certified at a level where none keeps all limits.
        return [made.delta] * n_levels
    simultaneous = made.promise is Promise.SIMULTANEOUS
    failed = sum(not level.certified for level in made.levels) if simultaneous else 0
    n_policies = len(family.policies)
    if family.correction is Correction.BONFERRONI:
        shares = [1 / (n_policies * (n_levels if simultaneous else 1))] * n_levels
    elif family.correction is Correction.HOLM:
        shares = [1 / (n_policies * failed + 1)] * n_levels
    else:
        shares = [math.fsum(row) / (failed + 1) for row in family.weights_LT or ()]
    if not simultaneous:
        return [made.delta * share for share in shares]
    most, implied = [], 0.0
    for share, level in zip(shares, made.levels, strict=True):
        most.append(made.delta * max(share, implied))
        if level.certified:
            implied = max(share, implied) if made.p_value is PValue.BINOMIAL else 1.0
    return most


def _bounded_by_totals(made: Certificate) -> bool:
    """Whether totals bound what bets can have won: not where they are estimates."""
    return made.p_value.bets and made.label_share is None


def _check_upper(made: Certificate, level: CertifiedLevel, name: str) -> None:
    """The upper bound is above the risk, and follows from the totals where the test allows it."""
    loss, weight, upper = level.total_loss, level.total_weight, level.risk_upper
    _require_number(f"{name}.risk_upper", upper, 0, 1)
    rule = f"at least the risk, {level.risk:g}"
    _require(upper >= level.risk, f"{name}.risk_upper", upper, rule)
    level_delta = made.delta / len(made.tested.policies)
    again = upper_bound_of_totals(loss, weight, made.n_units, level_delta, made.p_value)
    if again is not None:
        tolerance = _RECOMPUTED if made.p_value is PValue.BINOMIAL else _GRID_STEP
        rule = f"{again:.6g}, which follows from total_loss {loss:g} and total_weight {weight:g}"
        same = math.isclose(upper, max(again, level.risk), rel_tol=tolerance)
        _require(same, f"{name}.risk_upper", upper, rule)
    elif _bounded_by_totals(made) and upper < 1:
        least = smallest_betting_p_value(loss, weight, made.n_units, upper)
        rule = "higher: no bets on these totals reject so low a risk at delta / number of policies"
        _require(least <= level_delta * (1 + _RECOMPUTED), f"{name}.risk_upper", upper, rule)


def _check_shares(made: Certificate, level: CertifiedLevel, name: str) -> None:
    answered, right = level.share_answered, level.share_right
    _require_number(f"{name}.share_answered", answered, 0, 1)
    _require_number(f"{name}.share_right", right, 0, answered, "share_answered")
    if made.label_share is not None:  # estimates, of which none follows from another
        return
    full = _full_weight(made)
    weight_share, loss_share = level.total_weight / full, level.total_loss / full
    if made.risk == SELECTIVE.name:
        rule = f"total_weight / {full:g}, {weight_share:.6g}"
        _require(_close(answered, weight_share), f"{name}.share_answered", answered, rule)
        wanted = weight_share - loss_share
        rule = f"(total_weight - total_loss) / {full:g}, {wanted:.6g}"
        _require(_close(right, wanted), f"{name}.share_right", right, rule)
    elif made.risk == ERROR.name:
        rule = f"1 - total_loss / {full:g}, {1 - loss_share:.6g}"
        _require(_close(right, 1 - loss_share), f"{name}.share_right", right, rule)
    elif made.risk == REGRET.name:
        rule = f"at most 1 - total_loss / {full:g}, {1 - loss_share:.6g}"
        _require(right <= 1 - loss_share + _ROUNDING, f"{name}.share_right", right, rule)


def _check_between_levels(made: Certificate) -> None:
    """One policy has one set of figures; the full budget is the same for all policies."""
    certified = made.certified_levels
    by_policy: dict[object, CertifiedLevel] = {}
    for level in certified:
        first = by_policy.setdefault(level.policy, level)
        same = {**asdict(first), "alpha": level.alpha, "p_value": level.p_value}
        for field, value in asdict(level).items():
            rule = f"{same[field]!r} as at alpha {first.alpha:g}, where the policy is the same"
            _require(value == same[field], f"{field} at alpha {level.alpha:g}", value, rule)
        full, other = level.full_budget_tokens, certified[0].full_budget_tokens
        rule = f"{other!r} as at alpha {certified[0].alpha:g}"
        _require(full == other, f"full_budget_tokens at alpha {level.alpha:g}", full, rule)


def _check_smallest_alpha(made: Certificate) -> None:
    """It is a certified alpha, or a bound that a test without any loss can give."""
    field, value = "smallest_certifiable_alpha", made.smallest_certifiable_alpha
    _require_number(field, value, 0, 1)
    certified = [level.alpha for level in made.certified_levels]
    if value in certified or made.p_value is PValue.CLT or made.label_share is not None:
        return
    alphas = [level.alpha for level in made.levels]
    share = max(made.tested.first(number)[1] for number in range(len(alphas)))
    level_delta = share * delta_per_level(made.delta, alphas, made.promise)
    # Without any loss: (1 - alpha)^n <= level_delta.
    least = -math.expm1(math.log(level_delta) / made.n_units) if level_delta > 0 else 1.0
    rule = f"at least {least:.6g}, which {made.n_units} units without a loss would give"
    _require(value >= least * (1 - _RECOMPUTED), field, value, rule)


def _is_number(value: object) -> bool:
    """A finite number; true and false are none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return -1e300 < value < 1e300


def _close(value: float, other: float) -> bool:
    return math.isclose(value, other, rel_tol=_ROUNDING, abs_tol=_ROUNDING)


def _require_number(
    field: str, value: object, low: float, high: float, high_name: str = ""
) -> None:
    named = f"{high_name}, {high:g}" if high_name else f"{high:g}"
    inside = isinstance(value, int | float) and low <= value <= high * (1 + _ROUNDING)
    _require(_is_number(value) and inside, field, value, f"a number from {low:g} to {named}")


def _require_count(field: str, value: object, least: int, least_name: str = "") -> None:
    whole = isinstance(value, int) and not isinstance(value, bool)
    inside = isinstance(value, int) and least <= value <= _MOST
    named = f"{least_name}, {least}" if least_name else f"{least}"
    _require(whole and inside, field, value, f"a whole number, at least {named}")


def _require(holds: bool, field: str, value: object, rule: str) -> None:
    if not holds:
        raise CertificateError(
            f"the certificate contradicts itself: {field} is {value!r}, and must be {rule}. It was "
            "changed or damaged: restore it, or fit again"
        )
