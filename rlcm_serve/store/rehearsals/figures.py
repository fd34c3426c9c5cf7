"""The figures of a rehearsal, each with its 95% interval.

Questions are the independent draws. The intervals are for one look at a time fixed beforehand, and
not, as those of a monitor, for all looks together.

What a level would have lost is known where it declines or stops at the same place, and elsewhere
only after a comparison. So answers count only if they had a place for one, which was decided before
anything of them was known. Otherwise a busy service would drop comparisons, and what is left would
be mostly declined. A comparison that had a place and gave no result counts as lost and wrong; the
lower ends of the intervals count it as neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from calibration.metrics.share_intervals import shares_over_problems
from calibration.report.intervals import Interval, ratio_interval


@dataclass(frozen=True, slots=True)
class Figure:
    """A share, of how many questions, and its interval; both None without any."""

    of: int
    value: float | None
    interval: Interval | None


class AnswerUnderLevel(NamedTuple):
    """What is known of an answer and a level; fields as in `Replayed` and `RehearsedAnswer`.

    `has_place` says whether it counts in what is lost and wrong: it had a place, and where shares
    for audit differ, it would have been drawn at the smallest one. `right` says whether the answer
    that was given is right; None without a label.
    """

    tokens: int
    tokens_at_least: int
    undecided: bool
    answers: bool | None
    agrees: bool | None
    has_place: bool | None
    right: bool | None


@dataclass(frozen=True, slots=True)
class LevelRehearsed:
    """What a level would have done; fields as in the wire type `RehearsedLevel`."""

    alpha: float
    questions: int
    undecided: int
    saved: Figure
    answered: Figure
    lost: Figure
    wrong: Figure
    missing: int


@dataclass(frozen=True, slots=True)
class RehearsalFigures:
    """A rehearsal; times are Unix times in seconds."""

    started: float
    ended: float | None
    levels: tuple[LevelRehearsed, ...]


def level_rehearsed(alpha: float, rows: Sequence[AnswerUnderLevel]) -> LevelRehearsed:
    """The figures of a level, from the answers that it was replayed on."""
    known = [row.answers for row in rows if row.answers is not None]
    labelled = [
        row for row in rows if row.has_place and row.right is not None and row.answers is not None
    ]
    answered = [row for row in labelled if row.answers]
    return LevelRehearsed(
        alpha=alpha,
        questions=len(rows),
        undecided=sum(row.undecided for row in rows),
        saved=_saved(rows),
        answered=_share(known),
        lost=_span(
            [bool(row.right) and not (row.answers and row.agrees) for row in labelled],
            [bool(row.right) and not _may_agree(row) for row in labelled],
        ),
        # An answer that differs from a wrong one may be right; that it is not is the worst case.
        wrong=_span(
            [not (row.agrees and row.right) for row in answered],
            [row.agrees is not None and row.agrees != row.right for row in answered],
        ),
        missing=sum(row.agrees is None for row in answered),
    )


def _may_agree(row: AnswerUnderLevel) -> bool:
    return bool(row.answers) and row.agrees is not False


def _saved(rows: Sequence[AnswerUnderLevel]) -> Figure:
    tokens_N = np.array([row.tokens for row in rows], dtype=float)
    least_N = np.array([row.tokens_at_least for row in rows], dtype=float)
    if not tokens_N.sum():
        return Figure(len(rows), None, None)
    kept = ratio_interval(least_N, tokens_N)
    turned = None if kept is None else (1 - min(kept[1], 1.0), 1 - kept[0])
    return Figure(len(rows), 1 - float(least_N.sum() / tokens_N.sum()), turned)


def _span(worst: Sequence[bool], best: Sequence[bool]) -> Figure:
    """A share at worst; its interval reaches from the lower end of the best case."""
    high, low = _share(worst), _share(best)
    if high.interval is None or low.interval is None:
        return high
    return Figure(high.of, high.value, (low.interval[0], high.interval[1]))


def _share(values: Sequence[bool]) -> Figure:
    if not values:
        return Figure(0, None, None)
    (share,) = shares_over_problems(np.array(values, dtype=float)[:, None], np.ones(len(values)))
    return Figure(len(values), share.value, share.interval)
