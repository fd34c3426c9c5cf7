"""The draw of a shadow run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ShadowDraw:
    """Whether the full budget is run on after an answer; decided when the question is asked.

    Attributes:
        share: the probability with which the run could be drawn; 0 if there was no place for it.
        drawn: whether the draw chose it. A drawn run without a place is dropped.
    """

    share: float
    drawn: bool

    @property
    def runs(self) -> bool:
        """Whether there is a run."""
        return self.drawn and self.share > 0
