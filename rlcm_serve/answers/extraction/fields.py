"""Answers in a field of a JSON object."""

from __future__ import annotations

import json
import re
from typing import Any

from rlcm_serve.answers.extraction.base import Extractor
from rlcm_serve.answers.extraction.escapes import with_commands, without_commands
from rlcm_serve.errors import ProfileRefused

PREFIX = "json:"
MOST_FAILURES = 100
"""Braces that may begin an object and begin none. A text with more has no answer: each one may cost
as much time as the whole text."""
_BEGIN = re.compile(r'\{(?=[ \t\r\n]*+["}])')
_BRACES = re.compile(r"[{}]")
_ENDS = re.compile(r'[ \t\r\n]*+(?:[}]|,[ \t\r\n]*+(?:"|\Z)|\Z)')
"""What may follow a value in an object: its end, another member, or nothing yet."""
_SPACE = " \t\r\n"


class JsonExtractor(Extractor):
    r"""A field of the last JSON object that has it, wherever it is in a text.

    A text is taken as it is, and LaTeX in it as it was meant: `"\frac12"` as `"\\frac12"`. Any
    other value is its JSON, without blanks and with its numbers as written; null is no answer.

    Raises:
        ProfileRefused: the field has no name.
    """

    version = "2"

    def __init__(self, field: str) -> None:
        if not field:
            raise ProfileRefused(f"extractor is {PREFIX!r}: name the field, as in {PREFIX}answer")
        self.spec = f"{PREFIX}{field}"
        self.opening = f"{{{json.dumps(field, ensure_ascii=False)}: "
        self._field = field

    def find(self, text: str) -> str | None:
        """The field of the last object that has it."""
        answer = None
        for found in _objects(with_commands(text)):
            answer = _written(found.get(self._field)) or answer
        return answer

    def find_cut(self, text: str) -> str | None:
        """As `find`, before the first brace that never closes: what is inside it is no answer."""
        return self.find(text[: _first_open(text)])

    def close(self, continuation: str, complete: bool = True) -> str | None:
        """The value that the continuation begins with, if it has ended.

        What follows must be a comma or the end of the object, or nothing: 3 is not the value of
        `3/4}`, nor 1 that of `1,250 people}`.
        """
        text = with_commands(continuation.lstrip(_SPACE))
        decoded = _decode(text, 0)
        if decoded is None:
            return None
        value, end = decoded
        if not _ENDS.match(text, end):
            return None
        # A number may go on where the text was cut.
        is_open = end == len(text) and isinstance(value, (bool, _Number))
        return None if is_open and not complete else _written(value)

    def shown(self, continuation: str, answer: str) -> str:
        """The object with this field alone."""
        value, _ = _decode(with_commands(continuation.lstrip(_SPACE)), 0) or (answer, 0)
        field = json.dumps(self._field, ensure_ascii=False)
        return _whole(without_commands(f"{{{field}: {_dumped(value)}}}"))


class _Number(str):
    """A number of JSON, as it is written."""


def _objects(text: str) -> list[dict[str, Any]]:
    """The outermost JSON objects of a text; none if more than `MOST_FAILURES` braces fail."""
    objects: list[dict[str, Any]] = []
    end = failures = 0
    for brace in _BEGIN.finditer(text):
        if brace.start() < end:
            continue
        if decoded := _decode(text, brace.start()):
            found, end = decoded
            objects.append(found)
        elif (failures := failures + 1) > MOST_FAILURES:
            return []
    return objects


def _first_open(text: str) -> int:
    """The place of the first brace that never closes; the end of the text if all close."""
    places: list[int] = []
    for found in _BRACES.finditer(text):
        if found.group() == "{":
            places.append(found.start())
        elif places:
            places.pop()
    return places[0] if places else len(text)


def _decode(text: str, at: int) -> tuple[Any, int] | None:
    """The JSON value at a place and where it ends; None if there is none."""
    try:
        return _DECODER.raw_decode(text, at)
    except (ValueError, RecursionError):
        return None


def _written(value: Any) -> str | None:
    if isinstance(value, str):
        return _whole(value).strip() or None
    try:
        return None if value is None else _dumped(value)
    except RecursionError:  # Python nests less deeply than the decoder
        return None


def _dumped(value: Any) -> str:
    """The JSON of a decoded value, without blanks."""
    pieces: list[str] = []
    _dump(value, pieces)
    return _whole("".join(pieces))


def _dump(value: Any, pieces: list[str]) -> None:
    if isinstance(value, dict):
        for at, (name, member) in enumerate(value.items()):
            pieces += ["{" if at == 0 else ",", json.dumps(name, ensure_ascii=False), ":"]
            _dump(member, pieces)
        pieces.append("}" if value else "{}")
    elif isinstance(value, list):
        for at, member in enumerate(value):
            pieces.append("[" if at == 0 else ",")
            _dump(member, pieces)
        pieces.append("]" if value else "[]")
    elif isinstance(value, _Number):
        pieces.append(value)
    else:
        pieces.append(json.dumps(value, ensure_ascii=False))


def _whole(text: str) -> str:
    """The text without half surrogate pairs, as of an escaped emoji, which no file can hold."""
    return text.encode("utf-8", "replace").decode()


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


_DECODER = json.JSONDecoder(parse_float=_Number, parse_int=_Number, parse_constant=_refuse)
