"""API keys: made, shown once, kept as digests, checked at every request.

A key is `rlcm_<id>_<secret>`. The id finds the row; the secret has 256 random bits, so its plain
SHA-256 cannot be searched for, and needs no salt and no slow hash.
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

from rlcm_serve.errors import AccessDenied, NotFound, NotReady, RequestRefused
from rlcm_serve.store.caller import NO_LIMITS, Caller, Limits, Scope
from rlcm_serve.store.key_table import (
    KeyRecord,
    all_keys,
    find_key,
    insert_key,
    mark_used,
    revoke_key,
)

if TYPE_CHECKING:
    from rlcm_serve.store.database import Database

__all__ = ["Caller", "KeyRecord", "Keys", "Limits", "Scope"]

FRESH = 5.0
"""Seconds for which what was read from the database is believed: how long a revocation may take."""
PAUSE = 0.2
"""Seconds between two readings at least, however many unknown keys are tried."""
LONGEST_NAME = 200
_KEY = re.compile(r"rlcm_([0-9a-f]{8})_([0-9a-f]{64})")
_NO_DIGEST = "0" * 64
_log = logging.getLogger(__name__)


class Keys:
    """The keys of one database.

    `caller_of` serves requests: it holds all keys in memory for a few seconds, so that a request
    waits for the database only if it is the first for a while, or shows a key nobody knows. The
    other methods are for commands; they block.

    Args:
        database: with the table of keys.
        clock: monotonic, in seconds.
    """

    def __init__(self, database: Database, clock: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._clock = clock
        self._known: dict[str, KeyRecord] = {}
        self._read_at = float("-inf")
        self._reading = asyncio.Lock()
        self._used: dict[str, date] = {}
        self._writing: set[asyncio.Task[None]] = set()

    def create(
        self, name: str, scopes: Iterable[Scope], limits: Limits = NO_LIMITS
    ) -> tuple[str, KeyRecord]:
        """Makes a key: its text, which is nowhere else, and what is kept of it.

        Raises:
            RequestRefused: there is no name, or no scope.
        """
        if not name.strip() or len(name) > LONGEST_NAME:
            raise RequestRefused(
                "name", f"the name is {name!r}: say whose key it is in 1 to {LONGEST_NAME} letters"
            )
        chosen = frozenset(scopes)
        if not chosen:
            raise RequestRefused("scopes", f"no scope is given: {' or '.join(Scope)}")
        key_id, secret = secrets.token_hex(4), secrets.token_hex(32)
        now = datetime.now(UTC)
        record = KeyRecord(key_id, _digest(secret), name.strip(), chosen, limits, now)
        with self._database.session() as session:
            insert_key(session, record)
        return f"rlcm_{key_id}_{secret}", record

    def all(self) -> list[KeyRecord]:
        """Every key there ever was, the oldest first."""
        with self._database.reading() as session:
            return all_keys(session)

    def revoke(self, key_id: str) -> KeyRecord:
        """Makes a key good for nothing; a running service notices within `FRESH` seconds.

        Raises:
            NotFound: there is no such key.
        """
        with self._database.session() as session:
            if find_key(session, key_id) is None:
                raise NotFound(f"no key has the id {key_id!r}: `rlcm keys list` shows them")
            revoke_key(session, key_id, datetime.now(UTC))
        with self._database.reading() as session:
            found = find_key(session, key_id)
        if found is None:
            raise NotFound(f"the key {key_id!r} was deleted meanwhile")
        return found

    def any_active(self) -> bool:
        """Whether some key could open the service."""
        return any(key.revoked is None for key in self.all())

    async def caller_of(self, text: str) -> Caller:
        """Whose key this is.

        Raises:
            AccessDenied: it is nobody's, or revoked; the two are not told apart.
            NotReady: the database cannot be read.
        """
        matched = _KEY.fullmatch(text)
        record = await self._find(matched[1]) if matched else None
        expected = record.digest if record else _NO_DIGEST
        is_right = hmac.compare_digest(_digest(matched[2] if matched else ""), expected)
        if record is None or not is_right or record.revoked is not None:
            raise AccessDenied(
                "the API key is not valid: it may be mistyped or revoked; an operator lists keys "
                "with `rlcm keys list` and makes one with `rlcm keys new`"
            )
        self._note_use(record)
        return Caller(record.id, record.scopes, record.limits)

    async def close(self) -> None:
        """Waits for what is still being written."""
        await asyncio.gather(*self._writing, return_exceptions=True)

    async def _find(self, key_id: str) -> KeyRecord | None:
        arrived = self._clock()
        if key_id not in self._known or arrived - self._read_at > FRESH:
            async with self._reading:
                if self._read_at < arrived:  # nobody has read since this request came
                    await asyncio.sleep(self._read_at + PAUSE - self._clock())
                    await self._read()
        return self._known.get(key_id)

    async def _read(self) -> None:
        began = self._clock()
        try:
            known = await asyncio.to_thread(self.all)
        except Exception as error:
            _log.exception("the keys cannot be read")
            raise NotReady("its database of keys cannot be read") from error
        self._known = {key.id: key for key in known}
        self._read_at = began

    def _note_use(self, key: KeyRecord) -> None:
        """Has the day written down, once, without anyone waiting for it."""
        today = datetime.now(UTC).date()
        if today in (self._used.get(key.id), key.last_used):
            return
        self._used[key.id] = today
        writing = asyncio.create_task(asyncio.to_thread(self._write_use, key.id, today))
        self._writing.add(writing)
        writing.add_done_callback(self._written)

    def _write_use(self, key_id: str, day: date) -> None:
        with self._database.session() as session:
            mark_used(session, key_id, day)

    def _written(self, writing: asyncio.Task[None]) -> None:
        self._writing.discard(writing)
        if not writing.cancelled() and (error := writing.exception()):
            _log.error("the use of a key could not be written down", exc_info=error)


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
