"""Forecasts from a pilot: how many labelled problems a calibration needs, and what it saves."""

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibration.certificate.certify import (
    certify_policies,
    check_alphas,
    default_p_value,
    parse_choice,
)
from calibration.errors import CalibrationError
from calibration.simulation.groups import Average, declared_groups
from calibration.simulation.label_share import LabelShare, require_shares
from calibration.simulation.labels import labels_needed
from calibration.simulation.predictions import predicted_losses
from calibration.simulation.procedure import Procedure
from calibration.simulation.replay import Replay, replay
from calibration.simulation.risks import SELECTIVE, Risk, risk_named
from calibration.testing.fwer import Promise, delta_per_level
from calibration.testing.joint import levels_delta, requested
from calibration.testing.learned_path import TOKEN_PRICE, choose_certified
from calibration.testing.methods import Method, family_for, share_learned_from
from calibration.testing.p_values import fewest_problems, require_rate
from calibration.testing.side_risks import SideRisks
from calibration.testing.until import LIKELY, Until, labels_until
from calibration.traces.traces import Traces

SIZES = (50, 100, 200, 300, 500, 1000, 2000, 3000, 5000)
LABEL_SHARE = 0.25
"""Share of the problems with a label, where none is asked for."""
LEAST = 0.8
"""The smallest probability of a label, as a share of the mean one, where none is asked for."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """The expected result of a calibration with n labelled problems or groups, at one alpha.

    Attributes:
        n: labelled problems or groups, including those learned from.
        alpha: risk level.
        certified: share of the simulated calibrations in which the level is certified.
        tokens_share: mean tokens as a share of the full budget's; 1 where the level is not
            certified.
        answered_share: mean share answered; 0 where the level is not certified and the risk may
            abstain.
        right_share: mean share answered correctly; 0 in the same cases.
    """

    n: int
    alpha: float
    certified: float
    tokens_share: float
    answered_share: float
    right_share: float


@dataclass(frozen=True, slots=True)
class Plan:
    """Forecasts by rising n, and the number of problems that each alpha needs.

    Attributes:
        risk: name of the risk.
        n_pilot: problems or groups of the pilot.
        forecasts: by rising n, then alpha.
        enough: by alpha, the smallest tried n that certifies it in 90% of the simulated
            calibrations; None if no n does.
        fewest: by alpha, the smallest n with which any test could certify it, if no answer is
            wrong.
        sequential: by alpha, how many a sequential certificate needs that is extended unit by unit
            until it certifies the level; empty where no sequential certificate can be asked for.
        labelled: share of the problems that need a label (`labels_needed`).
        label_share: share of the problems that have a label in the next two.
        predicted: as `sequential`, in labels, where a share of the problems has a label, drawn
            evenly, and predicted losses stand for the others.
        active: as `predicted`, where doubtful problems are drawn more often (`LabelShare`).
    """

    risk: str
    n_pilot: int
    forecasts: tuple[Forecast, ...]
    enough: dict[float, int | None]
    fewest: dict[float, int]
    sequential: dict[float, Until]
    labelled: float
    label_share: float = LABEL_SHARE
    predicted: dict[float, Until] = field(default_factory=dict)
    active: dict[float, Until] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)


def plan(
    pilot: Traces,
    *,
    risk: str | Risk = SELECTIVE,
    alphas: Sequence[float] = (0.05, 0.1, 0.2),
    delta: float = 0.1,
    promise: Promise | str = Promise.SIMULTANEOUS,
    samples: int = 1,
    vote: str = "confidence",
    average: Average | str = Average.PROBLEMS,
    max_group_size: int | None = None,
    bounds: Mapping[str, float | None] | None = None,
    next_questions: int | None = None,
    sizes: Sequence[int] = SIZES,
    repeats: int = 100,
    sequential: bool = True,
    label_share: float = LABEL_SHARE,
    least_share: float | None = None,
    seed: int = 0,
    on_progress: Callable[[int, int], None] = lambda done, of: None,
) -> Plan:
    """Simulate calibrations of several sizes on problems drawn from a pilot, with replacement.

    This is a forecast, not a guarantee. It takes the pilot for the population, so it is as wrong as
    the pilot, and a pilot of fewer than 50 problems says little. Record new problems for the
    calibration itself: problems that were looked at to choose the sample size must not be used in
    the test.

    Args:
        pilot: labelled traces, as for `certify`.
        risk: see `certify`.
        alphas: see `certify`.
        delta: see `certify`.
        promise: see `certify`.
        samples: see `certify`.
        vote: see `certify`.
        average: see `certify`.
        max_group_size: see `certify`.
        bounds: see `certify`. A level counts as certified if a policy keeps all limits.
        next_questions: see `certify`.
        sizes: numbers of labelled problems or groups to try.
        repeats: simulated calibrations of each size.
        sequential: whether to forecast sequential certificates, too. They have no `bounds` and no
            `next_questions`.
        label_share: of the sequential certificates in which a share of the problems has a label.
        least_share: the smallest probability of a label, if doubtful problems get more of them.
        seed: seed of the simulations.
        on_progress: called with the number of sizes done and the number of sizes.

    Raises:
        CalibrationError: an argument is out of range, or a pilot problem has too few rollouts.
    """
    risk = risk_named(risk) if isinstance(risk, str) else risk
    promise = parse_choice("promise", Promise, promise)
    alphas = check_alphas(alphas)
    require_rate("delta", delta)
    if not sizes or min(sizes) < 1 or repeats < 1:
        raise CalibrationError(
            f"sizes are {list(sizes)} and repeats {repeats}: give sizes and repeats of 1 or more"
        )
    require_shares(label_share, least_share)
    joint = requested(delta, risk, bounds or {}, next_questions)
    delta = levels_delta(delta, joint)
    groups = declared_groups(pilot, average, max_group_size)
    rng = np.random.default_rng(seed)
    forecasts: list[Forecast] = []
    for done, n in enumerate(sorted(sizes)):
        on_progress(done, len(sizes))
        learned_from = share_learned_from(Method.AUTO, risk, n)
        n_tested = n - round(learned_from * n)
        family = family_for(
            Method.RESCALED_CHAINS if learned_from else Method.CHAINS,
            risk,
            Procedure(samples, vote),
            alphas,
            delta_per_level(delta, alphas, promise),
            TOKEN_PRICE,
            grid=None,
            order=pilot if learned_from else None,
            recording=pilot,
            n_units=n_tested,
            average=Average(average),
        )
        measured = replay(pilot, family.policies, risk, Procedure(samples, vote), groups)
        sides = None
        if joint is not None and joint.has_limits:
            how = family.policies, Procedure(samples, vote), groups, 0
            sides = SideRisks.measured(joint, pilot, *how)
        token_price = None if risk.answers_always else TOKEN_PRICE
        chosen_RL = []
        for _ in range(repeats):
            drawn_U = rng.integers(measured.losses.n_units, size=n_tested)
            losses = measured.losses.take(drawn_U)
            kind = default_p_value(measured, risk, groups)
            tested = certify_policies(losses, family, alphas, delta, promise, kind)
            served_LT = tested.certified_LT
            if sides is not None and served_LT.any():
                with _uncollected():
                    served_LT = served_LT & sides.take(drawn_U).allowed_T
            chosen_RL.append([choose_certified(measured, row, token_price) for row in served_LT])
        for level, alpha in enumerate(alphas):
            chosen_R = [chosen_L[level] for chosen_L in chosen_RL]
            forecasts.append(_forecast(n, alpha, measured, chosen_R, risk))
    on_progress(len(sizes), len(sizes))
    until: list[dict[float, Until]] = [{}, {}, {}]
    if sequential and joint is None:
        tests = family, alphas, delta, promise, max(sizes), repeats, rng
        predicted = predicted_losses(pilot, family.policies, risk, Procedure(samples, vote), groups)
        evenly = LabelShare(label_share, label_share)
        least = LEAST * label_share if least_share is None else least_share
        shares = evenly, LabelShare.aimed(label_share, least, predicted)
        until = [labels_until(measured.losses, *tests)]
        until += [labels_until(measured.losses, *tests, predicted, share) for share in shares]
    return Plan(
        risk=risk.name,
        n_pilot=measured.losses.n_units,
        forecasts=tuple(forecasts),
        enough={alpha: _enough(forecasts, alpha) for alpha in alphas},
        fewest={
            alpha: fewest_problems(alpha, delta_per_level(delta, alphas, promise))
            for alpha in alphas
        },
        sequential=until[0],
        label_share=label_share,
        predicted=until[1],
        active=until[2],
        labelled=float(
            labels_needed(pilot, family.policies, risk, Procedure(samples, vote)).mean()
        ),
    )


@contextmanager
def _uncollected() -> Iterator[None]:
    """Spares what exists the search for garbage, which statsmodels starts at every correction."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _forecast(
    n: int, alpha: float, measured: Replay, chosen_R: Sequence[int | None], risk: Risk
) -> Forecast:
    def mean(values_T: NDArray[np.float64], otherwise: float) -> float:
        return float(np.mean([otherwise if t is None else values_T[t] for t in chosen_R]))

    without = (1.0, measured.full_right) if risk.answers_always else (0.0, 0.0)
    return Forecast(
        n=n,
        alpha=alpha,
        certified=float(np.mean([t is not None for t in chosen_R])),
        tokens_share=mean(measured.tokens_T / measured.full_tokens, 1.0),
        answered_share=mean(measured.answered_T, without[0]),
        right_share=mean(measured.right_T, without[1]),
    )


def _enough(forecasts: Sequence[Forecast], alpha: float) -> int | None:
    sizes = [each.n for each in forecasts if each.alpha == alpha and each.certified >= LIKELY]
    return min(sizes, default=None)
