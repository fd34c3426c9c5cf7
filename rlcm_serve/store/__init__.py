"""Persistent data: certificates, calibration jobs and API keys, in SQLite or PostgreSQL."""

from rlcm_serve.store.base import Base
from rlcm_serve.store.database import Database

__all__ = ["Base", "Database"]
