"""Recorded questions that travel with a certificate: a reader can try its levels on them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RecordedQuestion:
    """One recorded rollout of one problem at full budget: readings in order, the final one last.

    Attributes:
        id: the problem's.
        question: its text; None if it was not given.
        tokens: reasoning tokens at each reading.
        confidence: raw confidence there, so that every certified policy stops where the engine
            would.
        answer_tokens: tokens of the answer that stopping there would give.
        right: of each reading, "1" if its answer is right, "0" if it is wrong, and "-" if it cannot
            be read: stopping there would give none.
    """

    id: str
    question: str | None
    tokens: tuple[int, ...]
    confidence: tuple[float, ...]
    answer_tokens: tuple[int, ...]
    right: str


@dataclass(frozen=True, slots=True)
class RecordedSeries:
    """A small sample of recorded questions whose figures are close to those of the whole series.

    It illustrates the figures of the series and is no evidence of its own.

    Attributes:
        on_test: whether they are test problems, which the fit did not use, or those of the
            calibration.
        n_problems: problems of the whole series.
        n_rollouts: rollouts of the whole series.
        questions: the sample, each from another problem.
    """

    on_test: bool
    n_problems: int
    n_rollouts: int
    questions: tuple[RecordedQuestion, ...]
