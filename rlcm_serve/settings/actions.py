"""What is done about alarms, for all certificates and for single ones."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Self, get_args

ActionName = Literal["withdraw", "smaller-level", "warn", "none"]
ACTIONS: tuple[ActionName, ...] = get_args(ActionName)
ALARMS = ("risk", "drift")
_ID = re.compile("[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class AlarmActions:
    """The action for each kind of alarm, which a certificate may have for itself.

    Attributes:
        default: by kind of alarm.
        of_certificate: by id of the certificate and kind of alarm.
    """

    default: dict[str, str]
    of_certificate: dict[tuple[str, str], str] = field(default_factory=dict)

    @classmethod
    def parse(cls, risk: str, drift: str, others: Sequence[str] = ()) -> Self:
        """The actions of the settings `risk_alarm`, `drift_alarm` and `alarm_actions`.

        Raises:
            ValueError: an entry is malformed; the message names it.
        """
        actions = cls({"risk": risk, "drift": drift})
        for entry in others:
            name, _, action = entry.partition("=")
            id_, _, alarm = name.partition(":")
            if not _ID.fullmatch(id_) or alarm not in ALARMS or action not in ACTIONS:
                raise ValueError(
                    f"alarm_actions has {entry!r}: give ID:risk=ACTION or ID:drift=ACTION, with "
                    "the id of a certificate, such as 571b667eda0c, and "
                    f"{', '.join(ACTIONS[:-1])} or {ACTIONS[-1]}"
                )
            actions.of_certificate[id_, alarm] = action
        return actions

    def of(self, certificate: str, alarm: str) -> str:
        """The action for an alarm of this certificate (its id)."""
        return self.of_certificate.get((certificate, alarm), self.default[alarm])
