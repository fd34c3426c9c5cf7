"""Folders that training writes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import lock_descriptor

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


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Creates the folder of a training, and holds it against a second start.

    Raises:
        TrainingRefused: another process holds it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "training.lock").open("w") as file:
        if not lock_descriptor(file.fileno(), blocking=False):
            raise TrainingRefused(
                f"another process trains in {folder}: wait until it ends, or stop it"
            )
        yield


def require_no_other_model(folder: Path, mark: str) -> None:
    """Returns unless `folder` holds a model that no training wrote there.

    Args:
        folder: to be written.
        mark: name of a file that the training writes first.

    Raises:
        TrainingRefused: it holds one, which would be overwritten.
    """
    if (folder / mark).exists():
        return
    if (folder / "config.json").exists() or any(folder.glob("*.safetensors")):
        raise TrainingRefused(
            f"--out is {folder}, which holds a model, and no training to continue: give another "
            "folder"
        )
