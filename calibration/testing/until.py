"""How many labels an anytime test takes, simulated on the losses of a pilot."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from calibration.simulation.label_share import LabelShare
from calibration.simulation.losses import DrawnLabels, Losses
from calibration.testing.anytime import units_until
from calibration.testing.families import Family
from calibration.testing.fwer import Promise, delta_per_level

LIKELY = 0.9
"""Share of simulated calibrations that must certify a level for a number to count as enough."""


@dataclass(frozen=True, slots=True)
class Until:
    """Labelled problems or groups until a sequential certificate certifies a level.

    None stands for more than there are among the largest number of problems.

    Attributes:
        half: enough in half of the simulated calibrations.
        most: enough in 90% of them.
    """

    half: int | None
    most: int | None


def labels_until(
    losses: Losses,
    family: Family,
    alphas: Sequence[float],
    delta: float,
    promise: Promise,
    most: int,
    repeats: int,
    rng: np.random.Generator,
    predicted: Losses | None = None,
    share: LabelShare | None = None,
) -> dict[float, Until]:
    """By alpha, the labels until the level is certified.

    It waits for a policy that has a share of delta from the start. So it leaves out what a level
    inherits from others, and is a little too high.

    Args:
        losses: of the pilot's units, all of which have a label.
        family: the policies of `losses`, and the graph of their tests.
        alphas: risk levels.
        delta: the probability with which the guarantee may fail.
        promise: whether the levels hold simultaneously or pointwise.
        most: units, labelled or not, at which a simulated calibration gives up.
        repeats: simulated calibrations.
        rng: draws the units, and which of them have a label.
        predicted: predicted losses of the same units; needed with `share`.
        share: which share of the units has a label; None for all.
    """
    found = {}
    for level, alpha in enumerate(alphas):
        weight_T = np.array((family.weights_LT or ())[level])
        first_H = np.flatnonzero(weight_T)
        level_H = weight_T[first_H] * delta_per_level(delta, alphas, promise)
        drawn_UR = rng.integers(losses.n_units, size=(most, repeats))
        shared = None
        if share is not None and predicted is not None:
            probability_UR = share.probabilities(predicted)[drawn_UR, 0]
            labelled_UR = rng.random(drawn_UR.shape) < probability_UR
            shared = DrawnLabels(labelled_UR, probability_UR, share.least, predicted.loss_UT)
        until_HR = [
            units_until(
                _resampled(losses, h, drawn_UR, shared), alpha, np.full(repeats, level_H[number])
            )
            for number, h in enumerate(first_H)
        ]
        until_R = np.min(until_HR, axis=0)
        if shared is not None:
            until_R = labels_among(until_R, shared.labelled_U1)
        at_half, at_most = np.quantile(until_R, (0.5, LIKELY), method="higher")
        found[alpha] = Until(_whole(at_half), _whole(at_most))
    return found


def _resampled(
    losses: Losses, policy: int, drawn_UR: NDArray[np.intp], shared: DrawnLabels | None
) -> Losses:
    """The losses of one policy in each repetition, as if each were a policy."""
    one = Losses(losses.loss_UT[drawn_UR, policy], losses.weight_UT[drawn_UR, policy])
    if shared is None:
        return one
    predicted_UR = shared.predicted_UT[drawn_UR, policy]
    return one.with_labels(replace(shared, predicted_UT=predicted_UR))


def labels_among(
    units_R: NDArray[np.float64], labelled_UR: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """The labels among the first units (U) of each repetition (R); infinity for infinity."""
    labels_UR = labelled_UR.cumsum(axis=0)
    ends_R = np.isfinite(units_R)
    last_R = np.where(ends_R, units_R, 1).astype(np.intp) - 1
    return np.where(ends_R, labels_UR[last_R, np.arange(len(last_R))], np.inf)


def _whole(units: float) -> int | None:
    return int(units) if np.isfinite(units) else None
