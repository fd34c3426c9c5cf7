"""Aggregation from file to file, in JSON lines or Parquet."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
from filelock import lock_descriptor

from rlcm_serve.aggregation.aggregation import MEMORY, Aggregation
from rlcm_serve.aggregation.formats.decoding import RolloutDecoder
from rlcm_serve.aggregation.formats.parquet import ParquetResults, read_parquet
from rlcm_serve.aggregation.results import Summary, to_json_lines
from rlcm_serve.aggregation.rollouts import LINES, ROWS
from rlcm_serve.aggregation.rules import VoteOptions
from rlcm_serve.errors import Conflict, RequestRefused

PIPE = Path("-")
"""Standard input or output, in JSON lines."""
_BLOCK = 4 * 2**20
_LINES = (".jsonl", ".ndjson")

OnProgress = Callable[[int, int | None], None]
"""Called with the bytes or rows read so far, and with their total if it is known."""


def aggregate_file(
    source: Path,
    out: Path,
    options: VoteOptions,
    *,
    ignore_extra: bool = False,
    memory: int = MEMORY,
    on_progress: OnProgress = lambda done, total: None,
) -> Summary:
    """Counts the votes of a file of rollouts; the results are written completely or not at all.

    Args:
        source: JSON lines or Parquet, by suffix; or PIPE.
        out: the file for the results, in the same way.
        ignore_extra: whether to ignore further fields or columns; otherwise they are an error.
        memory: bytes of rows to keep in memory before they go to disk.

    Raises:
        RequestRefused: a row or the file cannot be read.
        Conflict: another run is writing `out`.
        OSError: a file cannot be opened or written.
    """
    from_parquet, to_parquet = _is_parquet(source, "file"), _is_parquet(out, "out")
    read = read_parquet if from_parquet else _read_lines
    places = ROWS if from_parquet else LINES
    with (
        Aggregation(options, places=places, memory=memory) as aggregation,
        written_whole(out) as file,
        ParquetResults(file) if to_parquet else nullcontext(_LineResults(file)) as results,
    ):
        try:
            for rollouts in read(source, ignore_extra=ignore_extra, on_progress=on_progress):
                for found in aggregation.add(rollouts):
                    results.write(found)
            for found in aggregation.finish():
                results.write(found)
        except RequestRefused as error:
            name = "standard input" if source == PIPE else source
            raise RequestRefused(error.field, f"{name}: {error}") from error
    return aggregation.summary


@contextmanager
def written_whole(out: Path) -> Iterator[BinaryIO]:
    """A file that is renamed to `out` when it is complete; for PIPE, standard output.

    A killed run leaves `.OUT.partial` behind, which the next run overwrites.

    Raises:
        Conflict: another run is writing it.
    """
    if out == PIPE:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    out.parent.mkdir(parents=True, exist_ok=True)
    partial = out.with_name(f".{out.name}.partial")
    with partial.open("ab") as file:
        if not lock_descriptor(file.fileno(), blocking=False):
            raise Conflict(
                f"another run is writing {out}: wait until it ends, or write to another file"
            )
        try:
            file.truncate(0)
            yield file
            file.flush()
            os.fsync(file.fileno())
            partial.replace(out)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise


def _is_parquet(path: Path, field: str) -> bool:
    if path != PIPE and path.suffix not in (*_LINES, ".parquet"):
        raise RequestRefused(
            field,
            f"{path} is neither JSON lines nor Parquet: name it .jsonl or .parquet, or give -",
        )
    return path.suffix == ".parquet"


def _read_lines(
    path: Path, *, ignore_extra: bool, on_progress: OnProgress
) -> Iterator[pa.RecordBatch]:
    decoder = RolloutDecoder(ignore_extra=ignore_extra)
    if path == PIPE:
        yield from decoder.read_lines(_blocks(sys.stdin.buffer, None, on_progress))
        return
    with path.open("rb") as file:
        yield from decoder.read_lines(_blocks(file, path.stat().st_size, on_progress))


def _blocks(file: BinaryIO, total: int | None, on_progress: OnProgress) -> Iterator[bytes]:
    done = 0
    while block := file.read(_BLOCK):
        done += len(block)
        on_progress(done, total)
        yield block


class _LineResults:
    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def write(self, results: pa.RecordBatch) -> None:
        self._file.writelines(to_json_lines(results))
