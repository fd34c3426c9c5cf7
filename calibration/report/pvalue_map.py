"""p-values over λ1 x λ2 around a level's policy, and which of the tested policies lie there."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from calibration.certificate.certificate import Certificate
from calibration.certificate.fitting.tested import Tested, explaining_policy, target_level
from calibration.certificate.levels import CertifiedLevel, Level
from calibration.certificate.verify import tested_again
from calibration.policy.exit_rule import NEVER, ExitPolicy
from calibration.simulation.risks import Risk
from calibration.testing.families import (
    LAMBDA_HIGH,
    NO_LOW_EXIT,
    Family,
    interval_of,
    with_low_exit,
)
from calibration.testing.p_values import p_values
from calibration.traces.traces import Traces

NEVER_LOW = -1.0
LOWS = (NEVER_LOW, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)
"""λ1 of every map, besides those that were tested."""
MOST_LOWS, MOST_HIGHS = 14, 48
"""Thresholds of a map; more than these are thinned out."""
PATIENCE_CHECKPOINTS = 4
"""Patience of a map if no tested policy has a low exit."""

_OF_LOW_EXITS = ("patience", "low_rise", "low_slope", "low_shift", "answer_on_low")
_OF_ALL = ("lambda_answer", "lambda_vote", "lambda_stop", "smoothing")


@dataclass(frozen=True, slots=True)
class TestedPolicy:
    """A policy that was really tested at a level.

    Attributes:
        lambda_low: λ1; `NEVER_LOW` if it has no low exit.
        lambda_high: λ2.
        in_plane: it differs from the map's policy in these two alone.
        certified: it passed at this level.
    """

    lambda_low: float
    lambda_high: float
    in_plane: bool
    certified: bool


@dataclass(frozen=True, slots=True, eq=False)
class PValueMap:
    """p-values of H: risk > alpha for the policies around one: rows Y of λ2, columns X of λ1.

    Only the tested policies were tested. Every other p-value is there to be looked at: a small one
    certifies nothing, for among so many some are small by chance.

    Attributes:
        alpha: the level.
        certified: whether the level is.
        centre: the policy served at this level; where nothing is certified, the one whose failure
            the certificate reports. If it has no low exit, its patience is that of most tested
            policies that have one.
        low_X: λ1, rising; `NEVER_LOW` never fires.
        high_Y: λ2, rising; the last never fires.
        p_YX: p-values; NaN where λ1 would reach λ2.
        tested: the policies that the level could come to test.
    """

    alpha: float
    certified: bool
    centre: ExitPolicy
    low_X: tuple[float, ...]
    high_Y: tuple[float, ...]
    p_YX: NDArray[np.float64]
    tested: tuple[TestedPolicy, ...]

    def place(self, low: float, high: float) -> tuple[float, float]:
        """Column and row of thresholds: whole numbers on a cell, fractions between two cells."""
        x = np.interp(low, self.low_X, np.arange(len(self.low_X)))
        y = np.interp(high, self.high_Y, np.arange(len(self.high_Y)))
        return float(x), float(y)


def map_p_values(certificate: Certificate, traces: Traces, risk: Risk) -> tuple[PValueMap, ...]:
    """A map for each level, by rising alpha; all have the same rows and columns.

    Args:
        certificate: its tests are repeated.
        traces: the problems that tested.
        risk: what the certificate bounds.
    """
    family, levels = certificate.tested, certificate.levels
    tested = tested_again(certificate, traces, risk, traces.seed)
    patience = _usual_patience(family, interval_of(traces))
    centres = [
        _centre(family, number, level, tested, patience, risk)
        for number, level in enumerate(levels)
    ]
    low_X = _axis(LOWS, map(low_of, family.policies), map(low_of, centres), MOST_LOWS)
    high_Y = _axis(
        (*LAMBDA_HIGH, NEVER),
        map(high_of, family.policies),
        map(high_of, centres),
        MOST_HIGHS,
    )
    return tuple(
        PValueMap(
            alpha=level.alpha,
            certified=level.certified,
            centre=centre,
            low_X=low_X,
            high_Y=high_Y,
            p_YX=_p_values(certificate, traces, risk, number, _plane(centre, low_X, high_Y)),
            tested=tuple(_in_line(family, number, centre, tested.certified_LT[number])),
        )
        for number, (level, centre) in enumerate(zip(levels, centres, strict=True))
    )


def low_of(policy: ExitPolicy) -> float:
    """λ1, or where it starts from; `NEVER_LOW` if it never fires."""
    return policy.lambda_low if policy.exits_low else NEVER_LOW


def high_of(policy: ExitPolicy) -> float:
    """λ2; `NEVER` for all that never fires."""
    return min(policy.lambda_high, NEVER)


def _usual_patience(family: Family, interval: int) -> int:
    patiences = [policy.patience for policy in family.policies if policy.exits_low]
    if not patiences:
        return PATIENCE_CHECKPOINTS * interval
    return Counter(patiences).most_common(1)[0][0]


def _centre(
    family: Family, number: int, level: Level, tested: Tested, patience: int, risk: Risk
) -> ExitPolicy:
    if isinstance(level, CertifiedLevel):
        policy = level.policy
    else:
        policy = family.policies[explaining_policy(family, tested, number)]
    if not policy.exits_low:
        policy = replace(policy, patience=patience)
    return replace(policy, answer_on_low=policy.answer_on_low or risk.answers_always)


def _axis(
    fixed: Sequence[float], tested: Iterable[float], kept: Iterable[float], most: int
) -> tuple[float, ...]:
    kept = set(kept)
    values = sorted({*fixed, *tested, *kept})
    if len(values) > most:
        spread = np.linspace(0, len(values) - 1, most).round().astype(int)
        values = sorted({*kept, *(values[i] for i in spread)})
    return tuple(values)


def _plane(
    centre: ExitPolicy, low_X: Sequence[float], high_Y: Sequence[float]
) -> dict[tuple[int, int], ExitPolicy]:
    """The policy of each cell (row, column) that there is."""
    without = with_low_exit(centre, NO_LOW_EXIT)
    cells = {}
    for y, high in enumerate(high_Y):
        for x, low in enumerate(low_X):
            if low == NEVER_LOW:
                cells[y, x] = replace(without, lambda_high=high)
            elif low + centre.low_rise < high:
                cells[y, x] = replace(centre, lambda_low=low, lambda_high=high)
    return cells


def _p_values(
    certificate: Certificate,
    traces: Traces,
    risk: Risk,
    number: int,
    cells: dict[tuple[int, int], ExitPolicy],
) -> NDArray[np.float64]:
    alphas = [level.alpha for level in certificate.levels]
    aimed_at = target_level(
        certificate.tested, number, alphas, certificate.delta, certificate.promise
    )
    rows, columns = np.array(list(cells)).T
    measured = certificate.design.measure(traces, risk, tuple(cells.values()))
    losses = certificate.in_test_order(measured.losses, traces)
    p_YX = np.full((rows.max() + 1, columns.max() + 1), np.nan)
    p_YX[rows, columns] = p_values(
        losses, alphas[number], certificate.p_value, traces.seed, aimed_at
    )
    return p_YX


def _in_line(
    family: Family, number: int, centre: ExitPolicy, certified_T: NDArray[np.bool_]
) -> Iterator[TestedPolicy]:
    reachable = _reachable(family, number)
    for t, policy in enumerate(family.policies):
        # What passed at a smaller alpha is certified here too, wherever it was tested.
        if t in reachable or certified_T[t]:
            in_plane = _in_plane(policy, centre)
            yield TestedPolicy(low_of(policy), high_of(policy), in_plane, bool(certified_T[t]))


def _reachable(family: Family, number: int) -> set[int]:
    """The policies that a level's δ can reach."""
    if family.weights_LT is None or family.graph is None:
        return set(range(len(family.policies)))
    reached = {t for t, weight in enumerate(family.weights_LT[number]) if weight > 0}
    waiting = list(reached)
    while waiting:
        successors = {t for t, _ in family.graph.edges[waiting.pop()]} - reached
        reached |= successors
        waiting.extend(successors)
    return reached


def _in_plane(policy: ExitPolicy, centre: ExitPolicy) -> bool:
    names = (*_OF_ALL, *_OF_LOW_EXITS) if policy.exits_low else _OF_ALL
    return all(getattr(policy, name) == getattr(centre, name) for name in names)
