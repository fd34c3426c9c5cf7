"""Shows stored answers to the monitor of a level, in order. Pure: the same answers, same state.

A guarantee is for first asks. So no monitor reads the answer to a question that was asked before
under the same certificate, at whatever level: one question asked again and again would make its own
risk that of the level. What was asked earlier decides, before the answer and its label are known.
So the tests stay valid: their null hypothesis is about the answers that are left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from calibration.monitoring.drift_monitor import DriftMonitor
from calibration.monitoring.risk_monitor import RiskMonitor
from rlcm_serve.monitoring.losses import Losses, SeenAnswer, losses_of
from rlcm_serve.monitoring.records import MonitorKind
from rlcm_serve.monitoring.reference import Counts, live_values, values_of

_LOST = {
    "error": "audited questions got no right answer",
    "regret": "answers drawn for audit and a shadow run are not right where the full budget is",
}
"""What an alarm says of losses, by the risk; of other risks it says that answers are wrong."""


@dataclass(frozen=True, slots=True)
class Monitor:
    """A stored monitor of one level.

    Attributes:
        certificate: its digest.
        alpha: the level.
        what: what it looks at.
        risk: of the certificate.
        delta: probability of a false alarm that is accepted.
        reference: of a drift monitor.
        started: when the question of the last answer that it has seen was asked, Unix time.
        sequence: of that answer.
        state: of the monitor; empty before the first answer. `seen` of a test is how many answers
            of its level have passed, as the drift monitor counts them.
        alarmed: when it alarmed first, Unix time; None if it never did.
    """

    certificate: str
    alpha: float
    what: MonitorKind
    risk: str
    delta: float
    reference: Counts
    started: float
    sequence: int
    state: Mapping[str, Any]
    alarmed: float | None

    @property
    def losses(self) -> Losses:
        """How it reads answers, if it tests losses."""
        return losses_of(self.what, self.risk)

    def waits(self, answer: SeenAnswer, now: float) -> bool:
        """Whether it must wait for what this answer lost."""
        tests_losses = self.what is not MonitorKind.DRIFT and not answer.repeated
        return tests_losses and self.losses.waits(answer, now)

    def risk_monitor(self) -> RiskMonitor:
        """The test of losses in its state."""
        stored = self.state.get("monitor")
        if stored is None:
            return RiskMonitor(self.alpha, self.delta)
        return RiskMonitor.from_state(self.alpha, self.delta, stored)

    def drift_monitor(self, seed: bytes) -> DriftMonitor:
        """The test of readings in its state."""
        values, stored = values_of(self.reference), self.state.get("monitor")
        if stored is None:
            return DriftMonitor(values, self.delta, seed)
        return DriftMonitor.from_state(values, self.delta, seed, stored)


def advance(monitor: Monitor, answers: Sequence[SeenAnswer], now: float, seed: bytes) -> Monitor:
    """The monitor after these answers, up to the first one whose label it must wait for.

    Args:
        monitor: has seen all answers of its level before them.
        answers: of its level, in order.
        now: Unix time.
        seed: a secret, for ties.
    """
    if monitor.what is MonitorKind.DRIFT:
        return _compare(monitor, answers, now, seed)
    return _bet(monitor, answers, now)


def _bet(stored: Monitor, answers: Sequence[SeenAnswer], now: float) -> Monitor:
    monitor, alarmed = stored.risk_monitor(), stored.alarmed
    started, sequence = stored.started, stored.sequence
    losses = stored.losses
    wrong, passed = stored.state.get("wrong", 0), stored.state.get("seen", 0)
    for answer in answers:
        if stored.waits(answer, now):
            break
        started, sequence, passed = answer.started, answer.sequence, passed + 1
        share = 0.0 if answer.repeated else losses.share(answer)
        if share <= 0:
            continue
        drawn = losses.drawn(answer)
        loss, expired = losses.loss(answer) if drawn else (None, False)
        monitor.add(loss, answer.confidence, share, audited=drawn, expired=expired)
        wrong += drawn and loss == 1
        if monitor.alarmed and alarmed is None:
            alarmed = now
    state = {"monitor": monitor.state(), "wrong": wrong, "seen": passed}
    return replace(stored, started=started, sequence=sequence, state=state, alarmed=alarmed)


def _compare(stored: Monitor, answers: Sequence[SeenAnswer], now: float, seed: bytes) -> Monitor:
    monitor, alarmed = stored.drift_monitor(seed), stored.alarmed
    questions, answered = stored.state.get("questions", 0), stored.state.get("answered", 0)
    for answer in answers:
        if not answer.repeated:
            monitor.add(live_values(stored.reference, answer))
        questions, answered = questions + 1, answered + answer.answered
    if monitor.alarmed and alarmed is None:
        alarmed = now
    state = {"monitor": monitor.state(), "questions": questions, "answered": answered}
    if not answers:
        return stored
    last = answers[-1]
    return replace(
        stored, started=last.started, sequence=last.sequence, state=state, alarmed=alarmed
    )


def alarm_text(monitor: Monitor, seed: bytes) -> tuple[str, dict[str, Any]]:
    """What an alarm says, and the figures behind it."""
    level = f"at alpha {monitor.alpha:g}"
    if monitor.what is MonitorKind.DRIFT:
        moved = list(monitor.drift_monitor(seed).alarmed)
        return f"drift alarm {level}: {', '.join(moved)} moved", {"statistics": moved}
    test = monitor.risk_monitor()
    low, high = test.interval()
    wrong = monitor.state["wrong"]
    figures = {"labels": test.labels, "wrong": wrong, "low": low, "high": high}
    said = _LOST.get(monitor.risk, "audited answers are wrong")
    return f"risk alarm {level}: {wrong} of {test.labels} {said}", figures
