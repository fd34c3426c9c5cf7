"""A job's recordings as rows: the recording log of `rlcm_serve.recording.recorder`."""

from __future__ import annotations

import json
from collections.abc import Sequence

from msgspec.structs import replace
from sqlalchemy import select

from rlcm_serve.errors import Conflict
from rlcm_serve.recording.problems import LabelledProblem
from rlcm_serve.recording.rollouts import Key, RecordedRollout
from rlcm_serve.store.calibration_tables import CalibrationRow, RecordingRow
from rlcm_serve.store.database import Database
from rlcm_serve.store.job import Calibration, JobState


class RecordingRows:
    """One job's finished recordings; each is one row, written in one transaction.

    Token ids are not stored: traces do not contain them, and they are most of a recording's size.
    """

    def __init__(
        self, database: Database, job: Calibration, problems: Sequence[LabelledProblem]
    ) -> None:
        self._database, self._job = database, job
        self._ids = [problem.id for problem in problems]
        self._index = {id_: index for index, id_ in enumerate(self._ids)}

    def keys(self) -> set[Key]:
        """The keys of all finished recordings."""
        with self._database.reading() as session:
            rows = session.execute(
                select(RecordingRow.problem, RecordingRow.rollout).where(
                    RecordingRow.job == self._job.number
                )
            )
            return {(self._ids[problem], rollout) for problem, rollout in rows}

    def append(self, recording: RecordedRollout) -> None:
        """Stores a recording, unless its key is already stored.

        Raises:
            Conflict: the job has stopped recording, or was deleted.
        """
        slim = replace(recording, prompt=(), tokens=())
        with self._database.session() as session:
            # Locks out a cancellation of the job; SQLite has only one writer anyway.
            state = session.scalar(
                select(CalibrationRow.state)
                .where(CalibrationRow.id == self._job.id)
                .with_for_update(read=True)
            )
            if state != JobState.RECORDING:
                now = "was deleted" if state is None else f"is {state}"
                raise Conflict(f"calibration {self._job.id} {now}: it records nothing more")
            session.execute(
                self._database.insert(RecordingRow)
                .values(
                    job=self._job.number,
                    problem=self._index[recording.problem_id],
                    rollout=recording.rollout,
                    content=json.dumps(slim.to_json()),
                )
                .on_conflict_do_nothing()
            )
