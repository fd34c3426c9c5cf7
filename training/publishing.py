"""Uploading a trained model to the Hugging Face hub."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from calibration.traces.probe_readings import POLICY_FILE
from rlcm_serve.engine.model_files import TOKENIZER_FILES, ModelFiles
from rlcm_serve.engine.worker.probe import PROBE_FOLDER
from rlcm_serve.familiarity.familiarity import FAMILIARITY_FOLDER
from rlcm_serve.solving.guarantees import CERTIFICATE_FOLDER
from training.errors import TrainingRefused
from training.rl.folder import FACTS, SETTINGS

if TYPE_CHECKING:
    from huggingface_hub import HfApi

_FILES = (
    *("config.json", "generation_config.json", "*.safetensors", "*.safetensors.index.json"),
    *(*TOKENIZER_FILES, "chat_template*", "README.md", FACTS, POLICY_FILE),
)
"""Patterns of the files that are uploaded from the folder itself."""
_FOLDERS = (PROBE_FOLDER, FAMILIARITY_FOLDER, CERTIFICATE_FOLDER)


def publish(folder: Path, to: str, *, private: bool = False, hub: HfApi | None = None) -> str:
    """Uploads the model, its probe, familiarity reading, certificates and card; nothing else.

    Args:
        folder: a folder that `rlcm serve --model` accepts.
        to: OWNER/NAME. A missing repository is created.
        private: whether a new repository is visible to its owner only.
        hub: a client of another hub. Default: the hub of `hf auth login`.

    Returns:
        The repository's address.

    Raises:
        ModelRefused: the folder holds no model.
        TrainingRefused: the training has not ended, the name is malformed, or the hub refuses. The
            message says why.
    """
    ModelFiles.read(folder)
    if (folder / SETTINGS).exists() and not (folder / FACTS).exists():
        raise TrainingRefused(
            f"the training in {folder} has not ended: go on with it, or write a checkpoint with "
            "`rlcm train export`"
        )
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
            allow_patterns=_uploaded(folder),
            delete_patterns=[*(f"{name}/*" for name in _FOLDERS), "*.safetensors*"],
            commit_message="A policy and its probe, trained with rlcm-serve",
        )
    except Exception as error:  # the hub's client raises its own, the network's and the disk's
        raise TrainingRefused(
            f"{folder} could not be uploaded to {to!r}: {error}; log in with `hf auth login`, and "
            "check that you may write there"
        ) from error
    return str(getattr(done, "repo_url", None) or to)


def _uploaded(folder: Path) -> list[str]:
    """The files' names and the folders: a pattern such as `*.json` would match in every folder."""
    files = {path.name for pattern in _FILES for path in folder.glob(pattern)}
    return [*sorted(files), *(f"{name}/*" for name in _FOLDERS)]
