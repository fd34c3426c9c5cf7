"""A risk level of a certificate: its certified policy, or the reason why none is certified."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

from calibration.policy.exit_rule import ExitPolicy


@dataclass(frozen=True, slots=True)
class CertifiedLevel:
    """A risk level and the policy that keeps it.

    "Certified" means one thing: under the guarantee of the certificate, the risk of `policy` is at
    most `alpha`. `risk_upper` is a second statement: with probability 1 - delta, the risks of all
    tested policies are below their bounds at once. So it holds for this policy however it was
    chosen, and it may exceed `alpha`. All other figures are measured on the problems on which the
    policy was chosen; they tend to be optimistic.

    Attributes:
        alpha: the risk level.
        policy: the exit policy to serve.
        p_value: p-value of H: risk > alpha, on the calibration problems.
        risk: empirical risk: total_loss / total_weight.
        risk_upper: upper confidence bound of the risk, at delta / number of tested policies.
        total_weight: for `selective`, units answered, each by its share of draws; otherwise all
            units.
        total_loss: sum of the losses of the units; with one draw per unit, the number of wrong
            answers.
        share_answered: share of all questions that are answered.
        share_right: share of all questions that are answered correctly.
        expected_tokens: mean reasoning and answer tokens per question, all samples together.
        full_budget_tokens: the same without early exits.
    """

    alpha: float
    policy: ExitPolicy
    p_value: float
    risk: float
    risk_upper: float
    total_weight: float
    total_loss: float
    share_answered: float
    share_right: float
    expected_tokens: float
    full_budget_tokens: float

    @property
    def certified(self) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class InfeasibleLevel:
    """A risk level at which no policy is certified.

    Attributes:
        alpha: the requested risk.
        n_too_small: whether more problems could change this; otherwise the risk of the policy that
            failed first is shown to be above alpha.
        reason: the reason as text, with the numbers.
        p_value: p-value of the policy that is tested first at this level and failed; if policies
            are tested without an order, the smallest p-value.
        total_weight: total weight of that policy; see `CertifiedLevel`.
        total_loss: total loss of that policy.
    """

    alpha: float
    n_too_small: bool
    reason: str
    p_value: float
    total_weight: float
    total_loss: float

    @property
    def certified(self) -> bool:
        return False


Level = CertifiedLevel | InfeasibleLevel


def equal_levels(levels: Sequence[Level]) -> list[tuple[float, ...]]:
    """The alphas of neighbouring levels that ended with the same policy, two or more in each."""
    certified = [level for level in levels if isinstance(level, CertifiedLevel)]
    runs = (list(run) for _, run in groupby(certified, key=lambda level: level.policy))
    return [tuple(level.alpha for level in run) for run in runs if len(run) > 1]


def level_to_json(level: Level) -> dict[str, Any]:
    """A level as plain JSON values."""
    figures = {"certified": level.certified, **asdict(level)}
    if isinstance(level, CertifiedLevel):
        figures["policy"] = level.policy.to_scalars()
    return figures


def level_from_json(values: Mapping[str, Any]) -> Level:
    """A level from its values in a certificate file.

    Raises:
        CalibrationError, KeyError, TypeError: a value is missing, unknown or out of range.
    """
    figures = dict(values)
    if not figures.pop("certified"):
        level = InfeasibleLevel(**figures)
        if not isinstance(level.reason, str) or not isinstance(level.n_too_small, bool):
            raise TypeError(f"reason is {level.reason!r}, n_too_small is {level.n_too_small!r}")
        return level
    return CertifiedLevel(**{**figures, "policy": ExitPolicy.from_scalars(figures["policy"])})
