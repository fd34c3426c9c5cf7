"""The tables of certificates and of their report data."""

from __future__ import annotations

from sqlalchemy import Index, String, Text, text
from sqlalchemy.orm import Mapped, mapped_column

from rlcm_serve.store.base import Base

STORED, ACTIVE, WITHDRAWN = "stored", "active", "withdrawn"
"""Stored only; active; or deactivated, even if its file is still in the model's folder."""


class StoredCertificate(Base):
    """One certificate and its state.

    `slot` identifies its engine and procedure; at most one certificate per slot is active.
    `added` is in seconds since 1970, UTC.
    """

    __tablename__ = "rlcm_certificates"
    __table_args__ = (
        Index(
            "rlcm_one_active_certificate",
            "slot",
            unique=True,
            sqlite_where=text(f"state = '{ACTIVE}'"),
            postgresql_where=text(f"state = '{ACTIVE}'"),
        ),
    )

    id: Mapped[str] = mapped_column(String(12), primary_key=True)
    content: Mapped[str] = mapped_column(Text)
    origin: Mapped[str] = mapped_column(Text)
    added: Mapped[float]
    slot: Mapped[str] = mapped_column(String(64))
    state: Mapped[str] = mapped_column(String(16))


class StoredEvidence(Base):
    """What speaks for a certificate: whether its figures followed from traces here, its signature.

    `envelope` is a DSSE envelope as JSON. Both may outlive the certificate's own row.
    """

    __tablename__ = "rlcm_certificate_evidence"

    digest: Mapped[str] = mapped_column(String(64), primary_key=True)
    recomputed: Mapped[bool]
    envelope: Mapped[str | None] = mapped_column(Text)


class StoredReport(Base):
    """The report data of one certificate, as JSON. It may outlive the certificate's own row."""

    __tablename__ = "rlcm_exhibits"

    certificate: Mapped[str] = mapped_column(String(12), primary_key=True)
    content: Mapped[str] = mapped_column(Text)
