"""Uploading a trained model to the Hugging Face hub."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from rlcm_serve.engine.model_files import ModelFiles
from training.errors import TrainingRefused

LEFT_OUT = ("checkpoints/*", "*.pt", "*.log", "*.log.1", "*.jsonl", "settings.json")
"""What a run leaves in its folder that is no part of the model."""


class Hub(Protocol):
    """What is used of `huggingface_hub.HfApi`."""

    def create_repo(self, repo_id: str, *, private: bool, exist_ok: bool) -> Any:
        """Makes a repository, unless there is one."""

    def upload_folder(
        self, *, repo_id: str, folder_path: Path, ignore_patterns: list[str], commit_message: str
    ) -> Any:
        """Uploads what does not match the patterns, as one commit."""


def publish(folder: Path, to: str, *, private: bool = False, hub: Hub | None = None) -> str:
    """Uploads the model, its probe, certificates and card.

    Args:
        folder: what `rlcm serve --model` takes.
        to: OWNER/NAME; it is made if there is none.
        private: whether a repository that is made can be seen by its owner alone.
        hub: another than the one that `hf auth login` is for.

    Returns:
        Where it is, as the hub says.

    Raises:
        ModelRefused: the folder holds no model.
        TrainingRefused: the name is none, or the hub refuses; the message says why.
    """
    ModelFiles.read(folder)
    if to.count("/") != 1:
        raise TrainingRefused(f"{to!r} is no repository: give OWNER/NAME")
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
