"""Finds the record of an answer by its id. The id holds a time, so few segments are searched."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from rlcm_serve.errors import SignatureRefused
from rlcm_serve.evidence.chains import (
    LONGEST_LINE,
    chains_in,
    head_path,
    parse,
    read_head,
    segments_of,
)
from rlcm_serve.evidence.records import time_in

SLACK = 60.0
"""Seconds by which clocks may differ."""


def find(folder: Path, id_: str, longest: float) -> dict[str, Any] | None:
    """The record of the answer with this id; None if there is none. Reads files, so it blocks.

    Args:
        folder: of the chains.
        id_: of the answer.
        longest: most seconds between the id and the record.
    """
    made = time_in(id_)
    if made is None:
        return None
    wanted = f'"id":"{id_}"'.encode()
    for segment in _segments(folder, made - SLACK, made + longest + SLACK):
        try:
            record = _search(segment, wanted)
        except (OSError, ValueError):  # it was deleted in the meantime, or is empty
            continue
        if record is not None and record.get("kind") == "answer" and record.get("id") == id_:
            return record
    return None


def _segments(folder: Path, since: float, until: float) -> Iterator[Path]:
    """The segments with records from this time, the newest first."""
    for chain in reversed(chains_in(folder)):
        for segment in reversed(segments_of(chain)):
            try:
                with segment.open("rb") as file:
                    began = _seconds(parse(file.readline(LONGEST_LINE))["time"])
            except (OSError, ValueError, KeyError):
                continue
            if began > until:
                continue
            if _closed_before(segment, since):
                break
            yield segment


def _closed_before(segment: Path, moment: float) -> bool:
    """Whether its head says so. Without one that can be read, the segment has to be searched."""
    try:
        return _seconds(read_head(head_path(segment))[0].time) < moment
    except (SignatureRefused, ValueError):
        return False


def _search(segment: Path, wanted: bytes) -> dict[str, Any] | None:
    with segment.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
        at = text.find(wanted)
        if at < 0:
            return None
        text.seek(text.rfind(b"\n", 0, at) + 1)
        return parse(text.readline())


def _seconds(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()
