"""Folders that training writes."""

from __future__ import annotations

import os
from pathlib import Path

from training.errors import TrainingRefused


def require_writable(folder: Path) -> None:
    """Raises `TrainingRefused` unless `folder` can be written or created; creates nothing."""
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not existing.is_dir():
        raise TrainingRefused(f"--out is {folder}, but {existing} is a file: give a folder")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise TrainingRefused(
            f"--out is {folder}, but {existing} cannot be written: give a folder that can"
        )
