"""The table of API keys. It holds digests; no key can be read back from it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from datetime import UTC, date, datetime

from sqlalchemy import BigInteger, String, select, update
from sqlalchemy.orm import Mapped, Session, mapped_column

from rlcm_serve.store.base import Base
from rlcm_serve.store.caller import Limits, Scope


class KeyRow(Base):
    """One key. Times are UTC in ISO 8601, which every database keeps alike."""

    __tablename__ = "rlcm_keys"

    id: Mapped[str] = mapped_column(String(16), primary_key=True)
    digest: Mapped[str] = mapped_column(String(64))
    name: Mapped[str] = mapped_column(String(200))
    scopes: Mapped[str] = mapped_column(String(64))
    created: Mapped[str] = mapped_column(String(32))
    last_used: Mapped[str | None] = mapped_column(String(10))
    revoked: Mapped[str | None] = mapped_column(String(32))
    max_n: Mapped[int | None]
    max_tokens: Mapped[int | None] = mapped_column(BigInteger)
    max_body_bytes: Mapped[int | None] = mapped_column(BigInteger)
    timeout_s: Mapped[float | None]
    max_running: Mapped[int | None]


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """What is known of a key: everything but the key."""

    id: str
    digest: str
    name: str
    scopes: frozenset[Scope]
    limits: Limits
    created: datetime
    last_used: date | None = None
    revoked: datetime | None = None


def insert_key(session: Session, key: KeyRecord) -> None:
    """Keeps a new key."""
    session.add(
        KeyRow(
            id=key.id,
            digest=key.digest,
            name=key.name,
            scopes=" ".join(sorted(key.scopes)),
            created=key.created.isoformat(),
            **asdict(key.limits),
        )
    )


def all_keys(session: Session) -> list[KeyRecord]:
    """Every key there ever was, the oldest first."""
    rows = session.scalars(select(KeyRow).order_by(KeyRow.created, KeyRow.id))
    return [_record(row) for row in rows]


def find_key(session: Session, key_id: str) -> KeyRecord | None:
    """The key of this id."""
    row = session.get(KeyRow, key_id)
    return None if row is None else _record(row)


def revoke_key(session: Session, key_id: str, when: datetime) -> None:
    """From now on the key is good for nothing; the first time counts."""
    session.execute(
        update(KeyRow)
        .where(KeyRow.id == key_id, KeyRow.revoked.is_(None))
        .values(revoked=when.isoformat())
    )


def mark_used(session: Session, key_id: str, day: date) -> None:
    """The key was used on that day."""
    session.execute(update(KeyRow).where(KeyRow.id == key_id).values(last_used=day.isoformat()))


def _record(row: KeyRow) -> KeyRecord:
    return KeyRecord(
        id=row.id,
        digest=row.digest,
        name=row.name,
        scopes=frozenset(map(Scope, row.scopes.split())),
        limits=Limits(**{field.name: getattr(row, field.name) for field in fields(Limits)}),
        created=_time(row.created),
        last_used=date.fromisoformat(row.last_used) if row.last_used else None,
        revoked=_time(row.revoked) if row.revoked else None,
    )


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)
