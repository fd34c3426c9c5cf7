"""The tables of rehearsals. Times are in seconds since 1970, UTC."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Index, String
from sqlalchemy.orm import Mapped, mapped_column

from rlcm_serve.store.base import Base


class RehearsalRow(Base):
    """A certificate that is rehearsed, or was until `ended`. `certificate` is a digest."""

    __tablename__ = "rlcm_rehearsals"

    certificate: Mapped[str] = mapped_column(String(64), primary_key=True)
    started: Mapped[float]
    started_by: Mapped[str | None] = mapped_column(String(16))
    ended: Mapped[float | None]


class RehearsedRow(Base):
    """One answer under one level of a rehearsed certificate; fields as in `Replayed`.

    `id` and `sequence` are those of the answer. `has_place` is as in `RehearsedAnswer`. A
    development version stored neither of the last two: its rows are in no figure.
    """

    __tablename__ = "rlcm_rehearsed"

    certificate: Mapped[str] = mapped_column(String(64), primary_key=True)
    alpha: Mapped[float] = mapped_column(primary_key=True)
    id: Mapped[str] = mapped_column(String(64), primary_key=True, index=True)
    tokens: Mapped[int] = mapped_column(BigInteger)
    tokens_at_least: Mapped[int] = mapped_column(BigInteger)
    undecided: Mapped[bool]
    answers: Mapped[bool | None] = mapped_column(Boolean)
    stop: Mapped[int | None]
    agrees: Mapped[bool | None] = mapped_column(Boolean)
    sequence: Mapped[int | None] = mapped_column(BigInteger)
    has_place: Mapped[bool | None] = mapped_column(Boolean)

    __table_args__ = (Index("rlcm_rehearsed_level", "certificate", "alpha", "sequence"),)
