"""The familiarity check of one question: a guarantee is for questions like the calibration's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from calibration.traces.fingerprint import Fingerprint
from rlcm_serve.core import NoGuarantee, OnUnfamiliar, PromptReading
from rlcm_serve.engine.contract import EngineIdentity
from rlcm_serve.solving.guarantees import Terms


class Declined(Exception):
    """The question is unfamiliar, and the caller wants no answer then."""


def is_familiar(engine: EngineIdentity | Fingerprint, familiarity: float | None) -> bool:
    """Whether a question with this familiarity may have a guarantee.

    Without a familiarity reading in the engine, every question may.
    """
    if not engine.familiarity:
        return True
    return familiarity is not None and familiarity > engine.familiarity_cutoff


@dataclass(slots=True)
class FamiliarityGate:
    """Takes the reading of a question's prompt from whichever sample brings it first.

    All samples have the same prompt, so one reading decides for the question. Without a familiarity
    reading in the engine, every question passes.

    Attributes:
        identity: of the engine; has the cutoff.
        on_unfamiliar: what the caller wants for an unfamiliar question.
        on_known: called once the familiarity is known.
        familiarity: the p-value; None until it is read, and without a reading.
    """

    identity: EngineIdentity
    on_unfamiliar: OnUnfamiliar
    on_known: Callable[[], None] = lambda: None
    familiarity: float | None = None

    def read(self, reading: PromptReading) -> None:
        """Takes a sample's reading.

        Raises:
            Declined: the question is unfamiliar, and must not be answered then.
        """
        if self.familiarity is None:
            self.familiarity = reading.familiarity
            self.on_known()
        if not self.passes and self.on_unfamiliar is OnUnfamiliar.ABSTAIN:
            raise Declined

    @property
    def passes(self) -> bool:
        """Whether the question may have a guarantee."""
        return is_familiar(self.identity, self.familiarity)

    def apply(self, terms: Terms) -> Terms:
        """The terms after the reading: without a guarantee for an unfamiliar question."""
        if self.passes:
            return terms
        reasons = [self._reason] if terms.guarantee else [terms.no_guarantee_reason, self._reason]
        joined = "; ".join(reason for reason in reasons if reason)
        return terms.without(joined, NoGuarantee.UNFAMILIAR)

    @property
    def _reason(self) -> str:
        if self.familiarity is None:
            return "the engine did not read whether the question is like the calibration problems"
        declined = self.on_unfamiliar is OnUnfamiliar.ABSTAIN
        return (
            "the question is unlike the calibration problems: its familiarity is "
            f"{self.familiarity:.2g}, and questions with at most "
            f"{self.identity.familiarity_cutoff:.2g} get no guarantee"
            + ("; it was not answered, as on_unfamiliar requests" if declined else "")
        )
