"""The figures of a rehearsal, each with its 95% interval.

Questions are the independent draws. The intervals are for one look at a time fixed beforehand, and
not, as those of a monitor, for all looks together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibration.metrics.share_intervals import shares_over_problems
from calibration.report.intervals import Interval, ratio_interval


@dataclass(frozen=True, slots=True)
class Figure:
    """A share, of how many questions, and its interval; both None without any."""

    of: int
    value: float | None
    interval: Interval | None


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


@dataclass(frozen=True, slots=True)
class RehearsalFigures:
    """A rehearsal; times are Unix times in seconds."""

    started: float
    ended: float | None
    levels: tuple[LevelRehearsed, ...]


def level_rehearsed(alpha: float, rows: Sequence[tuple[Any, ...]]) -> LevelRehearsed:
    """The figures of a level.

    Args:
        alpha: of the level.
        rows: of each answer the tokens, the least tokens under the level, whether that is
            undecided, whether the level answers (None if not known), whether it agrees with the
            answer given (None if not known), whether that was audited, and whether it is right.
    """
    known = [answers for _, _, _, answers, *_ in rows if answers is not None]
    # The level's own answer is known where it declines, or where it was compared.
    labelled = [
        (answers, agrees, right)
        for *_, answers, agrees, audited, right in rows
        if audited and right is not None and (answers is False or agrees is not None)
    ]
    answered = [(agrees, right) for answers, agrees, right in labelled if answers]
    return LevelRehearsed(
        alpha=alpha,
        questions=len(rows),
        undecided=sum(undecided for _, _, undecided, *_ in rows),
        saved=_saved(rows),
        answered=_share(known),
        lost=_share([right and not (answers and agrees) for answers, agrees, right in labelled]),
        # An answer that differs from a wrong one may be right; that it is not is the worst case.
        wrong=_share([not (agrees and right) for agrees, right in answered]),
    )


def _saved(rows: Sequence[tuple[Any, ...]]) -> Figure:
    tokens_N = np.array([row[0] for row in rows], dtype=float)
    least_N = np.array([row[1] for row in rows], dtype=float)
    if not tokens_N.sum():
        return Figure(len(rows), None, None)
    kept = ratio_interval(least_N, tokens_N)
    turned = None if kept is None else (1 - min(kept[1], 1.0), 1 - kept[0])
    return Figure(len(rows), 1 - float(least_N.sum() / tokens_N.sum()), turned)


def _share(values: Sequence[bool]) -> Figure:
    if not values:
        return Figure(0, None, None)
    (share,) = shares_over_problems(np.array(values, dtype=float)[:, None], np.ones(len(values)))
    return Figure(len(values), share.value, share.interval)
