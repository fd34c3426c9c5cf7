"""The version of the tables."""

from __future__ import annotations

from sqlalchemy.orm import Mapped, mapped_column

from rlcm_serve.store import calibration_tables, certificate_table, key_table
from rlcm_serve.store.answers import table as answers_table
from rlcm_serve.store.base import Base
from rlcm_serve.store.limits import table as limits_table
from rlcm_serve.store.rehearsals import table as rehearsals_table
from rlcm_serve.store.shadows import table as shadows_table
from rlcm_serve.store.unanswered import table as unanswered_table

SCHEMA_VERSION = 1
"""Increased whenever older tables cannot be brought up to date by adding to them; tables of another
version are refused, never altered.

New tables, new indexes, and new columns that may be null or have a `server_default` are added to
older tables when a database is opened. They do not change the version: older releases ignore them.
"""
_TABLES = (
    answers_table,
    calibration_tables,
    certificate_table,
    key_table,
    limits_table,
    rehearsals_table,
    shadows_table,
    unanswered_table,
)
"""Their import puts every table into `Base.metadata`."""


class SchemaVersion(Base):
    """A single row with the version of the tables."""

    __tablename__ = "rlcm_schema"

    version: Mapped[int] = mapped_column(primary_key=True)


FIRST_TABLES = frozenset(
    {
        "rlcm_calibration_log",
        "rlcm_calibration_problems",
        "rlcm_calibration_recordings",
        "rlcm_calibration_traces",
        "rlcm_calibrations",
        "rlcm_certificates",
        "rlcm_exhibits",
        "rlcm_keys",
        SchemaVersion.__tablename__,
    }
)
"""Tables that every database of this version has, however old it is."""
