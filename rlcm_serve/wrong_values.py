"""Wrong values: what a message shows of them, and what to give instead, in plain words.

Pydantic's own words name types of Python.
"""

from __future__ import annotations

from collections.abc import Mapping
from reprlib import Repr
from typing import Any

_LONGEST_VALUE = 80
_REPR = Repr()
"""Leaves out what is cut off anyway: a value may be as long as the body that it came in."""
_REPR.maxlist = _REPR.maxdict = _LONGEST_VALUE
_REPR.maxstring = _REPR.maxlong = _REPR.maxother = 3 * _LONGEST_VALUE
_NUMBER, _WHOLE, _SWITCH = "give a number", "give a whole number", "give true or false"
_OBJECT, _LIST, _TEXT = "give a JSON object", "give a list", "give a text"
_BYTES = "give a number of bytes, or a size such as 2 MiB"

_REMEDIES = {
    "missing": "required, but missing",
    "bool_parsing": _SWITCH,
    "bool_type": _SWITCH,
    "int_parsing": _WHOLE,
    "int_type": _WHOLE,
    "int_from_float": _WHOLE,
    "float_parsing": _NUMBER,
    "float_type": _NUMBER,
    "finite_number": "give a finite number",
    "string_type": _TEXT,
    "list_type": _LIST,
    "dict_type": _OBJECT,
    "dataclass_type": _OBJECT,
    "model_type": _OBJECT,
    "model_attributes_type": _OBJECT,
    "extra_forbidden": "unknown: leave it out",
    "greater_than": "give more than {gt}",
    "greater_than_equal": "give {ge} or more",
    "less_than": "give less than {lt}",
    "less_than_equal": "give {le} or less",
    "too_short": "give {min_length} or more entries",
    "too_long": "give {max_length} entries or fewer",
    "string_too_short": "give {min_length} or more characters",
    "string_too_long": "give {max_length} characters or fewer",
    "literal_error": "give {expected}",
    "enum": "give {expected}",
    "byte_size": _BYTES,
    "byte_size_unit": _BYTES,
    "string_pattern_mismatch": "give a text of the form {pattern}",
    "union_tag_invalid": "give {expected_tags} as {discriminator}",
    "union_tag_not_found": "give {discriminator}",
}
"""By the type of pydantic's error; its context fills in the limits."""


def shown(value: object) -> str:
    """A value from the input, for an error message: its first 80 characters."""
    return cut(_REPR.repr(value))


def cut(text: str) -> str:
    """The first 80 characters of a text that may quote the input."""
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}..."


def remedy_of(found: Mapping[str, Any]) -> str:
    """What to give instead of a wrong value.

    Args:
        found: the error as pydantic has it.
    """
    kind, context = found["type"], found.get("ctx", {})
    if kind == "value_error":  # pydantic puts words before those of our validators
        return str(context["error"])
    remedy = _REMEDIES.get(kind)
    if remedy is None:
        return str(found["msg"])
    return remedy.format_map({name: _plain(limit) for name, limit in context.items()})


def _plain(limit: Any) -> Any:
    """A limit as people write it: 1, not 1.0."""
    return int(limit) if isinstance(limit, float) and limit.is_integer() else limit
