"""What outlives the process: certificates, calibration jobs and keys, in SQLite or PostgreSQL."""

from rlcm_serve.store.database import Base, Database

__all__ = ["Base", "Database"]
