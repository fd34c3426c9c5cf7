"""What each part of a profile accepts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rlcm_serve.core import MAX_TEMPERATURE

PROBLEM = "{problem}"
"""What a template has in the place of the question."""
_UNWRITABLE = re.compile("[\x00\ud800-\udfff]")
"""U+0000, which databases refuse, and halves of surrogate pairs, which no file can hold."""


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip()) and not _UNWRITABLE.search(value)


def _is_up_to(high: float) -> Callable[[Any], bool]:
    return lambda value: type(value) in (int, float) and 0 <= value <= high


def _is_count(least: int) -> Callable[[Any], bool]:
    return lambda value: type(value) is int and value >= least


def _is_json(value: Any) -> bool:
    """Whether a value is a JSON object: no dates, no infinite numbers, only texts as names."""
    try:
        return isinstance(value, Mapping) and json.loads(_dumped(value)) == dict(value)
    except (TypeError, ValueError):
        return False


def _dumped(value: Mapping[str, Any]) -> str:
    return json.dumps(dict(value), allow_nan=False)


ACCEPTED: dict[str, tuple[Callable[[Any], bool], str]] = {
    "system": (_is_text, "a text, or leave it out"),
    "template": (_is_text, f"a text with {PROBLEM} in it"),
    "variables": (_is_json, "a table of texts, numbers, truth values, lists and tables"),
    "thinking": (_is_text, "the name of a thinking format, or leave it out"),
    "temperature": (
        _is_up_to(MAX_TEMPERATURE),
        f"a number from 0 (greedy) to {MAX_TEMPERATURE:g}",
    ),
    "top_p": (
        lambda value: _is_up_to(1)(value) and value > 0,
        "a number above 0 and at most 1",
    ),
    "top_k": (_is_count(0), "a whole number of tokens, or 0 for all"),
    "min_p": (_is_up_to(1), "a number from 0 to 1"),
    "max_tokens": (_is_count(1), "a whole number of tokens from 1"),
    "answer_max_tokens": (_is_count(1), "a whole number of tokens from 1"),
    "extractor": (
        _is_text,
        "boxed, answer-line, text, code, regex:PATTERN, json:FIELD or module:object",
    ),
    "grader": (_is_text, "math, choice, exact or module:object"),
    "schema": (_is_json, "a JSON schema"),
    "adapter": (lambda value: isinstance(value, Path), "the path of a folder"),
}
"""For each part: whether it accepts a value that is not None, and what it accepts in words."""
