"""What was seen of certificates, of those that were made or recomputed here from traces."""

from __future__ import annotations

from sqlalchemy import String, Text
from sqlalchemy.orm import Mapped, mapped_column

from rlcm_serve.store.database import Base


class StoredReport(Base):
    """The exhibit of one certificate, as JSON. It may outlive the certificate's own row."""

    __tablename__ = "rlcm_exhibits"

    certificate: Mapped[str] = mapped_column(String(12), primary_key=True)
    content: Mapped[str] = mapped_column(Text)
