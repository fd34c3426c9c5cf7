"""Errors of training."""

from __future__ import annotations

from rlcm_serve.errors import RlcmError


class TrainingRefused(RlcmError, ValueError):
    """Training cannot run with this data or these settings. The message says what to change."""
