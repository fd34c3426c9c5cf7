"""What was found of a model, one sentence each, with what to do about it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from rlcm_serve.errors import RlcmError


class Verdict(StrEnum):
    """What a finding means for serving the model."""

    FINE = "fine"
    NOTE = "note"
    """It can be served, but something is missing or unusual."""
    REFUSED = "refused"
    """It cannot be served like this."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        topic: what it is about, such as "thinking format".
        verdict: what it means.
        text: what was found.
        remedy: what to do; "" if there is nothing to do.
    """

    topic: str
    verdict: Verdict
    text: str
    remedy: str = ""


class Refused(Exception):
    """What follows cannot be looked at without what was refused; the finding is noted."""


@dataclass
class Findings:
    """Findings in the order in which they were made."""

    found: list[Finding] = field(default_factory=list)

    def fine(self, topic: str, text: str) -> None:
        """Notes something that is as it should be."""
        self.found.append(Finding(topic, Verdict.FINE, text))

    def note(self, topic: str, text: str, remedy: str = "") -> None:
        """Notes something that is missing or unusual."""
        self.found.append(Finding(topic, Verdict.NOTE, text, remedy))

    def refuse(self, topic: str, text: str, remedy: str) -> None:
        """Notes something that keeps the model from being served."""
        self.found.append(Finding(topic, Verdict.REFUSED, text, remedy))

    @contextmanager
    def refusing(self, topic: str, remedy: str) -> Iterator[None]:
        """Notes an error of the service as a refusal; what follows is left out (`Refused`)."""
        try:
            yield
        except RlcmError as error:
            self.refuse(topic, str(error), remedy)
            raise Refused from error

    @property
    def can_be_served(self) -> bool:
        """Whether nothing was refused."""
        return all(one.verdict is not Verdict.REFUSED for one in self.found)

    def to_json(self) -> dict[str, Any]:
        """The findings as plain values."""
        return {
            "can_be_served": self.can_be_served,
            "findings": [asdict(one) for one in self.found],
        }
