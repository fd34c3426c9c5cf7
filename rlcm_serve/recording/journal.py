"""What a run has finished, in a file, so that an interrupted run goes on where it stopped."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

from rlcm_serve.errors import Conflict, RequestRefused
from rlcm_serve.recording.file_lock import lock
from rlcm_serve.recording.problems import LabelledProblem
from rlcm_serve.recording.recorder import (
    Key,
    OnProgress,
    RecordedRollout,
    Recorder,
    record_missing,
    tell_nobody,
)


class Journal:
    """An append-only file of finished rows, plain JSON values, for one run's settings.

    A row that a kill has cut off is passed over, and will be made again. Until it is closed, the
    file is this run's alone.

    Raises:
        RequestRefused: the file was written under other settings.
        Conflict: another run is writing it.
    """

    def __init__(self, path: Path, settings: dict[str, Any]) -> None:
        self.path = path
        header = json.dumps(settings, sort_keys=True)
        if path.exists():
            with path.open() as file:
                stored = file.readline().rstrip("\n")
            if stored != header:
                raise RequestRefused(
                    "out",
                    f"{path} was written under other settings: {stored}, not {header}; delete it "
                    "to begin anew, or use the settings it was begun with",
                )
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            partial = path.with_name(f"{path.name}.partial")
            partial.write_text(header + "\n")
            partial.replace(path)  # a kill leaves no journal, or one with its header
        self._file = path.open("a")
        held = f"another run is writing {path}: wait for it, or stop it and begin again"
        try:
            lock(self._file, Conflict(held))
        except Conflict:
            self.close()
            raise
        self._cut_unfinished_row()

    def rows(self) -> Iterator[dict[str, Any]]:
        """What is finished."""
        with self.path.open() as file:
            next(file)
            for line in file:
                yield json.loads(line)

    def add(self, row: dict[str, Any]) -> None:
        """Adds one row, on a line of its own."""
        self._file.write(json.dumps(row) + "\n")
        self._file.flush()

    def close(self) -> None:
        """Lets other runs have the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _cut_unfinished_row(self) -> None:
        os.truncate(self.path, self.path.read_bytes().rfind(b"\n") + 1)


class RecordingJournal(Journal):
    """A journal of recordings."""

    def recordings(self) -> Iterator[RecordedRollout]:
        """What is finished."""
        return map(RecordedRollout.from_json, self.rows())

    def keys(self) -> set[Key]:
        """Which recordings are finished."""
        return {recording.key for recording in self.recordings()}

    def append(self, recording: RecordedRollout) -> None:
        """Adds one recording."""
        self.add(recording.to_json())


async def record_all(
    recorder: Recorder,
    problems: Sequence[LabelledProblem],
    rollouts: int,
    journal: RecordingJournal,
    progress: OnProgress = tell_nobody,
) -> list[RecordedRollout]:
    """Records `rollouts` rollouts of every problem that the journal does not hold yet.

    Returns:
        All recordings, in the order of problems and rollouts.

    Raises:
        EngineDead: the engine died; what was finished is in the journal.
        RequestRefused: a problem does not fit into the model's context.
    """
    await record_missing(recorder, problems, rollouts, journal, progress)
    recorded = {recording.key: recording for recording in journal.recordings()}
    return [recorded[problem.id, number] for problem in problems for number in range(rollouts)]
