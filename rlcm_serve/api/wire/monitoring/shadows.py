"""Wire type of a level's shadow runs."""

from __future__ import annotations

from pydantic import Field

from rlcm_serve.api.wire.base import Wire


class ShadowNow(Wire):
    """How often the full budget gives another answer than the early exit. It needs no labels."""

    questions: int = Field(examples=[4700])
    """Number of answers that the figure is about: those after which the full budget could be run
    on.
    """
    drawn: int = Field(examples=[240])
    """Number of answers that were drawn for it."""
    dropped: int = Field(examples=[3])
    """Number of drawn answers without a run, because there was no place for it when the question
    was asked.
    """
    waiting: int = Field(examples=[2])
    """Number of runs that have not ended."""
    missing: int = Field(examples=[1])
    """Number of runs that ended without a result. The test counts them as agreeing."""
    agree: int = Field(examples=[222])
    """Number of runs that gave the same answer, or none."""
    disagree: int = Field(examples=[12])
    """Number of runs that gave another answer."""
    disagreement: float | None = Field(examples=[0.052])
    """Share of the answers for which the full budget gives another one; null before the first run.
    It is at least the share that only the full budget answers correctly (`regret`).
    """
    low: float = Field(examples=[0.021])
    """Lower end of its confidence sequence, which holds however often you look."""
    high: float = Field(examples=[0.11])
    """Upper end of the confidence sequence. With its confidence, the regret so far is at most this,
    among the answers for which there was a place for a run.
    """
    log_wealth: float = Field(examples=[-1.2])
    """Natural logarithm of the evidence that the share is above alpha."""
    threshold: float = Field(examples=[4.38])
    """The `log_wealth` from which on the share counts as above alpha."""
    above: bool = Field(examples=[False])
    """Whether the share was found above alpha. The regret may be above it then, or not."""
    above_at: str | None = Field(examples=[None])
    """When it was, as an ISO 8601 time in UTC; null if it was not."""
