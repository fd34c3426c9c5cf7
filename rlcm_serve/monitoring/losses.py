"""What a monitor reads of an answer as its loss: a label, an answer of the full budget, or both.

Each reading says which answers count, which were drawn and with what probability, whether the
monitor must wait for one, and what was lost. A draw never depends on the answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from rlcm_serve.monitoring.records import MonitorKind

GRACE = 5.0
"""Seconds after a deadline in which what came in time may still be on its way."""
TESTED_RISKS = ("selective", "error")
"""Those whose loss a label tells. `regret` needs the answer of the full budget as well."""


@dataclass(frozen=True, slots=True)
class SeenShadow:
    """What a monitor reads of an answer's shadow run.

    Attributes:
        share: the probability with which the run could be drawn; 0 if there was no place for it.
        drawn: whether it was.
        due: when it must have ended to count, Unix time.
        ended: when it ended, Unix time; None if it has not.
        disagrees: whether the full budget gives another answer; None if the run gave no result.
        full_right: whether that answer is right; None if no label tells.
    """

    share: float
    drawn: bool
    due: float
    ended: float | None
    disagrees: bool | None
    full_right: bool | None


@dataclass(frozen=True, slots=True)
class SeenAnswer:
    """What a monitor reads of an answer under its level; fields as in `GivenAnswer`.

    `labelled` is when its first label came, `right` what the last one says. `repeated` is as in
    `AnswerRow`. `shadow` is None if no shadow run could be drawn, or the monitor reads none.
    """

    started: float
    sequence: int
    answered: bool
    confidence: float
    audited: bool
    audit_share: float
    due: float
    right: bool | None
    labelled: float | None
    tokens: int = 0
    familiarity: float | None = None
    repeated: bool = False
    shadow: SeenShadow | None = None


Lost = tuple[float | None, bool]
"""The loss of a drawn answer, and whether it is missing for good."""
MISSING: Lost = None, True


class Losses(Protocol):
    """How one monitor reads answers; `risk` is that of its certificate."""

    def share(self, answer: SeenAnswer) -> float:
        """The probability with which it was drawn; 0 if it could not be, or does not count."""

    def drawn(self, answer: SeenAnswer) -> bool:
        """Whether it was drawn."""

    def waits(self, answer: SeenAnswer, now: float) -> bool:
        """Whether the monitor must wait for what this answer lost."""

    def loss(self, answer: SeenAnswer) -> Lost:
        """What a drawn answer lost, once nothing is waited for."""


@dataclass(frozen=True, slots=True)
class LabelLosses:
    """1 for a wrong answer, by its label. A declined question counts under `error`, as wrong."""

    risk: str

    def share(self, answer: SeenAnswer) -> float:
        """The share for audit, of answers that count under the risk."""
        return answer.audit_share if _counts(answer, self.risk) else 0.0

    def drawn(self, answer: SeenAnswer) -> bool:
        """Whether a label is wanted."""
        return answer.audited

    def waits(self, answer: SeenAnswer, now: float) -> bool:
        """Until the label is there, or its deadline has passed."""
        is_open = answer.audited and answer.answered and answer.labelled is None
        return is_open and now <= answer.due + GRACE

    def loss(self, answer: SeenAnswer) -> Lost:
        """By the label, if it came in time."""
        if not answer.answered:
            return 1.0, False
        return (0.0 if answer.right else 1.0, False) if _in_time(answer) else MISSING


@dataclass(frozen=True, slots=True)
class Disagreements:
    """1 if the full budget gives another answer; needs no label.

    It is at least the loss of `regret` for every single answer: where only the full budget is
    right, its answer is another one.
    """

    risk: str

    def share(self, answer: SeenAnswer) -> float:
        """The share for shadow runs, of answers that count under the risk."""
        counts = answer.shadow is not None and _counts(answer, self.risk)
        return answer.shadow.share if answer.shadow is not None and counts else 0.0

    def drawn(self, answer: SeenAnswer) -> bool:
        """Whether the full budget is run on."""
        return answer.shadow is not None and answer.shadow.drawn

    def waits(self, answer: SeenAnswer, now: float) -> bool:
        """Until the run has ended, or its deadline has passed."""
        return self.share(answer) > 0 and _is_running(answer, now)

    def loss(self, answer: SeenAnswer) -> Lost:
        """By the run, if it gave a result."""
        shadow = answer.shadow
        if shadow is None or shadow.disagrees is None:
            return MISSING
        return float(shadow.disagrees), False


@dataclass(frozen=True, slots=True)
class RegretLosses:
    """1 if only the full budget's answer is right, by labels of both.

    Drawn are answers that were drawn for audit and for a shadow run. Both draws compare one number
    with their share, so both happen with the smaller share. Where the answers agree, or the label
    says that the given one is right, nothing is lost, whatever else is known. An answer that could
    not be read is not right, so its label is about the full budget's alone.
    """

    def share(self, answer: SeenAnswer) -> float:
        """The smaller of both shares."""
        return 0.0 if answer.shadow is None else min(answer.audit_share, answer.shadow.share)

    def drawn(self, answer: SeenAnswer) -> bool:
        """Whether both draws chose it."""
        return answer.audited and answer.shadow is not None and answer.shadow.drawn

    def waits(self, answer: SeenAnswer, now: float) -> bool:
        """Until the run has ended, and then for the label of an answer that differs.

        One that says only that the given answer is not right leaves open whether the full budget's
        is: a reference is graded later, and a later label may say it.
        """
        if not self.drawn(answer) or self.share(answer) <= 0:
            return False
        if _is_running(answer, now):
            return True
        shadow = answer.shadow
        if shadow is None or not shadow.disagrees or now > answer.due + GRACE:
            return False
        return answer.labelled is None or (shadow.full_right is None and not answer.right)

    def loss(self, answer: SeenAnswer) -> Lost:
        """By the run, and by the labels that came in time."""
        shadow = answer.shadow
        if shadow is None or shadow.disagrees is None:
            return MISSING
        if not shadow.disagrees:
            return 0.0, False
        if not _in_time(answer):
            return MISSING
        if answer.right:
            return 0.0, False
        return MISSING if shadow.full_right is None else (float(shadow.full_right), False)


def losses_of(what: MonitorKind, risk: str) -> Losses:
    """How a monitor of labels or of shadow runs reads answers."""
    if what is MonitorKind.SHADOW:
        return Disagreements(risk)
    return RegretLosses() if risk == "regret" else LabelLosses(risk)


def is_tested(risk: str, answer: SeenAnswer) -> bool:
    """Whether the label of an answer under a guarantee counts in the test of its level.

    Only under `regret` does an abstention need one, which is about the full budget's answer.
    """
    losses = losses_of(MonitorKind.RISK, risk)
    was_drawn = losses.share(answer) > 0 and losses.drawn(answer)
    is_told = (answer.answered or risk == "regret") and _in_time(answer)
    return was_drawn and is_told and losses.loss(answer) != MISSING


def kinds_of(risk: str, *, shadows: bool) -> list[MonitorKind]:
    """The monitors of a level, with or without shadow runs."""
    kinds = [MonitorKind.DRIFT]
    kinds += [MonitorKind.SHADOW] if shadows else []
    has_losses = risk in TESTED_RISKS or (risk == "regret" and shadows)
    return [*kinds, MonitorKind.RISK] if has_losses else kinds


def _counts(answer: SeenAnswer, risk: str) -> bool:
    return answer.answered or risk != "selective"


def _in_time(answer: SeenAnswer) -> bool:
    return answer.labelled is not None and answer.labelled <= answer.due


def _is_running(answer: SeenAnswer, now: float) -> bool:
    shadow = answer.shadow
    is_open = shadow is not None and shadow.drawn and shadow.ended is None
    return is_open and shadow is not None and now <= shadow.due + GRACE
