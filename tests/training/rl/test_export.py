"""The folder for the service: `training.json` says that it is complete."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.training.rl.small import small_run
from training.rl import export
from training.rl.export import TrainingRecord, write_policy


class Killed(BaseException):
    """Ends the process where it stands."""


@pytest.fixture
def parts(tmp_path: Path) -> tuple[Path, TrainingRecord]:
    """Saved weights, and the record of the run that made them."""
    prepared = small_run(tmp_path, method="grpo")
    weights = tmp_path / "weights"
    shutil.copytree(prepared.files.folder, weights)
    curves = [{"reward": 1.0, "accuracy": 1.0}]
    record = TrainingRecord(
        prepared.settings, prepared.problems, prepared.files, curves, False, None
    )
    return weights, record


def test_training_json_is_written_last_and_at_once(
    tmp_path: Path, parts: tuple[Path, TrainingRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    out, write = tmp_path / "out", export.write_text
    before: list[set[str]] = []

    def watched(path: Path, text: str) -> None:
        before.append({own.name for own in out.iterdir()})
        write(path, text)

    monkeypatch.setattr(export, "write_text", watched)
    write_policy(parts[0], None, parts[1], out)
    (found,) = before
    assert {"README.md", "config.json", "model.safetensors", "tokenizer.json"} <= found
    assert {own.name for own in out.iterdir()} - found == {"training.json"}


def test_an_extended_run_that_is_killed_does_not_count_as_trained(
    tmp_path: Path, parts: tuple[Path, TrainingRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    write_policy(parts[0], None, parts[1], out)
    assert json.loads((out / "training.json").read_text())["curves"]

    def killed(facts: dict[str, Any]) -> str:
        raise Killed

    monkeypatch.setattr(export, "model_card", killed)
    with pytest.raises(Killed):
        write_policy(parts[0], None, parts[1], out)
    assert not (out / "training.json").exists()
