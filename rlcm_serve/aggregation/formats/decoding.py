"""Reads rollouts from JSON lines or from a JSON array."""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator, Sequence

import msgspec
import numpy as np
import pyarrow as pa

from rlcm_serve.aggregation.formats.explaining import explain_array, explain_text
from rlcm_serve.aggregation.rollouts import LINES, rollouts_of
from rlcm_serve.errors import RequestRefused

LONGEST_LINE = 16 * 2**20  # bytes
_PIECE = 2**18
"""Bytes of an array that are searched or decoded at once; other threads can run in between."""
_BETWEEN_ITEMS = re.compile(rb"\}\s*(,)\s*\{")
_LONGEST_BETWEEN = 2**12
"""Bytes between two items; with more white space, the array may not be divided there."""
_FAULTS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class _Rollout(msgspec.Struct, gc=False):
    problem_id: str
    answer: str | None
    confidence: float | None = None
    reference: str | None = None


class _ExactRollout(_Rollout, gc=False, forbid_unknown_fields=True):
    """Refuses further fields."""


class RolloutDecoder:
    """Reads rollouts.

    Args:
        ignore_extra: whether to ignore unknown fields. Otherwise they are an error, because one may
            be a misspelled `reference`.
    """

    def __init__(self, *, ignore_extra: bool = False) -> None:
        kind = _Rollout if ignore_extra else _ExactRollout
        self._ignore_extra = ignore_extra
        self._line = msgspec.json.Decoder(kind)
        self._array = msgspec.json.Decoder(list[kind])  # type: ignore[valid-type]

    def read_lines(self, blocks: Iterable[bytes]) -> Iterator[pa.RecordBatch]:
        """The rollouts of JSON lines; blocks may end anywhere, and blank lines are ignored.

        Raises:
            RequestRefused: a line is not a rollout, or is too long.
        """
        first = 1
        rest = bytearray()  # grows in place, so that a long line in small blocks takes no longer
        for block in without_mark(blocks):
            end, newline, start = block.rpartition(b"\n")
            if newline:
                rest += end
                whole = bytes(rest)
                rest.clear()
                yield self._read_block(whole, first)
                first += whole.count(b"\n") + 1
            rest += start
            if len(rest) > LONGEST_LINE:
                raise LINES.refused(first, None, f"give at most {LONGEST_LINE} bytes")
        if rest:
            yield self._read_block(bytes(rest), first)

    def read_array(self, text: bytes | msgspec.Raw) -> Iterator[pa.RecordBatch]:
        """The rollouts of a JSON array without surrounding white space.

        Raises:
            RequestRefused: the text is not an array, or an item is not a rollout.
        """
        view = memoryview(text)
        if bytes(view[:1]) != b"[" or bytes(view[-1:]) != b"]":
            shown = bytes(view[:80]).decode(errors="replace")
            raise RequestRefused("rollouts", f"rollouts is {shown}: give an array of objects")
        start, first, size = 1, 0, _PIECE
        while start < len(view):
            # Finds what looks like the end of an item. If it is inside a string, the piece is not
            # valid JSON. So a piece that is valid JSON ends between two items.
            comma = _find_comma(view, start + size)
            end = len(view) - 1 if comma is None else comma
            piece = b"[%b]" % bytes(view[start:end])
            try:
                rollouts = self._array.decode(piece)
            except _FAULTS as error:
                if comma is not None and not isinstance(error, msgspec.ValidationError):
                    size *= 2
                    continue
                raise explain_array(piece, first, error, ignore_extra=self._ignore_extra) from error
            yield _batch(rollouts, range(first, first + len(rollouts)))
            start, first, size = end + 1, first + len(rollouts), _PIECE

    def _read_block(self, block: bytes, first: int) -> pa.RecordBatch:
        try:
            rollouts = self._line.decode_lines(block)
        except _FAULTS:
            return self._read_slowly(block, first)
        if len(rollouts) != block.count(b"\n") + 1:
            return self._read_slowly(block, first)
        return _batch(rollouts, range(first, first + len(rollouts)))

    def _read_slowly(self, block: bytes, first: int) -> pa.RecordBatch:
        """Reads line by line, because some lines are blank or invalid."""
        rollouts, rows = [], []
        for row, line in enumerate(block.split(b"\n"), first):
            if not line.strip():
                continue
            try:
                rollouts.append(self._line.decode(line))
            except _FAULTS as error:
                raise explain_text(
                    line, row, LINES, error, ignore_extra=self._ignore_extra
                ) from error
            rows.append(row)
        return _batch(rollouts, rows)


def without_mark(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """The text without the UTF-8 byte order mark that some programs begin it with."""
    start, rest = b"", iter(blocks)
    for block in rest:
        start += block
        if len(start) >= len(BOM_UTF8):
            break
    yield start.removeprefix(BOM_UTF8)
    yield from rest


def _find_comma(view: memoryview, start: int) -> int | None:
    """The first comma from `start` on that seems to be between two items."""
    for at in range(start, len(view), _PIECE):
        found = _BETWEEN_ITEMS.search(view, at, at + _PIECE + _LONGEST_BETWEEN)
        if found:
            return found.start(1)
    return None


def _batch(rollouts: Sequence[_Rollout], rows: Sequence[int]) -> pa.RecordBatch:
    return rollouts_of(
        [rollout.problem_id for rollout in rollouts],
        [rollout.answer for rollout in rollouts],
        [rollout.confidence for rollout in rollouts],
        [rollout.reference for rollout in rollouts],
        rows=np.array(rows, dtype=np.int64),
    )
