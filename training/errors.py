"""What training refuses: a request whose data or settings cannot give what was asked for."""

from __future__ import annotations

from rlcm_serve.errors import RlcmError


class TrainingRefused(RlcmError, ValueError):
    """Training cannot be done as asked; the message says what to change."""
