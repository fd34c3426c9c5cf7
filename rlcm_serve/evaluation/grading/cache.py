"""Verdicts on disk, so that an interrupted evaluation grades nothing twice."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from rlcm_serve.answers.grading.base import Grader, Pair
from rlcm_serve.events import OnProgress, ignore_progress

CHUNK = 64
"""Pairs graded between two writes: the most that a kill can lose."""


class Grades:
    """Verdicts by grader, answer and reference, in an append-only file with one line for each.

    A line that a kill cut off is removed at the next start. Malformed lines are skipped, and their
    pairs are graded again.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        os.truncate(path, path.read_bytes().rfind(b"\n") + 1)
        self._verdicts: dict[str, bool] = {}
        for line in path.read_text().splitlines():
            key, _, verdict = line.partition(" ")
            if verdict in ("0", "1"):
                self._verdicts[key] = verdict == "1"

    def get(self, grader: str, pair: Pair) -> bool | None:
        """The verdict, or None if it is unknown."""
        return self._verdicts.get(_key(grader, pair))

    def add(self, grader: str, verdicts: Mapping[Pair, bool]) -> None:
        """Writes verdicts to the file."""
        found = {_key(grader, pair): right for pair, right in verdicts.items()}
        with self.path.open("a") as file:
            file.write("".join(f"{key} {right:d}\n" for key, right in found.items()))
        self._verdicts |= found


def grade_missing(
    grader: Grader, pairs: Sequence[Pair], cache: Grades, on_progress: OnProgress = ignore_progress
) -> dict[Pair, bool]:
    """The verdict on every pair; unknown ones are graded and stored.

    Args:
        on_progress: counts different pairs.
    """
    verdicts = {pair: cache.get(grader.name, pair) for pair in pairs}
    missing = [pair for pair, known in verdicts.items() if known is None]
    total = len(verdicts)
    on_progress(total - len(missing), total)
    for start in range(0, len(missing), CHUNK):
        chunk, before = missing[start : start + CHUNK], total - len(missing) + start
        graded = grader.grade(chunk, partial(_pass_on, on_progress, before, total))
        found = dict(zip(chunk, graded, strict=True))
        cache.add(grader.name, found)
        verdicts |= found
    return {pair: bool(verdict) for pair, verdict in verdicts.items()}


def _pass_on(on_progress: OnProgress, before: int, total: int, done: int, _: int) -> None:
    on_progress(before + done, total)


def _key(grader: str, pair: Pair) -> str:
    return hashlib.sha256(json.dumps([grader, *pair]).encode()).hexdigest()[:32]
