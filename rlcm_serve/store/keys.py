"""API keys: creation, revocation, and the check at every request.

A key is `rlcm_<id>_<secret>`, shown once and stored as a digest. The id finds the row. The secret
has 256 random bits, so its SHA-256 cannot be reversed, and needs neither a salt nor a slow hash.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import re
import secrets
import time
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

from sqlalchemy import select

from rlcm_serve.errors import AccessDenied, DatabaseRefused, NotFound, NotReady, RequestRefused
from rlcm_serve.store.caller import NO_LIMITS, Caller, Limits, Scope
from rlcm_serve.store.key_table import KeyRecord, KeyRow, KeyTermsRow

if TYPE_CHECKING:
    from rlcm_serve.store.database import Database

__all__ = ["Caller", "KeyRecord", "Keys", "Limits", "Scope"]

FRESH = 1.0
"""Seconds for which keys are cached, and so the longest delay of a revocation."""
PAUSE = 0.2
"""Shortest time in seconds between two reads of the database, however many unknown keys arrive."""
READ_WITHIN = 10.0
"""Seconds in which the database must give its keys."""
LONGEST_NAME = 200
LONGEST_GROUP = 64
_KEY = re.compile(r"rlcm_([0-9a-f]{8})_([0-9a-f]{64})")
_NO_DIGEST = "0" * 64
_log = logging.getLogger(__name__)


class Keys:
    """The keys of one database.

    `caller_of` serves requests. It caches all keys for a second, so a request waits for the
    database only if it is the first one for a while, or if its key is unknown. The other methods
    are for commands; they block.

    Args:
        database: holds the table of keys.
        clock: monotonic time in seconds.
    """

    def __init__(self, database: Database, clock: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._clock = clock
        self._known: dict[str, KeyRecord] = {}
        self._read_at = float("-inf")
        self._failed: tuple[float, str] | None = None  # when the last failed read began, and why
        self._reading = asyncio.Lock()
        self._used: dict[str, date] = {}
        self._writing: set[asyncio.Task[None]] = set()

    def create(
        self,
        name: str,
        scopes: Iterable[Scope],
        limits: Limits = NO_LIMITS,
        cache_group: str | None = None,
    ) -> tuple[str, KeyRecord]:
        """Creates a key; returns its text, which is not stored anywhere, and its record.

        Raises:
            RequestRefused: the name or the group is empty or too long, or there is no scope.
        """
        if not name.strip() or len(name) > LONGEST_NAME:
            raise RequestRefused(
                "name", f"the name is {name!r}: say whose key it is in 1 to {LONGEST_NAME} letters"
            )
        if cache_group is not None and not 0 < len(cache_group) <= LONGEST_GROUP:
            raise RequestRefused(
                "cache_group",
                f"cache_group is {cache_group!r}: give 1 to {LONGEST_GROUP} letters, or leave it "
                "out",
            )
        chosen = frozenset(scopes)
        if not chosen:
            raise RequestRefused("scopes", f"no scope is given: {', '.join(Scope)}")
        key_id, secret = secrets.token_hex(4), secrets.token_hex(32)
        now = datetime.now(UTC)
        record = KeyRecord(
            key_id, _digest(secret), name.strip(), chosen, limits, now, cache_group=cache_group
        )
        with self._database.session() as session:
            session.add_all([KeyRow.of(record), KeyTermsRow.of(record)])
        return f"rlcm_{key_id}_{secret}", record

    def all(self) -> list[KeyRecord]:
        """Every key ever created, the oldest first."""
        with self._database.reading() as session:
            both = select(KeyRow, KeyTermsRow).outerjoin(KeyTermsRow, KeyTermsRow.id == KeyRow.id)
            rows = session.execute(both.order_by(KeyRow.created, KeyRow.id))
            return [row.record(terms) for row, terms in rows]

    def revoke(self, key_id: str) -> KeyRecord:
        """Revokes a key; a running service notices within `FRESH` seconds.

        Raises:
            NotFound: there is no such key.
        """
        with self._database.session() as session:
            row = session.get(KeyRow, key_id)
            if row is None:
                raise NotFound(f"no key has the id {key_id!r}: `rlcm keys list` shows them")
            if row.revoked is None:  # else the first time counts
                row.revoked = datetime.now(UTC).isoformat()
            return row.record(session.get(KeyTermsRow, key_id))

    def any_active(self) -> bool:
        """Whether any key is not revoked."""
        return any(key.revoked is None for key in self.all())

    async def caller_of(self, text: str) -> Caller:
        """The caller with this key.

        Raises:
            AccessDenied: the key is unknown or revoked; the error does not say which.
            NotReady: the database cannot be read.
        """
        matched = _KEY.fullmatch(text)
        record = await self._find(matched[1]) if matched else None
        expected = record.digest if record else _NO_DIGEST
        is_right = hmac.compare_digest(_digest(matched[2] if matched else ""), expected)
        if record is None or not is_right or record.revoked is not None:
            raise AccessDenied(
                "the API key is not valid: it may be mistyped or revoked; an operator lists keys "
                "with `rlcm keys list` and creates one with `rlcm keys new`"
            )
        self._note_use(record)
        return Caller(record.id, record.scopes, record.limits, record.cache_group)

    async def close(self) -> None:
        """Waits for unfinished writes."""
        await asyncio.gather(*self._writing, return_exceptions=True)

    async def _find(self, key_id: str) -> KeyRecord | None:
        arrived = self._clock()
        if key_id not in self._known or arrived - self._read_at > FRESH:
            async with self._reading:
                if self._failed is not None and self._failed[0] >= arrived:
                    raise NotReady(self._failed[1])  # those that waited need not try again each
                if self._read_at < arrived:  # no read since this request arrived
                    await asyncio.sleep(self._read_at + PAUSE - self._clock())
                    await self._read()
        return self._known.get(key_id)

    async def _read(self) -> None:
        began = self._clock()
        try:
            async with asyncio.timeout(READ_WITHIN):
                known = await self._database.threads.check(self.all)
        except DatabaseRefused as error:
            _log.error("the keys cannot be read: %s", error)
            self._failed = began, f"its keys cannot be read: {error.public}"
            raise NotReady(self._failed[1]) from error
        except Exception as error:
            _log.exception("the keys cannot be read")
            self._failed = began, "its database of keys cannot be read"
            raise NotReady(self._failed[1]) from error
        self._known = {key.id: key for key in known}
        self._read_at = began

    def _note_use(self, key: KeyRecord) -> None:
        """Records the day of use once, in the background."""
        today = datetime.now(UTC).date()
        if today in (self._used.get(key.id), key.last_used):
            return
        self._used[key.id] = today
        writing = asyncio.create_task(self._database.threads.write(self._write_use, key.id, today))
        self._writing.add(writing)
        writing.add_done_callback(self._written)

    def _write_use(self, key_id: str, day: date) -> None:
        with self._database.session() as session:
            if row := session.get(KeyRow, key_id):
                row.last_used = day.isoformat()

    def _written(self, writing: asyncio.Task[None]) -> None:
        self._writing.discard(writing)
        if not writing.cancelled() and (error := writing.exception()):
            _log.error("the last use of a key could not be recorded", exc_info=error)


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
