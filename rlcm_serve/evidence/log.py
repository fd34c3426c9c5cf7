"""Writes records, in batches, in a thread of its own. An answer is sent once its record is on disk.

The queue needs no limit: every question waits for its record, so it holds as many as are running.
"""

from __future__ import annotations

import asyncio
import logging
import os
import queue
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibration.files import flush
from rlcm_serve.errors import EvidenceUnavailable, SignatureRefused
from rlcm_serve.evidence import chains
from rlcm_serve.evidence.records import (
    NOTHING,
    Answered,
    digest_of_engine,
    engine_record,
    now,
    record_of,
    sealed,
)
from rlcm_serve.signing import load_signing_key

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from rlcm_serve.settings import Settings

SEGMENT_BYTES = 8 * 2**20
SEGMENT_SECONDS = 86_400.0
"""A segment is closed at this size or age, whichever comes first."""
LONGEST_WAIT = 10.0
"""Seconds for which an answer waits for its record."""
PAUSE = 5.0
"""Seconds after a failure in which questions are refused before they cost tokens."""
_BATCH = 256

OnBatch = Callable[[int, float, bool], None]
"""Told of each batch: its records, the seconds it took, and whether it was written."""
_Item = tuple[Answered, asyncio.AbstractEventLoop, "asyncio.Future[None]"]
_log = logging.getLogger(__name__)


def ignore_batch(records: int, seconds: float, written: bool) -> None:
    """Ignores a batch."""


class EvidenceLog:
    """The chain of this process, in a folder that other processes may share.

    Args:
        folder: of all chains; it is created, for this user only.
        texts: whether questions and answers are recorded too.
        key: signs the heads of closed segments.
        days: how long records are kept; None for ever.
        on_batch: called in the writing thread.
        segment_bytes: size at which a segment is closed.

    Raises:
        EvidenceUnavailable: the folder cannot be written.
    """

    def __init__(
        self,
        folder: Path,
        *,
        texts: bool = False,
        key: Ed25519PrivateKey | None = None,
        days: float | None = None,
        on_batch: OnBatch = ignore_batch,
        segment_bytes: int = SEGMENT_BYTES,
    ) -> None:
        self.folder = folder
        self._texts, self._key, self._days = texts, key, days
        self._on_batch, self._segment_bytes = on_batch, segment_bytes
        self._sequence, self._previous = 0, NOTHING
        self._failed_at = float("-inf")
        self._engines: set[str] = set()  # those of the open segment
        self._queue: queue.SimpleQueue[_Item | None] = queue.SimpleQueue()
        try:
            after = self._finish_others()
            self.chain, self._lock = chains.begin(folder)
            self._open_segment()
            start = {
                "kind": "start",
                "time": now(),
                "chain": self.chain.name,
                "after": [asdict(end) for end in after],
                "version": version("rlcm-serve"),
            }
            self._append([start])
            self._cut()
        except OSError as error:
            raise EvidenceUnavailable(
                f"the evidence folder {folder} cannot be written: {error}; check evidence_folder"
            ) from error
        self._thread = threading.Thread(target=self._work, name="evidence", daemon=True)
        self._thread.start()

    def require_writable(self) -> None:
        """Returns unless writing has just failed, so that no question is answered in vain.

        Raises:
            EvidenceUnavailable: it has.
        """
        if time.monotonic() - self._failed_at < PAUSE:
            raise EvidenceUnavailable("the last record could not be written")

    async def keep(self, answered: Answered) -> None:
        """Returns once the record of this answer is on disk.

        Raises:
            EvidenceUnavailable: it could not be written; the answer must not be given.
        """
        loop = asyncio.get_running_loop()
        written: asyncio.Future[None] = loop.create_future()
        self._queue.put((answered, loop, written))
        try:
            async with asyncio.timeout(LONGEST_WAIT):
                await written
        except TimeoutError:
            _log.error("evidence was not written within %g s", LONGEST_WAIT)
            self._failed_at = time.monotonic()
            raise EvidenceUnavailable(f"the disk took over {LONGEST_WAIT:g} s") from None

    def close(self) -> None:
        """Writes what waits, and closes and signs the chain. May be called twice."""
        self._queue.put(None)
        self._thread.join(LONGEST_WAIT)

    def _work(self) -> None:
        while batch := self._next():
            began, error = time.monotonic(), None
            try:
                self._write([item[0] for item in batch])
            except Exception as failure:  # the thread must go on  # noqa: BLE001
                _log.error("evidence cannot be written", exc_info=failure)
                self._failed_at = time.monotonic()
                error = EvidenceUnavailable("a record could not be written")
            self._on_batch(len(batch), time.monotonic() - began, error is None)
            for _, loop, written in batch:
                with suppress(RuntimeError):  # the loop is closed
                    loop.call_soon_threadsafe(_settle, written, error)
        with suppress(OSError):
            self._close_segment()
        os.close(self._file)
        os.close(self._lock)

    def _next(self) -> list[_Item]:
        """Everything that waits, at least one; empty at the end."""
        batch: list[_Item] = []
        item = self._queue.get()
        while item is not None:
            batch.append(item)
            if len(batch) == _BATCH or self._queue.empty():
                return batch
            item = self._queue.get()
        if batch:
            self._queue.put(None)  # the end comes after this batch
        return batch

    def _write(self, batch: Sequence[Answered]) -> None:
        age = time.monotonic() - self._opened_at
        if self._size and (self._size >= self._segment_bytes or age >= SEGMENT_SECONDS):
            self._close_segment()
            full = self._file
            self._open_segment()
            os.close(full)
            self._cut()
        records: list[dict[str, Any]] = []
        engines = {digest_of_engine(one.engine): one.engine for one in batch}
        fresh = engines.keys() - self._engines
        records += [engine_record(engines[digest]) for digest in sorted(fresh)]
        records += [record_of(one, texts=self._texts) for one in batch]
        self._append(records)
        self._engines |= fresh

    def _append(self, records: Sequence[dict[str, Any]]) -> None:
        """Adds records and waits for the disk. What could not be written whole is removed."""
        if os.fstat(self._file).st_size != self._size:  # an earlier removal failed
            os.ftruncate(self._file, self._size)
        sequence, previous, lines = self._sequence, self._previous, []
        for record in records:
            sequence += 1
            line, previous = sealed({**record, "sequence": sequence, "previous": previous})
            lines.append(line)
        content = memoryview(b"".join(lines))
        try:
            done = 0
            while done < len(content):
                done += os.write(self._file, content[done:])
            os.fsync(self._file)
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._file, self._size)
            raise
        self._size += len(content)
        self._sequence, self._previous = sequence, previous

    def _close_segment(self) -> None:
        """Writes the head of the open segment, unless it is empty: its first write has failed.

        The head of an empty one would be for the record before it.
        """
        if self._size:
            chains.write_head(self._segment, self._sequence, self._previous, self._key)

    def _open_segment(self) -> None:
        """Begins a segment. If it cannot be opened, the one before stays the open one.

        Each segment has the records of its engines, because earlier ones may be deleted.
        """
        segment = chains.segment_path(self.chain, self._sequence + 1)
        file = os.open(segment, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
        try:
            flush(self.chain)  # otherwise a crash may lose the file with all its records
        except OSError:
            os.close(file)
            raise
        self._segment, self._file, self._size = segment, file, 0
        self._engines = set()
        self._opened_at = time.monotonic()

    def _finish_others(self) -> list[chains.Head]:
        """Closes the chains that no process writes any more; returns the heads that none names.

        A chain whose head cannot be read is skipped. What it names counts as unnamed.
        """
        ends: list[chains.Head] = []
        named: set[str] = set()
        for chain in chains.chains_in(self.folder):
            try:
                with chains.unwritten(chain) as is_over:
                    if is_over and (end := chains.end_of(chain, self._key)) is not None:
                        ends.append(end)
            except SignatureRefused as error:
                _log.error("evidence: the new chain does not name chain %s: %s", chain.name, error)
                continue
            named |= {head.chain for head in chains.named_by(chain)}
        return [end for end in ends if end.chain not in named]

    def _cut(self) -> None:
        """Deletes segments that are older than they are kept, where their heads can be read."""
        if self._days is None:
            return
        limit = datetime.now(UTC) - timedelta(days=self._days)
        before = limit.isoformat(timespec="milliseconds")
        for chain in chains.chains_in(self.folder):
            try:
                if chain == self.chain:
                    chains.cut(chain, before, self._key, keep_last=True)
                    continue
                with chains.unwritten(chain) as is_over:
                    if is_over:
                        chains.cut(chain, before, self._key, keep_last=False)
            except SignatureRefused as error:
                _log.error("evidence: nothing of chain %s is deleted: %s", chain.name, error)


def _settle(written: asyncio.Future[None], error: EvidenceUnavailable | None) -> None:
    if written.done():  # the question was cancelled
        return
    if error is None:
        written.set_result(None)
    else:
        written.set_exception(error)


def open_log(settings: Settings, on_batch: OnBatch) -> EvidenceLog | None:
    """The log that the settings ask for; None if they ask for none.

    Raises:
        EvidenceUnavailable: the folder cannot be written.
        SignatureRefused: the key cannot be read.
    """
    if not settings.evidence:
        return None
    path = settings.evidence_key
    return EvidenceLog(
        settings.evidence_path,
        texts=settings.evidence_texts,
        key=None if path is None else load_signing_key(path),
        days=settings.evidence_days,
        on_batch=on_batch,
    )
