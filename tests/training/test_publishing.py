"""Uploading a trained model."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub.utils import filter_repo_objects

from rlcm_serve.engine.model_files import resolve_model
from rlcm_serve.errors import ModelRefused
from training.errors import TrainingRefused
from training.publishing import publish


class Hub:
    """A hub that keeps what it is asked for."""

    def __init__(self, error: Exception | None = None) -> None:
        self.made: list[tuple[str, bool]] = []
        self.uploaded: list[dict[str, Any]] = []
        self.error = error

    def create_repo(self, repo_id: str, *, private: bool, exist_ok: bool) -> None:
        if self.error is not None:
            raise self.error
        assert exist_ok
        self.made.append((repo_id, private))

    def upload_folder(self, **asked: Any) -> object:
        self.uploaded.append(asked)
        return type("Done", (), {"repo_url": "https://hub/me/mine"})()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text("{}")
    return tmp_path


def test_what_is_served_is_uploaded_and_nothing_else(folder: Path) -> None:
    shutil.copytree(resolve_model("embedded"), folder, dirs_exist_ok=True)
    for name in ("README.md", "training.json", "training-problems.parquet"):
        (folder / name).touch()
    served = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
    assert {"probe/readings.parquet", "chat_template.jinja"} <= set(served)
    others = [
        *("settings.json", "training.lock", "engine-0.log", "probe.recordings.jsonl"),
        *("checkpoints/checkpoint-20/config.json", "checkpoints/checkpoint-20/model.safetensors"),
        *("probe.former/config.json", "calibration.parquet", "calibration.inputs.parquet"),
        *("eval/rollouts.parquet", "eval/run.json"),
    ]
    for name in others:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("{}")
    hub = Hub()
    assert publish(folder, "me/mine", private=True, hub=hub) == "https://hub/me/mine"
    assert hub.made == [("me/mine", True)]
    (asked,) = hub.uploaded
    assert (asked["repo_id"], asked["folder_path"]) == ("me/mine", folder)
    taken = filter_repo_objects([*served, *others], allow_patterns=asked["allow_patterns"])
    assert set(taken) == set(served)
    former = ["probe/config.json", "model-00002-of-00002.safetensors", "certificates/old.json"]
    assert [*filter_repo_objects(former, allow_patterns=asked["delete_patterns"])] == former


def test_a_training_that_has_not_ended_is_not_uploaded(folder: Path) -> None:
    (folder / "settings.json").write_text("{}")
    with pytest.raises(TrainingRefused, match=r"has not ended: .* `rlcm train export`"):
        publish(folder, "me/mine", hub=Hub())


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelRefused, match="not a model folder"):
        publish(tmp_path, "me/mine", hub=Hub())


def test_an_invalid_repository_name_is_refused(folder: Path) -> None:
    with pytest.raises(TrainingRefused, match="give OWNER/NAME"):
        publish(folder, "mine", hub=Hub())


def test_a_hub_that_refuses_is_quoted_with_the_remedy(folder: Path) -> None:
    with pytest.raises(TrainingRefused, match=r"401.*hf auth login"):
        publish(folder, "me/mine", hub=Hub(error=PermissionError("401")))
