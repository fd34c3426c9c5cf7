"""The table of API keys. It holds digests only; no key can be read back from it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from datetime import UTC, date, datetime
from typing import Self

from sqlalchemy import BigInteger, String
from sqlalchemy.orm import Mapped, mapped_column

from rlcm_serve.store.base import Base
from rlcm_serve.store.caller import Limits, Scope


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """Everything that is stored about a key; the key itself is not."""

    id: str
    digest: str
    name: str
    scopes: frozenset[Scope]
    limits: Limits
    created: datetime
    last_used: date | None = None
    revoked: datetime | None = None
    cache_group: str | None = None


class KeyRow(Base):
    """One key. Times are UTC in ISO 8601, which every database stores in the same way."""

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

    @classmethod
    def of(cls, key: KeyRecord) -> Self:
        """The row of a new key."""
        return cls(
            id=key.id,
            digest=key.digest,
            name=key.name,
            scopes=" ".join(sorted(key.scopes)),
            created=key.created.isoformat(),
            **{name: value for name, value in asdict(key.limits).items() if hasattr(cls, name)},
        )

    def record(self, terms: KeyTermsRow | None) -> KeyRecord:
        """The key in this row, with its terms, if it has any."""
        limits = {
            field.name: getattr(self if hasattr(KeyRow, field.name) else terms, field.name, None)
            for field in fields(Limits)
        }
        return KeyRecord(
            id=self.id,
            digest=self.digest,
            name=self.name,
            scopes=frozenset(map(Scope, self.scopes.split())),
            limits=Limits(**limits),
            created=_time(self.created),
            last_used=date.fromisoformat(self.last_used) if self.last_used else None,
            revoked=_time(self.revoked) if self.revoked else None,
            cache_group=None if terms is None else terms.cache_group,
        )


class KeyTermsRow(Base):
    """What was added to keys later. A key without a row has none of it."""

    __tablename__ = "rlcm_key_terms"

    id: Mapped[str] = mapped_column(String(16), primary_key=True)
    requests_per_minute: Mapped[int | None] = mapped_column(BigInteger)
    tokens_per_minute: Mapped[int | None] = mapped_column(BigInteger)
    weight: Mapped[float | None]
    cache_group: Mapped[str | None] = mapped_column(String(64))

    @classmethod
    def of(cls, key: KeyRecord) -> Self:
        """The row of a new key."""
        terms = {name: value for name, value in asdict(key.limits).items() if hasattr(cls, name)}
        return cls(id=key.id, cache_group=key.cache_group, **terms)


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)
