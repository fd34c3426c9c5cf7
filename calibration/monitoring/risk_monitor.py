"""The monitor of one certified level: has the risk of the live answers risen above alpha?"""

import math
from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from calibration.errors import CalibrationError
from calibration.monitoring.loss_model import LossModel
from calibration.monitoring.risk_interval import RiskInterval
from calibration.monitoring.risk_test import RiskTest
from calibration.monitoring.starts import Array, Mask, State

_VERSION = 1


class RiskMonitors:
    """`size` monitors (M) side by side, each on its own answers: what `RiskMonitor` and simulations
    share. Arguments are checked by `RiskMonitor`.
    """

    def __init__(self, alpha: float, delta: float, size: int) -> None:
        self.model = LossModel(alpha, size)
        self.test = RiskTest(alpha, size)
        self.sequence = RiskInterval(alpha, delta, size)
        self.alarmed_M: Mask = np.zeros(size, bool)
        self.labels_M: Array = np.zeros(size)
        self._delta = delta

    def add(
        self, loss_M: Array, confidence_M: Array, share_M: Array, audited_M: Mask, expired_M: Mask
    ) -> None:
        """One answer to each monitor; see `RiskMonitor.add`."""
        missing_M = audited_M & expired_M
        labelled_M = audited_M & ~expired_M
        loss_M = np.where(labelled_M, loss_M, 0.0)
        regressor_M = self.model.standardise(confidence_M)
        guess_M = self.model.guess(regressor_M)
        self.test.add(loss_M, guess_M, share_M, audited_M)
        self.sequence.add(loss_M, guess_M, share_M, audited_M, missing_M)
        self.model.learn(regressor_M, loss_M, labelled_M)
        self.labels_M = self.labels_M + labelled_M
        self.alarmed_M = self.alarmed_M | (self.test.wealth_M * self._delta >= 1)


class RiskMonitor:
    """Tests at any time whether the risk of one level is above alpha, and bounds it.

    The alarm is false with probability at most `delta`, over all time: if at every answer, given
    everything before it, the loss has a mean of at most `alpha`. `calibration.monitoring.risk_test`
    has the proof. Not covered: answers that the monitor is not given, labels that are wrong, and
    labels of answers that somebody chose instead of the audit draw.

    Answers must be added in the order in which they were asked, or in another one that their
    outcomes do not decide; each once it is resolved: not audited, labelled, or audited with its
    deadline gone by. Questions that run at once end in the order of their difficulty, so the order
    in which a large burst ends breaks the null. The same answers give the same state, to the last
    bit, on one machine.

    Args:
        alpha: the certified risk, in (0, 1).
        delta: probability of a false alarm that is accepted, in (0, 1); a certificate's delta
            divided by the number of its levels.

    Raises:
        CalibrationError: alpha or delta is not in (0, 1).
    """

    def __init__(self, alpha: float, delta: float) -> None:
        for name, value in (("alpha", alpha), ("delta", delta)):
            if not 0 < value < 1:
                raise CalibrationError(f"{name} = {value} is not in (0, 1)")
        self._alpha, self._delta = alpha, delta
        self._monitors = RiskMonitors(alpha, delta, 1)

    def add(
        self,
        loss: float | None,
        confidence: float,
        audit_share: float,
        *,
        audited: bool,
        expired: bool = False,
    ) -> None:
        """One answer.

        Args:
            loss: in [0, 1]; read only if the answer is audited and its label came.
            confidence: at the exit, in [0, 1]; NaN if there is none.
            audit_share: the probability with which this answer was drawn for audit, in (0, 1]. An
                answer that could not be drawn is not part of what is tested: do not add it.
            audited: whether it was drawn.
            expired: no label came by the deadline. It counts as right in the test and as any loss
                in the interval.

        Raises:
            CalibrationError: a value is outside its range, or an audited answer has no loss and is
                not expired.
        """
        _check_share(audit_share)
        if not audited or expired:
            loss = 0.0
        elif loss is None or not 0 <= loss <= 1:
            raise CalibrationError(
                f"an audited answer has the loss {loss}: give a number in [0, 1], or expired=True"
            )
        if not (math.isnan(confidence) or 0 <= confidence <= 1):
            raise CalibrationError(f"confidence {confidence} is not in [0, 1]: give NaN for none")
        self._monitors.add(
            np.array([loss]),
            np.array([confidence]),
            np.array([audit_share]),
            np.array([audited]),
            np.array([expired]),
        )

    @property
    def alarmed(self) -> bool:
        """Whether the wealth has ever reached 1 / delta."""
        return bool(self._monitors.alarmed_M[0])

    @property
    def log_wealth(self) -> float:
        """Natural logarithm of the wealth now. It alarms at log(1 / delta)."""
        return math.log(self._monitors.test.wealth_M[0])

    @property
    def answers(self) -> int:
        """Answers added, audited or not."""
        return int(self._monitors.sequence.state["answers"][0])

    @property
    def labels(self) -> int:
        """Labels that came and were bet on. Expired ones do not count."""
        return int(self._monitors.labels_M[0])

    def risk(self) -> float | None:
        """An estimate of the mean risk of the answers added; None before the first label.

        It is cut to [0, 1], so with few labels it is too high on average: .06 where the risk is
        .05, after 100 answers of which 5% are audited. Missing labels count as half a loss.
        """
        return float(self._monitors.sequence.estimate()[0]) if self.labels else None

    def interval(self) -> tuple[float, float]:
        """Ends of the confidence sequence for the running mean of the conditional risks.

        All intervals ever shown cover together with probability at least 1 - delta: see
        `calibration.monitoring.risk_interval`. After a change the mean over all answers moves
        slowly; the alarm does not wait for it.
        """
        low_M, high_M = self._monitors.sequence.interval()
        return float(low_M[0]), float(high_M[0])

    def state(self) -> dict[str, Any]:
        """Everything that later answers need, for JSON; `from_state` continues exactly there."""
        monitors = self._monitors
        return {
            "version": _VERSION,
            "alarmed": self.alarmed,
            "labels": self.labels,
            "model": _plain(monitors.model.state),
            "test": _plain(monitors.test.state),
            "sequence": _plain(monitors.sequence.state),
        }

    @classmethod
    def from_state(cls, alpha: float, delta: float, state: Mapping[str, Any]) -> Self:
        """The monitor that `state()` describes, with the arguments it was made with.

        Raises:
            CalibrationError: the state is of another version.
        """
        if state.get("version") != _VERSION:
            raise CalibrationError(
                f"the monitor's state has version {state.get('version')}, and this program reads "
                f"version {_VERSION}: start a new monitor"
            )
        monitor = cls(alpha, delta)
        monitors = monitor._monitors
        monitors.alarmed_M = np.array([bool(state["alarmed"])])
        monitors.labels_M = np.array([float(state["labels"])])
        monitors.model.state = _arrays(state["model"])
        monitors.test.state = _arrays(state["test"])
        monitors.sequence.restore(_arrays(state["sequence"]))
        return monitor


def _plain(state: State) -> dict[str, Any]:
    return {name: value_M[0].tolist() for name, value_M in state.items()}


def _arrays(stored: Mapping[str, Any]) -> State:
    return {name: np.array([value], dtype=np.float64) for name, value in stored.items()}


def _check_share(audit_share: float) -> None:
    if not 0 < audit_share <= 1:
        raise CalibrationError(
            f"audit_share = {audit_share} is not in (0, 1]: answers that cannot be drawn for audit "
            "are not tested; do not add them"
        )
