"""What monitoring stores and shows: answers, labels, monitors, events. Plain and frozen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from rlcm_serve.solving.shadow.draw import ShadowDraw
from rlcm_serve.solving.slots import ServedUnder


@dataclass(frozen=True, slots=True)
class GivenAnswer:
    """What the service gave for one question: an answer, or none. Times are Unix times in seconds.

    Attributes:
        id: of the answer.
        key_id: of the API key that asked; None where no key is needed.
        started: when the question was asked.
        time: when the answer was given.
        profile: prompt profile of the question.
        kind: kind of the question, if it named one.
        certificate: digest of the certificate that covers it; None without a guarantee.
        alpha: the certified level; None without a guarantee.
        risk: what alpha limits.
        answered: whether an answer was given.
        confidence: at the exit; with several samples, the winner's share of the vote.
        tokens: reasoning and answer tokens of all samples.
        familiarity: of the question; None if it was not read.
        audited: whether the draw chose it for audit.
        audit_share: the probability with which the draw could.
        due: when its label must be in to count in the test.
        question: its text; None where texts are not kept.
        answer: the answer given; None without one.
        shadow: how its shadow run was drawn; None if none could be.
        question_digest: of the question, by `AuditDraw.question_digest`; None if it is not known.
        departs: whether its conversation or its schema was not the profile's.
        under: of which engine and profile it is; None if it is not known.
    """

    id: str
    key_id: str | None
    started: float
    time: float
    profile: str
    kind: str | None
    certificate: str | None
    alpha: float | None
    risk: str
    answered: bool
    confidence: float
    tokens: int
    familiarity: float | None
    audited: bool
    audit_share: float
    due: float
    question: str | None = None
    answer: str | None = None
    shadow: ShadowDraw | None = None
    question_digest: bytes | None = None
    departs: bool = False
    under: ServedUnder | None = None

    @property
    def wants_label(self) -> bool:
        """Whether it was drawn for audit, and a test may read its label.

        Without an answer only the test of `regret` does: was the full budget's answer right?
        """
        has_run = self.shadow is not None and self.shadow.runs
        return self.audited and (self.answered or (has_run and self.risk == "regret"))


@dataclass(frozen=True, slots=True)
class Label:
    """A verdict on an answer. Of several, the last counts; trusted ones go before others.

    Attributes:
        id: of the answer.
        right: whether it is right.
        by: id of the API key that said so; None where no key is needed.
        reference: the reference answer that it was graded with; None if the verdict came as it is.
        full_right: whether the full budget's answer is right; None if the label does not say.
        trusted: whether it enters the test, if the answer was drawn for audit.
    """

    id: str
    right: bool
    by: str | None
    reference: str | None = None
    full_right: bool | None = None
    trusted: bool = True


class MonitorKind(StrEnum):
    """What a monitor looks at."""

    RISK = "risk"
    """Labels of audited answers."""
    DRIFT = "drift"
    """Readings of first asks, without labels."""
    SHADOW = "shadow"
    """Answers of the full budget, without labels."""


class EventKind(StrEnum):
    """What an event says."""

    RISK_ALARM = "risk_alarm"
    DRIFT_ALARM = "drift_alarm"
    WITHDRAWN = "withdrawn"
    RESTORED = "restored"


RUNBOOKS = {
    EventKind.RISK_ALARM: "rlcmriskalarm",
    EventKind.DRIFT_ALARM: "rlcmdriftalarm",
    EventKind.WITHDRAWN: "rlcmguaranteewithdrawn",
    EventKind.RESTORED: "rlcmguaranteewithdrawn",
}
"""The section of docs/guides/runbooks.md for each kind of event."""


def runbook_of(what: EventKind, page: str | None) -> str | None:
    """The URL of the runbook for an event; None if no page of runbooks is known."""
    return None if page is None else f"{page.partition('#')[0]}#{RUNBOOKS[what]}"


class Action(StrEnum):
    """What is done about an alarm. The first two withdraw the guarantee."""

    WITHDRAW = "withdraw"
    """Questions are answered at the full budget."""
    SMALLER_LEVEL = "smaller-level"
    """Questions are answered with the policy of a smaller level than the one that alarmed."""
    WARN = "warn"
    NONE = "none"


WITHDRAWING = (Action.WITHDRAW, Action.SMALLER_LEVEL)


class Hook(StrEnum):
    """Whether the webhook was told of an event."""

    NONE = "none"
    WAITING = "waiting"
    DELIVERED = "delivered"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class MonitorEvent:
    """Something that a monitor found, or that was done about it.

    Attributes:
        time: Unix time in seconds.
        certificate: its digest.
        alpha: the level; None if it is about all levels.
        what: the kind of event.
        text: in words.
        figures: the numbers behind it, as plain JSON values.
        action: what was done about it.
        hook: whether the webhook was told.
        number: in order of the events; 0 before it is stored.
    """

    time: float
    certificate: str
    alpha: float | None
    what: EventKind
    text: str
    figures: Mapping[str, Any]
    action: Action
    hook: Hook = Hook.NONE
    number: int = 0
