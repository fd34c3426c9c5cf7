"""A file of finished work, so that an interrupted run continues where it stopped."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Generic, Self

from filelock import lock_descriptor

from rlcm_serve.errors import Conflict, RequestRefused
from rlcm_serve.events import OnProgress, ignore_progress
from rlcm_serve.recording.problems import LabelledProblem
from rlcm_serve.recording.recorder import Recording, RecordsRollouts, record_missing
from rlcm_serve.recording.rollouts import Key

_BLOCK = 1 << 16


class Journal:
    """An append-only file of JSON rows, and the settings of the run.

    The settings are its first line, or in a file of their own, so that it holds rows alone. A row
    that a kill cut off is removed when the journal is opened, and its work is done again.
    The file is locked until the journal is closed or the process dies.

    Args:
        path: of the rows.
        settings: of the run.
        header: file for the settings; None puts them into the first line of `path`.

    Raises:
        RequestRefused: the file was written with other settings.
        Conflict: another run is writing the file.
    """

    def __init__(self, path: Path, settings: dict[str, Any], header: Path | None = None) -> None:
        self.path = path
        self._has_header = header is None
        path.parent.mkdir(parents=True, exist_ok=True)
        _require_same(header or path, settings)
        self._file = path.open("a")
        if not lock_descriptor(self._file.fileno(), blocking=False):
            self.close()
            raise Conflict(f"another run is writing {path}: wait until it ends, or stop it")
        os.truncate(path, _end_of_last_line(path))

    def rows(self) -> Iterator[dict[str, Any]]:
        """The finished rows."""
        return (row for _, row in self.located())

    def located(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """The finished rows, each with its place in the file for `at`."""
        with self.path.open("rb") as file:
            place = len(file.readline()) if self._has_header else 0
            for line in file:
                yield place, json.loads(line)
                place += len(line)

    def at(self, places: Iterable[int]) -> Iterator[dict[str, Any]]:
        """The rows at these places."""
        with self.path.open("rb") as file:
            for place in places:
                file.seek(place)
                yield json.loads(file.readline())

    def add(self, row: dict[str, Any]) -> None:
        """Adds one row on its own line."""
        self._file.write(json.dumps(row) + "\n")
        self._file.flush()

    def close(self) -> None:
        """Releases the lock."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _require_same(path: Path, settings: dict[str, Any]) -> None:
    """Writes the settings into a new file, or compares them with the first line of an old one."""
    header = json.dumps(settings, sort_keys=True)
    if path.exists():
        with path.open() as file:
            stored = file.readline().rstrip("\n")
        if stored != header:
            raise RequestRefused(
                "out",
                f"{path} was written with other settings: {stored}, not {header}; delete it "
                "to start again, or use the settings it was written with",
            )
    else:
        partial = path.with_name(f"{path.name}.partial")
        partial.write_text(header + "\n")
        partial.replace(path)  # a kill leaves either no journal or one with its header


def _end_of_last_line(path: Path) -> int:
    """The size of the file without a last line that was cut off."""
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        while end:
            start = max(0, end - _BLOCK)
            file.seek(start)
            if (found := file.read(end - start).rfind(b"\n")) >= 0:
                return start + found + 1
            end = start
    return 0


class RecordingJournal(Journal, Generic[Recording]):
    """A journal of recorded rollouts.

    Args:
        kind: class of the rollouts.
        stored: keys of rollouts that are already kept elsewhere.
    """

    def __init__(
        self,
        kind: type[Recording],
        path: Path,
        settings: dict[str, Any],
        stored: Collection[Key] = (),
    ) -> None:
        super().__init__(path, settings)
        self._kind, self._stored = kind, stored

    def recordings(self) -> Iterator[Recording]:
        """The rollouts in the journal."""
        return map(self._kind.from_json, self.rows())

    def keys(self) -> set[Key]:
        """The keys of the rollouts in the journal and of those kept elsewhere."""
        return {*self._stored, *(recording.key for recording in self.recordings())}

    def append(self, recording: Recording, /) -> None:
        """Adds one rollout."""
        self.add(recording.to_json())


async def record_all(
    recorder: RecordsRollouts[Recording],
    problems: Sequence[LabelledProblem],
    rollouts: int,
    journal: RecordingJournal[Recording],
    progress: OnProgress = ignore_progress,
) -> list[Recording]:
    """Records `rollouts` rollouts of every problem, except those that the journal already holds.

    Returns:
        All recordings, in the order of problems and rollouts.

    Raises:
        EngineDead: the engine died; the journal holds what was finished.
        RequestRefused: a problem does not fit into the model's context, or the grader refuses its
            reference; the message names it, and nothing was recorded.
    """
    await recorder.check_all(problems)
    await record_missing(recorder, problems, rollouts, journal, progress)
    recorded = {recording.key: recording for recording in journal.recordings()}
    return [recorded[problem.id, number] for problem in problems for number in range(rollouts)]
