"""Unanswered questions in the database.

A row's digest is an HMAC of the key's id and the question's digest, with a secret of the database:
without it, nobody can look up whether a question was asked.
"""

from __future__ import annotations

import hmac
import time
from collections.abc import Callable
from itertools import count

from sqlalchemy import bindparam, delete, select
from sqlalchemy.orm import Session

from rlcm_serve.solving.unanswered import UnansweredQuestions
from rlcm_serve.store.database import Database
from rlcm_serve.store.shared_secret import shared_secret
from rlcm_serve.store.unanswered.table import UnansweredRow

MOST_OF_KEY = 100_000
"""Questions that are remembered for one key; beyond it, the oldest are forgotten."""
_BETWEEN = 256
"""Questions that a process adds before it next deletes what is too old or too much."""
_SECRET = "questions"
_FIND = select(UnansweredRow.asked).where(
    UnansweredRow.digest == bindparam("digest"), UnansweredRow.asked > bindparam("oldest")
)


class StoredUnanswered(UnansweredQuestions):
    """Those of all processes that share a database.

    Args:
        database: holds the tables.
        limit: for how long a question is remembered, in seconds.
        clock: Unix time in seconds.
        most: questions that are remembered for one key.

    Raises:
        DatabaseRefused: the database cannot be used.
    """

    def __init__(
        self,
        database: Database,
        limit: float,
        clock: Callable[[], float] = time.time,
        most: int = MOST_OF_KEY,
    ) -> None:
        self.limit = limit
        self._database = database
        self._clock = clock
        self._most = most
        self._added = count()
        adding = database.insert(UnansweredRow)
        self._insert = adding.on_conflict_do_update(
            index_elements=[UnansweredRow.digest], set_={"asked": adding.excluded.asked}
        )
        self._secret = shared_secret(database, _SECRET)

    async def find(self, key_id: str | None, digest: bytes) -> float | None:
        """As `UnansweredQuestions.find`."""
        return await self._database.threads.check(self._find, self._keyed(key_id, digest))

    async def add(self, key_id: str | None, digest: bytes) -> None:
        """As `UnansweredQuestions.add`."""
        await self._database.threads.write(self._add, key_id or "", self._keyed(key_id, digest))

    def _keyed(self, key_id: str | None, digest: bytes) -> bytes:
        owner = b"anyone" if key_id is None else b"key " + key_id.encode()
        return hmac.digest(self._secret, digest + owner, "sha256")

    def _find(self, keyed: bytes) -> float | None:
        values = {"digest": keyed, "oldest": self._clock() - self.limit}
        with self._database.reading() as session:
            return session.scalar(_FIND, values)

    def _add(self, key_id: str, keyed: bytes) -> None:
        row = {"digest": keyed, "key_id": key_id, "asked": self._clock()}
        with self._database.session() as session:
            session.execute(self._insert, row)
            if next(self._added) % _BETWEEN == 0:
                self._forget(session, key_id)

    def _forget(self, session: Session, key_id: str) -> None:
        """Deletes what is too old, and what this key has too much."""
        session.execute(
            delete(UnansweredRow).where(UnansweredRow.asked <= self._clock() - self.limit)
        )
        of_key = select(UnansweredRow.asked).where(UnansweredRow.key_id == key_id)
        newest_first = of_key.order_by(UnansweredRow.asked.desc())
        beyond = session.scalar(newest_first.offset(self._most).limit(1))
        if beyond is not None:
            session.execute(
                delete(UnansweredRow).where(
                    UnansweredRow.key_id == key_id, UnansweredRow.asked <= beyond
                )
            )
