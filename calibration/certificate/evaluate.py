"""What a certificate's policies do on recorded problems, with confidence intervals."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibration.certificate.certificate import Certificate
from calibration.certificate.design import Design
from calibration.certificate.levels import InfeasibleLevel
from calibration.errors import CalibrationError
from calibration.metrics.share_intervals import shares_over_problems
from calibration.policy.exit_rule import ExitPolicy, ExitReason
from calibration.policy.exit_search import find_exits
from calibration.simulation.groups import Groups
from calibration.simulation.losses import Losses
from calibration.simulation.procedure import Procedure
from calibration.simulation.replay import replay
from calibration.simulation.risks import RISKS, SELECTIVE, Risk, risk_named
from calibration.traces.traces import Traces


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The figures of one policy on recorded problems.

    On problems that were not used before, these are honest estimates. On the problems that chose
    the policy, they are optimistic. In the risk, in shares and in means, every problem has the same
    weight, or every group if the certificate says so.

    Attributes:
        n_units: exchangeable units.
        n_draws: simulated questions: all draws of all problems.
        realised_risk: realised risk; None if nothing was answered.
        risk_interval: its 95% interval (`calibration.metrics.share_intervals`): Clopper-Pearson for
            losses of 0 or 1, otherwise with an effective number of questions.
        answered_share: share of questions answered.
        right_share: share of questions answered correctly.
        tokens: reasoning and answer tokens per question, all samples together.
        full_budget_tokens: the same without early exits.
        exits: number of rollouts by the reason they stop if the vote ends none before.
    """

    n_units: int
    n_draws: int
    realised_risk: float | None
    risk_interval: tuple[float, float] | None
    answered_share: float
    right_share: float
    tokens: float
    full_budget_tokens: float
    exits: dict[ExitReason, int]

    @property
    def tokens_share(self) -> float:
        """Tokens as a share of the full budget's tokens."""
        return self.tokens / self.full_budget_tokens


def evaluate(
    policies: Sequence[ExitPolicy],
    traces: Traces,
    risk: Risk = SELECTIVE,
    procedure: Procedure | None = None,
    groups: Groups | None = None,
) -> list[Evaluation]:
    """The figures of each policy on recorded problems.

    Args:
        policies: the policies.
        traces: the problems.
        risk: the risk to measure.
        procedure: how one question is answered; by default one sample.
        groups: how groups enter the risk and the means; by default each problem counts the same.

    Raises:
        CalibrationError: a policy does not fit the risk, a problem has no label or too few
            rollouts, or a group is larger than `groups` allows.
    """
    traces.require_labels()
    procedure = procedure or Procedure()
    measured = replay(traces, policies, risk, procedure, groups)
    exits_T = _exits(traces, policies)
    draws = int((traces.rollouts_P // procedure.samples).sum())
    problems_U = np.bincount(traces.unit_P)
    full_weight_U = problems_U / (groups or Groups()).divisor_U(problems_U)
    intervals_T = _intervals(measured.losses, draws, float(full_weight_U.sum()))
    return [
        Evaluation(
            n_units=measured.losses.n_units,
            n_draws=measured.n_draws,
            realised_risk=float(measured.losses.risk_T[t]) if interval else None,
            risk_interval=interval,
            answered_share=float(measured.answered_T[t]),
            right_share=float(measured.right_T[t]),
            tokens=float(measured.tokens_T[t]),
            full_budget_tokens=measured.full_tokens,
            exits=exits,
        )
        for t, (interval, exits) in enumerate(zip(intervals_T, exits_T, strict=True))
    ]


@dataclass(frozen=True, slots=True)
class LevelReplay:
    """A level of a certificate on other traces; without figures if no policy is certified."""

    alpha: float
    evaluation: Evaluation | None
    reason: str | None

    def to_json(self) -> dict[str, Any]:
        """Flat JSON values, with null for the figures of an infeasible level."""
        names = (
            *("realised_risk", "risk_interval", "tokens_share", "answered_share", "right_share"),
            *("tokens", "full_budget_tokens", "exits", "n_units", "n_draws"),
        )
        return {
            "alpha": self.alpha,
            "certified": self.evaluation is not None,
            "reason": self.reason,
            **{name: getattr(self.evaluation, name, None) for name in names},
        }

    def in_words(self) -> str:
        """The figures as one line of text."""
        if self.evaluation is None:
            return f"alpha {self.alpha:g}: not certified. {self.reason}"
        found = self.evaluation
        if found.realised_risk is None or found.risk_interval is None:
            risk = "nothing was answered"
        else:
            low, high = found.risk_interval
            risk = f"realised risk {found.realised_risk:.3f} (95%: {low:.3f} to {high:.3f})"
        exits = ", ".join(f"{count} {reason}" for reason, count in found.exits.items())
        return (
            f"alpha {self.alpha:g}: {risk}; {found.answered_share:.0%} answered, "
            f"{found.right_share:.0%} answered and right; {found.tokens:.0f} tokens, "
            f"{1 - found.tokens_share:.0%} saved; exits: {exits}"
        )


def replay_certificate(
    certificate: Certificate, traces: Traces, risk: str | Risk | None = None
) -> list[LevelReplay]:
    """The figures of each level's policy on traces with the same fingerprint.

    Args:
        certificate: its policies and its procedure are used.
        traces: other problems, for honest figures.
        risk: required if the certificate bounds a custom loss.

    Raises:
        CertificateError: the traces have another fingerprint.
        CalibrationError: a problem has too few rollouts, a group is larger than the certificate
            covers, or the risk is unknown.
    """
    traces = certificate.problems_of(traces)
    risk = resolve_risk(certificate, risk)
    certified = certificate.certified_levels
    policies = [level.policy for level in certified]
    how = risk, certificate.procedure, certificate.groups
    found = iter(evaluate(policies, traces, *how) if policies else ())
    return [
        LevelReplay(level.alpha, None, level.reason)
        if isinstance(level, InfeasibleLevel)
        else LevelReplay(level.alpha, next(found), None)
        for level in certificate.levels
    ]


def resolve_risk(certificate: Certificate | Design, risk: str | Risk | None) -> Risk:
    """The risk that a certificate bounds, or that its design is for.

    Raises:
        CalibrationError: it is a custom loss and was not given, or another risk was given.
    """
    named = f"{'design' if isinstance(certificate, Design) else 'certificate'} {certificate.id}"
    if risk is None and certificate.risk not in RISKS:
        raise CalibrationError(
            f"{named} bounds the custom loss {certificate.risk!r}: give that "
            "loss (Risk.custom, --loss module:function)"
        )
    if not isinstance(risk, Risk):
        risk = risk_named(risk or certificate.risk)
    if risk.name != certificate.risk:
        raise CalibrationError(
            f"{named} bounds {certificate.risk!r}, not {risk.name!r}: "
            "give the loss it was fitted with"
        )
    return risk


def _exits(traces: Traces, policies: Sequence[ExitPolicy]) -> list[dict[ExitReason, int]]:
    exits = find_exits(policies, traces.tokens_RC, traces.confidence_RC, traces.final_R)
    natural_RT = exits.ended_RT & traces.natural_R[:, None]
    counts_T = zip(
        exits.high_RT.sum(axis=0),
        exits.low_RT.sum(axis=0),
        natural_RT.sum(axis=0),
        (exits.ended_RT & ~natural_RT).sum(axis=0),
        strict=True,
    )
    return [dict(zip(ExitReason, map(int, counts), strict=True)) for counts in counts_T]


def _intervals(losses: Losses, draws: int, full_weight: float) -> list[tuple[float, float] | None]:
    """The interval of each policy's risk, given the number of independent draws.

    `full_weight` is the total weight of units if every question counts.
    """
    found = []
    for loss_U, weight_U in zip(losses.loss_UT.T, losses.weight_UT.T, strict=True):
        answered = round(draws * float(weight_U.sum()) / full_weight)
        (risk,) = shares_over_problems(loss_U[:, None], weight_U, rollouts=answered)
        found.append(None if risk.low is None or risk.high is None else (risk.low, risk.high))
    return found
