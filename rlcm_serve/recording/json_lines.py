"""Reads JSON Lines: one JSON value per line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NoReturn, Protocol, TypeVar

from rlcm_serve.errors import RequestRefused


class HasId(Protocol):
    """A row with an id."""

    @property
    def id(self) -> str: ...


Value = TypeVar("Value")
Row = TypeVar("Row", bound=HasId)


def parse_lines(
    lines: Iterable[bytes], parse: Callable[[Any], Value]
) -> Iterator[tuple[int, Value]]:
    """The number, from 1, and the parsed value of every line; blank lines are skipped.

    Args:
        lines: bytes, because a U+2028 in a text does not end a line.
        parse: may raise ValueError.

    Raises:
        ValueError: a line is not JSON or cannot be parsed; the message names the line.
    """
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                value = parse(json.loads(line, parse_constant=_refuse))
            except (ValueError, RecursionError) as error:
                raise ValueError(f"line {number}: {error}") from error
            yield number, value


def parse_rows(
    lines: Iterable[bytes], source: str, field: str, parse: Callable[[Any], Row], remedy: str
) -> Iterator[Row]:
    """The rows of JSON Lines, whose ids must differ; only the ids stay in memory.

    Args:
        lines: see `parse_lines`.
        source: name of the file, for messages.
        field: of `RequestRefused`.
        parse: makes a row of a JSON value; may raise ValueError.
        remedy: what a line must look like, for messages.

    Raises:
        RequestRefused: a line is malformed, an id comes twice, or there is no row. The message
            names the line.
    """
    ids: set[str] = set()
    try:
        for number, row in parse_lines(lines, parse):
            if row.id in ids:
                raise RequestRefused(
                    field,
                    f"{source}, line {number}: the id {row.id!r} comes twice; each id may come "
                    "once, and so may each problem without an id",
                )
            ids.add(row.id)
            yield row
    except ValueError as error:
        raise RequestRefused(field, f"{source}, {error}; {remedy}") from error
    if not ids:
        raise RequestRefused(field, f"{source} holds no problem: {remedy}")


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON: write null where there is no value")
