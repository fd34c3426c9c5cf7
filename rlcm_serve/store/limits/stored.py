"""The buckets of keys in the database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import select, tuple_, update
from sqlalchemy.orm import Session

from rlcm_serve.admission.budgets import Claim, Settled, filled
from rlcm_serve.store.database import Database
from rlcm_serve.store.limits.table import BudgetRow


class StoredBudgets:
    """The `Budgets` of all processes that share a database.

    Args:
        database: holds the table.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._insert = database.insert(BudgetRow)

    async def settle(self, claims: Sequence[Claim]) -> list[Settled]:
        """As `Budgets.settle`."""
        return await self._database.threads.write(self._settle, claims)

    def _settle(self, claims: Sequence[Claim]) -> list[Settled]:
        settled: list[Settled] = []
        with self._database.session() as session:
            known = self._locked(session, claims)
            now = self._database.now(session)
            if len(known) < len(claims):  # of keys that nobody has asked for before
                full = [_row(claim, claim.per_minute, now) for claim in _in_order(claims)]
                session.execute(self._insert.on_conflict_do_nothing(), full)
                known = self._locked(session, claims)
            for claim in claims:
                level, at = known[claim.key_id, claim.kind]
                settled.append(claim.settle(filled(level, now - at, claim.per_minute)))
            rows = (_row(claim, one.level, now) for claim, one in zip(claims, settled, strict=True))
            session.execute(update(BudgetRow), list(rows))
        return settled

    def _locked(
        self, session: Session, claims: Sequence[Claim]
    ) -> dict[tuple[str, str], tuple[float, float]]:
        """The known buckets, which other processes cannot change until the end."""
        asked = [(claim.key_id, claim.kind) for claim in claims]
        rows = select(BudgetRow.key_id, BudgetRow.kind, BudgetRow.level, BudgetRow.at)
        rows = rows.where(tuple_(BudgetRow.key_id, BudgetRow.kind).in_(asked))
        # In one order, so that no two processes wait for each other.
        rows = rows.order_by(BudgetRow.key_id, BudgetRow.kind).with_for_update()
        return {(key_id, kind): (level, at) for key_id, kind, level, at in session.execute(rows)}


def _in_order(claims: Sequence[Claim]) -> list[Claim]:
    return sorted(claims, key=lambda claim: (claim.key_id, claim.kind))


def _row(claim: Claim, level: float, at: float) -> dict[str, Any]:
    return {"key_id": claim.key_id, "kind": claim.kind, "level": level, "at": at}
