"""Error messages for invalid rollouts."""

from __future__ import annotations

import json

from rlcm_serve.aggregation.rollouts import Places
from rlcm_serve.errors import RequestRefused

_WANTED: dict[str, tuple[tuple[type, ...], str]] = {
    "problem_id": ((str,), "give a string"),
    "answer": ((str, type(None)), "give a string, or null if there is no answer"),
    "confidence": ((int, float, type(None)), "give a number from 0 to 1"),
    "reference": ((str, type(None)), "give a string, or null if it is unknown"),
}
_REQUIRED = ("problem_id", "answer")
_LONGEST_VALUE = 80


def explain_text(
    text: bytes, row: int, places: Places, error: Exception, *, ignore_extra: bool
) -> RequestRefused:
    """The error for the JSON `text` of one rollout that a decoder refused with `error`."""
    try:
        item = json.loads(text)
    except (ValueError, RecursionError):
        return places.refused(
            row, None, f"{_shown(text.decode(errors='replace'))} is not JSON ({error})"
        )
    return explain_item(item, row, places, ignore_extra=ignore_extra) or places.refused(
        row, None, f"{_shown(item)} cannot be read: {error}"
    )


def explain_item(
    item: object, row: int, places: Places, *, ignore_extra: bool
) -> RequestRefused | None:
    """The error for one rollout; None if it is valid."""
    if not isinstance(item, dict):
        return places.refused(
            row,
            None,
            f"{_shown(item)} is not a rollout: give an object with problem_id, answer, confidence",
        )
    for field in _REQUIRED:
        if field not in item:
            return places.refused(row, field, f"{field} is missing: {_WANTED[field][1]}")
    for field, (types, remedy) in _WANTED.items():
        value = item.get(field)
        # In Python, booleans are integers.
        if field in item and (not isinstance(value, types) or isinstance(value, bool)):
            return places.refused(row, field, f"{field} is {_shown(value)}: {remedy}")
        if isinstance(value, int | float) and not 0 <= value <= 1:
            return places.refused(row, field, f"{field} is {_shown(value)}: {remedy}")
    unknown = [field for field in item if field not in _WANTED]
    if unknown and not ignore_extra:
        return places.refused(
            row, unknown[0], f"there is no field {unknown[0]!r}: {unknown_remedy()}"
        )
    return None


def unknown_remedy() -> str:
    """The remedy for unknown fields."""
    return f"a rollout has {', '.join(_WANTED)}; leave it out, or set ignore_extra"


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}..."
