"""Deletes calibration jobs and what they recorded, in short transactions.

Other writes take turns with them. Deletion that was interrupted continues when it is asked again.
A job that another process has deleted stays so.
"""

from __future__ import annotations

from sqlalchemy import delete

from rlcm_serve.store.calibration_tables import (
    CalibrationRow,
    KindCertificateRow,
    KindRow,
    LeaseRow,
    LogRow,
    OwnerRow,
    ProblemRow,
    RecordingRow,
    TracesRow,
)
from rlcm_serve.store.calibrations import is_locked
from rlcm_serve.store.database import Database
from rlcm_serve.store.job import Calibration

AT_ONCE = 50
"""Problems whose recordings are deleted in one transaction."""


async def delete_recordings(database: Database, job: Calibration) -> None:
    """Deletes the labelled problems and the recordings of a job that has ended.

    Raises:
        DatabaseRefused: the database cannot be written; a part may be deleted.
    """
    for first in range(0, job.n_problems, AT_ONCE):
        await database.threads.write(_delete_problems, database, job, first)


async def delete_job(database: Database, job: Calibration) -> None:
    """Deletes a job that has ended, with everything it stored; its certificate stays.

    Raises:
        DatabaseRefused: the database cannot be written; a part may be deleted.
    """
    await delete_recordings(database, job)
    await database.threads.write(_delete_row, database, job)


def _delete_problems(database: Database, job: Calibration, first: int) -> None:
    last, number = first + AT_ONCE - 1, job.number
    with database.session() as session:
        if not is_locked(session, job):
            return
        recordings = RecordingRow.problem.between(first, last)
        session.execute(delete(RecordingRow).where(RecordingRow.job == number, recordings))
        problems = ProblemRow.index.between(first, last)
        session.execute(delete(ProblemRow).where(ProblemRow.job == number, problems))
        kinds = KindRow.index.between(first, last)
        session.execute(delete(KindRow).where(KindRow.job == number, kinds))


def _delete_row(database: Database, job: Calibration) -> None:
    number = job.number
    with database.session() as session:
        # Whoever still writes to the job ends first, so that all it wrote is deleted.
        if not is_locked(session, job):
            return
        session.execute(delete(TracesRow).where(TracesRow.job == number))
        session.execute(delete(KindCertificateRow).where(KindCertificateRow.job == number))
        session.execute(delete(LogRow).where(LogRow.job == number))
        session.execute(delete(LeaseRow).where(LeaseRow.job == number))
        session.execute(delete(OwnerRow).where(OwnerRow.id == job.id))
        session.execute(delete(CalibrationRow).where(CalibrationRow.number == number))
