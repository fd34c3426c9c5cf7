"""Uploading a trained model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rlcm_serve.errors import ModelRefused
from training.errors import TrainingRefused
from training.publishing import LEFT_OUT, publish


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


def test_the_folder_is_uploaded_without_its_checkpoints(folder: Path) -> None:
    hub = Hub()
    assert publish(folder, "me/mine", private=True, hub=hub) == "https://hub/me/mine"
    assert hub.made == [("me/mine", True)]
    (asked,) = hub.uploaded
    assert (asked["repo_id"], asked["folder_path"]) == ("me/mine", folder)
    assert "checkpoints/*" in asked["ignore_patterns"]
    assert asked["ignore_patterns"] == list(LEFT_OUT)


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelRefused, match="not a model folder"):
        publish(tmp_path, "me/mine", hub=Hub())


def test_an_invalid_repository_name_is_refused(folder: Path) -> None:
    with pytest.raises(TrainingRefused, match="give OWNER/NAME"):
        publish(folder, "mine", hub=Hub())


def test_a_hub_that_refuses_is_quoted_with_the_remedy(folder: Path) -> None:
    with pytest.raises(TrainingRefused, match=r"401.*hf auth login"):
        publish(folder, "me/mine", hub=Hub(error=PermissionError("401")))
