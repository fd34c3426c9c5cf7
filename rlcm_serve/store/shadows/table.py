"""The table of shadow runs. Times are in seconds since 1970, UTC."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, String, Text, update
from sqlalchemy.orm import Mapped, Session, mapped_column

from rlcm_serve.store.base import Base, partial_index

UNGRADED = "disagrees AND full_right IS NULL AND full_answer IS NOT NULL"
"""The condition on runs whose answer differs and may still be graded. It is text: SQLite uses the
index of these rows only for a query that says the same.
"""
OPEN = "drawn AND share > 0 AND ended IS NULL"
"""The condition on runs that have not ended, as text for the same reason."""


class ShadowRow(Base):
    """The draw of one answer's shadow run, and what came of it.

    There is one for each answer under a guarantee, while shadow runs are on. `certificate` is a
    digest. `share` is 0 if the run was dropped. `due` is when it must have ended. `disagrees` is
    None if it gave no result. `full_answer` is the full budget's answer, where texts are kept, and
    `full_right` whether it is right, if a label tells.
    """

    __tablename__ = "rlcm_shadows"

    id: Mapped[str] = mapped_column(String(64), primary_key=True)
    certificate: Mapped[str] = mapped_column(String(64))
    alpha: Mapped[float]
    share: Mapped[float]
    drawn: Mapped[bool]
    due: Mapped[float]
    ended: Mapped[float | None]
    disagrees: Mapped[bool | None] = mapped_column(Boolean)
    tokens: Mapped[int | None]
    full_answer: Mapped[str | None] = mapped_column(Text)
    full_right: Mapped[bool | None] = mapped_column(Boolean)

    __table_args__ = (
        partial_index("rlcm_shadows_ungraded", UNGRADED, "id"),
        partial_index("rlcm_shadows_open", OPEN, "due"),
    )


class ShadowCountsRow(Base):
    """Numbers of shadow runs of one level, by their outcome, since its first answer.

    `certificate` is a digest. `drawn` are all runs that were drawn, `dropped` those of them without
    a place; the others say how a run ended. What is left has not ended.
    """

    __tablename__ = "rlcm_shadow_counts"

    certificate: Mapped[str] = mapped_column(String(64), primary_key=True)
    alpha: Mapped[float] = mapped_column(primary_key=True)
    drawn: Mapped[int] = mapped_column(BigInteger)
    dropped: Mapped[int] = mapped_column(BigInteger)
    missing: Mapped[int] = mapped_column(BigInteger)
    agree: Mapped[int] = mapped_column(BigInteger)
    disagree: Mapped[int] = mapped_column(BigInteger)


def forget_full_right(session: Session, id_: str) -> None:
    """Lets a full budget's answer be graded anew: what it was graded with was corrected."""
    graded = ShadowRow.id == id_, ShadowRow.full_answer.is_not(None)
    session.execute(update(ShadowRow).where(*graded).values(full_right=None))


def note_full_right(session: Session, id_: str, right: bool) -> bool:
    """Stores what a label says of the full budget's answer, if there is one.

    Returns:
        Whether it was not known, or known otherwise.
    """
    is_news = ShadowRow.id == id_, ShadowRow.full_right.is_distinct_from(right)
    noted = update(ShadowRow).where(*is_news).values(full_right=right).returning(ShadowRow.id)
    return session.scalar(noted) is not None
