"""Deletes calibration jobs and what they recorded, in short transactions.

Other writes take turns with them. Deletion that was interrupted continues when it is asked again.
"""

from __future__ import annotations

from sqlalchemy import delete, select

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
        await database.threads.write(_delete_problems, database, job.number, first)


async def delete_job(database: Database, job: Calibration) -> None:
    """Deletes a job that has ended, with everything it stored; its certificate stays.

    Raises:
        DatabaseRefused: the database cannot be written; a part may be deleted.
    """
    await delete_recordings(database, job)
    await database.threads.write(_delete_row, database, job.number)


def _delete_problems(database: Database, job: int, first: int) -> None:
    last = first + AT_ONCE - 1
    with database.session() as session:
        recordings = RecordingRow.problem.between(first, last)
        session.execute(delete(RecordingRow).where(RecordingRow.job == job, recordings))
        problems = ProblemRow.index.between(first, last)
        session.execute(delete(ProblemRow).where(ProblemRow.job == job, problems))
        kinds = KindRow.index.between(first, last)
        session.execute(delete(KindRow).where(KindRow.job == job, kinds))


def _delete_row(database: Database, job: int) -> None:
    with database.session() as session:
        # Whoever still writes to the job ends first, so that all it wrote is deleted.
        row = select(CalibrationRow.number).where(CalibrationRow.number == job)
        session.execute(row.with_for_update())
        session.execute(delete(TracesRow).where(TracesRow.job == job))
        session.execute(delete(KindCertificateRow).where(KindCertificateRow.job == job))
        session.execute(delete(LogRow).where(LogRow.job == job))
        session.execute(delete(LeaseRow).where(LeaseRow.job == job))
        started = select(CalibrationRow.id).where(CalibrationRow.number == job)
        session.execute(delete(OwnerRow).where(OwnerRow.id.in_(started)))
        session.execute(delete(CalibrationRow).where(CalibrationRow.number == job))
