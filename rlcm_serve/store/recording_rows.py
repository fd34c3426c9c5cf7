"""A job's recordings as rows: the log that `rlcm_serve.recording.recorder` writes to."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import select
from sqlalchemy.dialects import postgresql, sqlite

from rlcm_serve.errors import Conflict
from rlcm_serve.recording.problems import LabelledProblem
from rlcm_serve.recording.recorder import Key, RecordedRollout
from rlcm_serve.store.calibration_tables import CalibrationRow, RecordingRow
from rlcm_serve.store.database import Database
from rlcm_serve.store.job import Calibration, JobState


class RecordingRows:
    """One job's finished recordings, each in a row of its own and in a transaction of its own.

    Token ids are not kept: traces hold none, and they are nearly all there is to a recording.
    """

    def __init__(
        self, database: Database, job: Calibration, problems: Sequence[LabelledProblem]
    ) -> None:
        self._database, self._job = database, job
        self._ids = [problem.id for problem in problems]
        self._index = {id_: index for index, id_ in enumerate(self._ids)}
        self._insert = sqlite.insert if database.is_sqlite else postgresql.insert

    def keys(self) -> set[Key]:
        """Which recordings are finished."""
        with self._database.reading() as session:
            rows = session.execute(
                select(RecordingRow.problem, RecordingRow.rollout).where(
                    RecordingRow.job == self._job.number
                )
            )
            return {(self._ids[problem], rollout) for problem, rollout in rows}

    def append(self, recording: RecordedRollout) -> None:
        """Keeps one recording; if there is one of its key already, that one counts.

        Raises:
            Conflict: the job is not being recorded any more.
        """
        slim = replace(recording, prompt=(), tokens=())
        with self._database.session() as session:
            # A lock against whoever cancels the job; SQLite has one writer anyway.
            state = session.scalar(
                select(CalibrationRow.state)
                .where(CalibrationRow.number == self._job.number)
                .with_for_update(read=True)
            )
            if state != JobState.RECORDING:
                raise Conflict(f"calibration {self._job.id} is {state}: it records nothing more")
            session.execute(
                self._insert(RecordingRow)
                .values(
                    job=self._job.number,
                    problem=self._index[recording.problem_id],
                    rollout=recording.rollout,
                    content=json.dumps(slim.to_json()),
                )
                .on_conflict_do_nothing()
            )
