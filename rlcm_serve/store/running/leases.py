"""Which process runs a calibration job: a lease in the database, renewed while the job runs.

A process that dies renews nothing, so another takes its job over. Leases decide only who works.
Recordings and results are stored once, whoever writes them. A lease that ends later than two leases
from now was taken before the clock was set back. It has ended.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from typing import Any

from sqlalchemy import ColumnElement, and_, delete, exists, not_, or_, select, update

from rlcm_serve.store.calibration_tables import CalibrationRow, LeaseRow
from rlcm_serve.store.database import Database
from rlcm_serve.store.job import UNFINISHED, Calibration

LEASE = 15.0
"""Seconds for which a job waits for a process that stopped renewing its lease."""


class Leases:
    """The leases of one process. May be used from any thread.

    Args:
        database: the processes that share it divide its jobs.
        seconds: from a renewal to the end of the lease.
    """

    def __init__(self, database: Database, seconds: float = LEASE) -> None:
        self.seconds = seconds
        self._database = database
        self._holder = secrets.token_hex(8)

    def free(self) -> list[str]:
        """The ids of the unfinished jobs that no other process runs, the oldest first."""
        with self._database.reading() as session:
            held = self._is_held(self._database.now(session))
            ours = or_(LeaseRow.job.is_(None), LeaseRow.holder == self._holder, not_(held))
            return list(
                session.scalars(
                    select(CalibrationRow.id)
                    .outerjoin(LeaseRow, LeaseRow.job == CalibrationRow.number)
                    .where(CalibrationRow.state.in_(UNFINISHED), ours)
                    .order_by(CalibrationRow.number)
                )
            )

    def has_busy_engine(self, job: Calibration) -> bool:
        """Whether a process with the job's model and probe runs another job, under any profile."""
        if job.fingerprint is None:
            return False
        engine = _engine_of(job.fingerprint.to_json())
        with self._database.reading() as session:
            running = (
                select(CalibrationRow.fingerprint)
                .join(LeaseRow, LeaseRow.job == CalibrationRow.number)
                .where(self._is_held(self._database.now(session)))
            )
            made_for = [one for one in session.scalars(running) if one is not None]
        return any(_engine_of(json.loads(one)) == engine for one in made_for)

    def claim(self, job: Calibration) -> bool:
        """Takes a job. False if it has ended, or another process runs it."""
        with self._database.session() as session:
            # Processes that claim at the same moment take turns at this row.
            row = select(CalibrationRow.state).where(CalibrationRow.id == job.id)
            if session.scalar(row.with_for_update()) not in UNFINISHED:
                return False
            now = self._database.now(session)
            others = self._is_held(now), LeaseRow.holder != self._holder
            if session.scalar(select(LeaseRow.job).where(LeaseRow.job == job.number, *others)):
                return False
            session.merge(LeaseRow(job=job.number, holder=self._holder, until=now + self.seconds))
            return True

    def renew(self, job: Calibration) -> bool:
        """Keeps a job. False if it has ended, or another process has taken it over."""
        runs = exists().where(CalibrationRow.id == job.id, CalibrationRow.state.in_(UNFINISHED))
        with self._database.session() as session:
            renewed = session.execute(
                update(LeaseRow)
                .where(LeaseRow.job == job.number, LeaseRow.holder == self._holder, runs)
                .values(until=self._database.now(session) + self.seconds)
                .returning(LeaseRow.job)
            )
            return renewed.scalar() is not None

    def release(self, job: Calibration) -> None:
        """Gives a job back, so that another process may go on at once."""
        with self._database.session() as session:
            ours = LeaseRow.job == job.number, LeaseRow.holder == self._holder
            session.execute(delete(LeaseRow).where(*ours))

    def _is_held(self, now: float) -> ColumnElement[bool]:
        return and_(LeaseRow.until > now, LeaseRow.until <= now + 2 * self.seconds)


def _engine_of(fingerprint: Mapping[str, Any]) -> tuple[Any, ...]:
    """What no profile changes: a process serves one model with one probe."""
    return tuple(fingerprint[part] for part in ("model", "probe", "tokenizer"))
