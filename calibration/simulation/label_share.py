"""Labels for a share of the problems, drawn at random with probabilities that are fixed before.

What is drawn depends on what was recorded and on nothing else: neither on labels nor on whoever
looks at the problems. A problem whose predicted loss is doubtful is drawn more often (active
inference, arXiv 2403.03208); with `least` equal to `share`, all are drawn equally often.
"""

import hashlib
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from calibration.errors import CalibrationError
from calibration.policy.exit_rule import FULL_BUDGET, ExitPolicy
from calibration.simulation.groups import Groups
from calibration.simulation.losses import DrawnLabels, Losses
from calibration.simulation.predictions import predicted_losses
from calibration.simulation.procedure import Procedure
from calibration.simulation.replay import Replay, replay
from calibration.simulation.risks import SELECTIVE, Risk
from calibration.traces.content import joined
from calibration.traces.traces import Traces

_BYTES = 8
_HALVINGS = 60


@dataclass(frozen=True, slots=True)
class LabelShare:
    """With which probability a unit gets a label: `scale` x its doubt, between `least` and 1.

    The doubt of a prediction f of a loss with the weight w is sqrt(f (w - f)), the standard
    deviation if the loss is 0 or w; that of a unit is the mean over all policies of the test.

    Attributes:
        share: the mean probability on the problems that `scale` was chosen on.
        least: the smallest probability, in (0, share].
        scale: 0 if all units have the probability `share`.

    Raises:
        CalibrationError: a value is out of range.
    """

    share: float
    least: float
    scale: float = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise CalibrationError(f"label_share is {self.share}: give a share in (0, 1]")
        if not 0 < self.least <= self.share:
            raise CalibrationError(
                f"least_share is {self.least}: give a probability in (0, {self.share:g}], the "
                "share of labels"
            )
        if not (0 <= self.scale < np.inf):
            raise CalibrationError(f"scale is {self.scale}: give a number of 0 or more")

    @classmethod
    def aimed(cls, share: float, least: float | None, predicted: Losses) -> Self:
        """The scale with which the share is reached on other problems than those of the test.

        Where too few predictions are doubtful to reach it, those without doubt get more than
        `least`.

        Args:
            share: of the units that shall have a label.
            least: the smallest probability; None for `share`, so that all have the same. A loss
                counts 1 / probability times, and every bet must survive it.
            predicted: predicted losses of the other problems under the policies of the test.

        Raises:
            CalibrationError: a value is out of range.
        """
        tilted = cls(share, share if least is None else least)
        doubt_U = _doubts(predicted)
        if tilted.least == share or not doubt_U.any():
            return cls(share, share)
        low, high = float(tilted.least / doubt_U.max()), float(1 / doubt_U[doubt_U > 0].min())
        doubtful = float((doubt_U > 0).mean())
        if doubtful + (1 - doubtful) * tilted.least < share:
            rest = (share - doubtful) / (1 - doubtful)
            return replace(tilted, least=min(rest, share), scale=high)
        for _ in range(_HALVINGS):
            # by ratios, since doubts may differ by a hundred orders of magnitude
            middle = replace(tilted, scale=math.sqrt(low) * math.sqrt(high))
            if middle.probabilities(predicted).mean() < share:
                low = middle.scale
            else:
                high = middle.scale
        return replace(tilted, scale=low)

    def probabilities(self, predicted: Losses) -> NDArray[np.float64]:
        """The probability of each unit, shape (U, 1), from its predicted losses."""
        return np.clip(self.scale * _doubts(predicted), self.least, 1.0)[:, None]

    def evenly_drawn(self, key: str, traces: Traces) -> NDArray[np.bool_]:
        """Which units (U) have a label whatever their doubt: each with the probability `least`.

        They are a simple random sample of the problems of the test, so their plain means estimate
        those of all.

        Args:
            key: see `draw`.
            traces: see `draw`.
        """
        return _uniform(key, traces) < self.least

    def draw(
        self,
        key: str,
        traces: Traces,
        policies: Sequence[ExitPolicy],
        risk: Risk,
        procedure: Procedure,
        groups: Groups | None,
    ) -> DrawnLabels:
        """Which units have a label, in the order of `Traces.unit_P`; no label is read.

        Args:
            key: the digest of the design.
            traces: the problems of the test, with their batches.
            policies: of the test.
            risk: what is tested.
            procedure: how one question is answered.
            groups: how groups of problems enter the risk.
        """
        predicted = predicted_losses(traces, policies, risk, procedure, groups)
        probability_U1 = self.probabilities(predicted)
        labelled_U1 = _uniform(key, traces)[:, None] < probability_U1
        return DrawnLabels(labelled_U1, probability_U1, self.least, predicted.loss_UT)


def replay_labelled(
    drawn: DrawnLabels,
    traces: Traces,
    policies: Sequence[ExitPolicy],
    risk: Risk,
    procedure: Procedure,
    groups: Groups | None,
) -> Replay:
    """`replay` of problems of which only those that are drawn have a label.

    What depends on labels is estimated from these, each weighted by the inverse of its probability.

    Args:
        drawn: which units have a label, in the order of `Traces.unit_P`.
    """
    measured = replay(traces, policies, risk, procedure, groups)
    answers = replay(traces, [*policies, FULL_BUDGET], SELECTIVE, procedure, groups)
    wrong_T = drawn.ratio_T(answers.losses.loss_UT, answers.losses.weight_UT)
    right_T = answers.answered_T * (1 - wrong_T)
    return replace(
        measured,
        losses=measured.losses.with_labels(drawn),
        right_T=right_T[:-1],
        full_right=float(right_T[-1]),
    )


def require_shares(share: float | None, least: float | None) -> None:
    """Refuses a share of labels, or a smallest probability of one, that no design can have.

    Raises:
        CalibrationError: one is out of range, or there is a smallest probability without a share.
    """
    if share is not None:
        LabelShare(share, share if least is None else least)
    elif least is not None:
        raise CalibrationError(
            f"least_share is {least}, and has no effect without label_share: give both"
        )


def _doubts(predicted: Losses) -> NDArray[np.float64]:
    """The doubt of each unit (U); see `LabelShare`."""
    loss_UT = predicted.loss_UT
    variance_UT = np.maximum(loss_UT * (predicted.weight_UT - loss_UT), 0.0)
    return np.asarray(np.sqrt(variance_UT).mean(axis=1))


def _uniform(key: str, traces: Traces) -> NDArray[np.float64]:
    """A number in [0, 1) for each unit, a digest of the key and of what was recorded of it.

    Verdicts have no say. Units that recorded the same are told apart by their number among these,
    in the order of their batches, so that later units change no earlier number, then of their
    names.
    """
    batch_P = np.zeros(traces.n_problems) if traces.batch_P is None else traces.batch_P
    units = zip(traces.unit_P.tolist(), batch_P.tolist(), traces.units, strict=True)
    content_U = joined(traces.contents_P, traces.unit_P)
    number_U = np.empty(len(content_U))
    seen: Counter[bytes] = Counter()
    for unit, _, _ in sorted(set(units), key=lambda one: one[1:]):
        recorded = content_U[unit]
        text = f"{key} {seen[recorded]} ".encode() + recorded
        digest = hashlib.sha256(text).digest()[:_BYTES]
        number_U[unit] = (int.from_bytes(digest, "big") >> 11) / 2**53
        seen[recorded] += 1
    return number_U
