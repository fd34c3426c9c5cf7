"""Which process runs the monitors: a lease in the database, renewed while it does."""

from __future__ import annotations

import secrets

from sqlalchemy import select, update

from rlcm_serve.store.answers.table import BettingRow
from rlcm_serve.store.database import Database

LEASE = 40.0
"""Seconds for which the monitors wait for a process that stopped renewing its lease."""
_NAME = "monitors"


class MonitorsTurn:
    """One process's claim to run the monitors. A process that dies renews nothing.

    A lease that ends later than two from now was taken before the clock was set back. It has ended.

    Attributes:
        holder: name of this process in the database.
    """

    def __init__(self, database: Database) -> None:
        self.holder = secrets.token_hex(8)
        self._database = database
        self._renewed = 0.0  # on the database's clock

    def claim(self, now: float) -> bool:
        """Takes or renews the lease. False if another process holds it."""
        if 0 <= now - self._renewed < LEASE / 3:
            return True
        with self._database.reading() as session:
            held = session.scalar(select(BettingRow).where(BettingRow.name == _NAME))
        if held is not None and self._is_of_another(held, now):
            return False
        with self._database.session() as session:
            row = session.get(BettingRow, _NAME, with_for_update=True)
            if row is not None and self._is_of_another(row, now):
                return False
            looked = now if row is None else row.looked
            session.merge(
                BettingRow(name=_NAME, holder=self.holder, until=now + LEASE, looked=looked)
            )
        self._renewed = now
        return True

    def _is_of_another(self, row: BettingRow, now: float) -> bool:
        return row.holder != self.holder and now < row.until <= now + 2 * LEASE

    def renew(self, now: float) -> None:
        """Renews the lease if this process holds it; takes it from no other and not anew."""
        with self._database.session() as session:
            mine = BettingRow.name == _NAME, BettingRow.holder == self.holder
            session.execute(update(BettingRow).where(*mine).values(until=now + LEASE))

    def note_look(self, now: float) -> None:
        """Stores that a look which began at this time has ended."""
        with self._database.session() as session:
            mine = BettingRow.name == _NAME, BettingRow.holder == self.holder
            session.execute(update(BettingRow).where(*mine).values(looked=now))
