"""Uploading a trained model to the Hugging Face hub."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rlcm_serve.engine.model_files import ModelFiles
from training.errors import TrainingRefused

if TYPE_CHECKING:
    from huggingface_hub import HfApi

LEFT_OUT = ("checkpoints/*", "*.pt", "*.log", "*.log.1", "*.jsonl", "*.inputs", "settings.json")
"""Files of a training run that are not part of the model."""


def publish(folder: Path, to: str, *, private: bool = False, hub: HfApi | None = None) -> str:
    """Uploads the model, its probe, certificates and card.

    Args:
        folder: a folder that `rlcm serve --model` accepts.
        to: OWNER/NAME. A missing repository is created.
        private: whether a new repository is visible to its owner only.
        hub: a client of another hub. Default: the hub of `hf auth login`.

    Returns:
        The repository's address.

    Raises:
        ModelRefused: the folder holds no model.
        TrainingRefused: the name is malformed, or the hub refuses. The message says why.
    """
    ModelFiles.read(folder)
    if to.count("/") != 1:
        raise TrainingRefused(f"{to!r} is not a repository name: give OWNER/NAME")
    if hub is None:
        from huggingface_hub import HfApi

        hub = HfApi()
    try:
        hub.create_repo(to, private=private, exist_ok=True)
        done = hub.upload_folder(
            repo_id=to,
            folder_path=folder,
            ignore_patterns=list(LEFT_OUT),
            commit_message="A policy and its probe, trained with rlcm-serve",
        )
    except Exception as error:  # the hub's client raises its own, the network's and the disk's
        raise TrainingRefused(
            f"{folder} could not be uploaded to {to!r}: {error}; log in with `hf auth login`, and "
            "check that you may write there"
        ) from error
    return str(getattr(done, "repo_url", None) or to)
