"""The table of what keys may still spend."""

from __future__ import annotations

from sqlalchemy import String
from sqlalchemy.orm import Mapped, mapped_column

from rlcm_serve.store.base import Base


class BudgetRow(Base):
    """The bucket of one limit of one key, and when it had this level, in Unix time."""

    __tablename__ = "rlcm_budgets"

    key_id: Mapped[str] = mapped_column(String(16), primary_key=True)
    kind: Mapped[str] = mapped_column(String(16), primary_key=True)
    level: Mapped[float]
    at: Mapped[float]
