"""What the answers to a file of questions say together."""

from __future__ import annotations

from collections import Counter
from typing import Any

_SAME_FOR_ALL = ("statement", "n_problems", "method", "covers", "does_not_cover", "verified")
"""Fields of a guarantee that depend only on the certificate and its level."""


class BatchSummary:
    """Counts the rows of a file of answers, and keeps each guarantee's statement once."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._statements: dict[tuple[str, float], str] = {}

    def add(self, row: dict[str, Any]) -> dict[str, Any]:
        """Counts a row.

        Returns:
            The row as the answers file has it: of its guarantee only the certificate and the
            levels.
        """
        self._counts["questions"] += 1
        if "error" in row:
            self._counts["failed"] += 1
            return row
        if row["answer"] is not None:
            self._counts["answered"] += 1
            if "correct" in row:
                self._counts["graded"] += 1
                self._counts["wrong"] += row["correct"] is False
        guarantee = row.get("guarantee")
        if guarantee is None:
            return row
        key = (guarantee["certificate"], guarantee["alpha_certified"])
        self._statements.setdefault(key, _stated(guarantee))
        short = {name: value for name, value in guarantee.items() if name not in _SAME_FOR_ALL}
        return row | {"guarantee": short}

    def counts(self) -> str:
        """The questions answered, wrong and failed, in one line."""
        n = self._counts
        text = f"{n['questions']} questions, {n['answered']} answered"
        if n["graded"]:
            share = n["wrong"] / n["graded"]
            text += f", {n['wrong']} of {n['graded']} wrong ({share:.1%})"
        if n["failed"]:
            text += f", {n['failed']} failed (their rows have `error`)"
        return text

    def statements(self) -> list[str]:
        """One line for each guarantee that rows were answered under: its statement and limits."""
        return [
            f"certificate {certificate}, alpha {alpha:g}: {said}"
            for (certificate, alpha), said in self._statements.items()
        ]


def _stated(guarantee: dict[str, Any]) -> str:
    limits = "; ".join(guarantee.get("does_not_cover", ()))
    said: str = guarantee["statement"]
    if limits:
        said += f" Not covered: {limits}."
    if verified := guarantee.get("verified"):
        said += f" Figures verified by: {verified}."
    return said
