"""Error messages for invalid rollouts."""

from __future__ import annotations

import json

from rlcm_serve.aggregation.rollouts import ITEMS, Places
from rlcm_serve.errors import RequestRefused
from rlcm_serve.wrong_values import cut, shown

_WANTED: dict[str, tuple[tuple[type, ...], str]] = {
    "problem_id": ((str,), "give a string"),
    "answer": ((str, type(None)), "give a string, or null if there is no answer"),
    "confidence": ((int, float, type(None)), "give a number from 0 to 1"),
    "reference": ((str, type(None)), "give a string, or null if it is unknown"),
}
REQUIRED = ("problem_id", "answer")
"""What every rollout says."""
LONGEST_EXPLAINED = 2**20
"""Bytes of JSON that are read again to explain an error. All else waits meanwhile, and the objects
may take twenty times as much memory. The errors in longer JSON are those of the decoder."""
_START = 1024
"""Bytes of a text of which some are shown."""


def explain_text(
    text: bytes, row: int, places: Places, error: Exception, *, ignore_extra: bool
) -> RequestRefused:
    """The error for the JSON `text` of one rollout that a decoder refused with `error`."""
    start, why = text[:_START].decode(errors="replace"), cut(str(error))
    if len(text) > LONGEST_EXPLAINED:
        return places.refused(row, None, f"{shown(start)} cannot be read: {why}")
    try:
        item = json.loads(text)
    except (ValueError, RecursionError):
        return places.refused(row, None, f"{shown(start)} is not JSON ({why})")
    return explain_item(item, row, places, ignore_extra=ignore_extra) or places.refused(
        row, None, f"{shown(item)} cannot be read: {why}"
    )


def explain_array(
    text: bytes, first: int, error: Exception, *, ignore_extra: bool
) -> RequestRefused:
    """The error for a JSON array of rollouts, from number `first`, that a decoder refused."""
    try:
        items = json.loads(text) if len(text) <= LONGEST_EXPLAINED else []
    except (ValueError, RecursionError):
        items = []
    for row, item in enumerate(items, first):
        if found := explain_item(item, row, ITEMS, ignore_extra=ignore_extra):
            return found
    return ITEMS.refused(first, None, f"the JSON is invalid here or later ({cut(str(error))})")


def explain_item(
    item: object, row: int, places: Places, *, ignore_extra: bool
) -> RequestRefused | None:
    """The error for one rollout; None if it is valid."""
    if not isinstance(item, dict):
        return places.refused(
            row,
            None,
            f"{shown(item)} is not a rollout: give an object with problem_id, answer, confidence",
        )
    for field in REQUIRED:
        if field not in item:
            return places.refused(row, field, f"{field} is missing: {_WANTED[field][1]}")
    for field, (types, remedy) in _WANTED.items():
        value = item.get(field)
        # In Python, booleans are integers.
        if field in item and (not isinstance(value, types) or isinstance(value, bool)):
            return places.refused(row, field, f"{field} is {shown(value)}: {remedy}")
        if isinstance(value, int | float) and not 0 <= value <= 1:
            return places.refused(row, field, f"{field} is {shown(value)}: {remedy}")
    unknown = [field for field in item if field not in _WANTED]
    if unknown and not ignore_extra:
        name = cut(unknown[0]).encode(errors="replace").decode()  # no halves of surrogate pairs
        return places.refused(
            row, name, f"there is no field {shown(unknown[0])}: {unknown_remedy()}"
        )
    return None


def unknown_remedy() -> str:
    """The remedy for unknown fields."""
    return f"a rollout has {', '.join(_WANTED)}; leave it out, or set ignore_extra"
