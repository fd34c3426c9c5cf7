"""The tables of unanswered questions. They hold keyed digests only, and no text."""

from __future__ import annotations

from sqlalchemy import Index, LargeBinary, String
from sqlalchemy.orm import Mapped, mapped_column

from rlcm_serve.store.base import Base


class UnansweredRow(Base):
    """A question of one key (empty without keys), and when it was last asked, in Unix time."""

    __tablename__ = "rlcm_unanswered"

    digest: Mapped[bytes] = mapped_column(LargeBinary(32), primary_key=True)
    key_id: Mapped[str] = mapped_column(String(16))
    asked: Mapped[float]

    __table_args__ = (
        Index("rlcm_unanswered_asked", "asked"),
        Index("rlcm_unanswered_key", "key_id", "asked"),
    )


class SecretRow(Base):
    """A secret of random bytes that all processes of the database share."""

    __tablename__ = "rlcm_secrets"

    name: Mapped[str] = mapped_column(String(32), primary_key=True)
    secret: Mapped[bytes] = mapped_column(LargeBinary(32))
