"""How many labelled problems a calibration takes, and what it saves: a forecast from a pilot."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
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
from calibration.simulation.losses import Losses
from calibration.simulation.procedure import Procedure
from calibration.simulation.replay import Replay, replay
from calibration.simulation.risks import SELECTIVE, Risk, risk_named
from calibration.testing.fwer import Promise, delta_per_level
from calibration.testing.learned_path import SLACK, choose_policy
from calibration.testing.methods import RESCALE_FROM, RESCALE_SHARE, Method, family_for
from calibration.testing.p_values import fewest_problems, require_rate
from calibration.traces.traces import Traces

SIZES = (50, 100, 200, 300, 500, 1000, 2000, 3000, 5000)
LIKELY = 0.9
"""Share of the re-enacted calibrations that must certify a level before n is called enough."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a calibration with n labelled problems or groups may be expected to give at one alpha.

    Attributes:
        n: labelled problems or groups, those that are learned from included.
        alpha: risk level.
        certified: share of the re-enacted calibrations in which it is certified.
        tokens_share: mean tokens, as a share of the full budget's; 1 where it is not certified.
        answered_share: mean share answered; 0 where it is not certified and the risk may abstain.
        right_share: mean share answered and right, likewise.
    """

    n: int
    alpha: float
    certified: float
    tokens_share: float
    answered_share: float
    right_share: float


@dataclass(frozen=True, slots=True)
class Plan:
    """Forecasts by rising n, and the fewest problems with which each alpha is likely certified.

    Attributes:
        risk: name of the risk.
        n_pilot: problems or groups of the pilot.
        forecasts: by rising n, then alpha.
        enough: by alpha, the least n tried that certifies it in 90 % of the re-enactments; None if
            none does.
        fewest: by alpha, the least n with which any test could certify it, if nothing were wrong.
    """

    risk: str
    n_pilot: int
    forecasts: tuple[Forecast, ...]
    enough: dict[float, int | None]
    fewest: dict[float, int]

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
    sizes: Sequence[int] = SIZES,
    repeats: int = 100,
    seed: int = 0,
    on_progress: Callable[[int, int], None] = lambda done, of: None,
) -> Plan:
    """Re-simulate calibrations of several sizes on problems drawn from a pilot, with replacement.

    A forecast, not a promise: it takes the pilot for the population, so it errs as far as the pilot
    does, and a pilot of fewer than 50 problems says little. Record new problems for the calibration
    itself: a sample that was looked at to decide its size tests nothing.

    Args:
        pilot: labelled traces, as for `certify`.
        risk: see `certify`; so too alphas, delta, promise, samples and vote.
        sizes: numbers of labelled problems or groups to try, rising.
        repeats: re-enactments of each size.
        seed: of the re-enactments.
        on_progress: told of the sizes done, and of how many there are.

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
    rng = np.random.default_rng(seed)
    forecasts: list[Forecast] = []
    for done, n in enumerate(sorted(sizes)):
        on_progress(done, len(sizes))
        rescaled = n >= RESCALE_FROM
        family = family_for(
            Method.RESCALED_CHAINS if rescaled else Method.CHAINS,
            risk,
            Procedure(samples, vote),
            alphas,
            delta_per_level(delta, alphas, promise),
            SLACK,
            grid=None,
            order=pilot if rescaled else None,
            recording=pilot,
        )
        measured = replay(pilot, family.policies, risk, Procedure(samples, vote))
        n_tested = n - round(RESCALE_SHARE * n) if rescaled else n
        slack = None if risk.answers_always else SLACK
        chosen_RL = [
            _choices(
                measured,
                certify_policies(
                    _redrawn(measured.losses, n_tested, rng),
                    family,
                    alphas,
                    delta,
                    promise,
                    default_p_value(measured, risk),
                ).certified_LT,
                slack,
            )
            for _ in range(repeats)
        ]
        for level, alpha in enumerate(alphas):
            chosen_R = [chosen_L[level] for chosen_L in chosen_RL]
            forecasts.append(_forecast(n, alpha, measured, chosen_R, risk))
    on_progress(len(sizes), len(sizes))
    return Plan(
        risk=risk.name,
        n_pilot=measured.losses.n_units,
        forecasts=tuple(forecasts),
        enough={alpha: _enough(forecasts, alpha) for alpha in alphas},
        fewest={
            alpha: fewest_problems(alpha, delta_per_level(delta, alphas, promise))
            for alpha in alphas
        },
    )


def _redrawn(losses: Losses, n: int, rng: np.random.Generator) -> Losses:
    rows = rng.integers(losses.n_units, size=n)
    if not losses.is_ratio:
        return Losses.unweighted(losses.loss_UT[rows])
    return Losses(losses.loss_UT[rows], losses.weight_UT[rows])


def _choices(
    measured: Replay, certified_LT: NDArray[np.bool_], slack: float | None
) -> list[int | None]:
    """The policy that would be served at each level."""
    choices: list[int | None] = []
    for certified_T in map(np.flatnonzero, certified_LT):
        if not certified_T.size:
            choices.append(None)
            continue
        right_T, tokens_T = measured.right_T[certified_T], measured.tokens_T[certified_T]
        risk_T = measured.losses.risk_T[certified_T]
        choices.append(int(certified_T[choose_policy(right_T, tokens_T, risk_T, slack)]))
    return choices


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
