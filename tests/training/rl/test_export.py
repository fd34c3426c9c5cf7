"""The folder for the service: `training.json` says that it is complete."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from calibration.traces.probe_readings import SeenProblems, read_seen_problems, write_seen_problems
from rlcm_serve.recording.trained import seen_problems
from tests.training.rl.small import small_run
from training.provenance import Session
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
        prepared.settings, prepared.problems, None, prepared.files, curves, False, Session.now()
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


def test_a_probe_of_former_weights_is_put_aside(
    tmp_path: Path, parts: tuple[Path, TrainingRecord]
) -> None:
    weights, record = parts
    out = tmp_path / "out"
    write_policy(weights, None, record, out)
    for name in ("probe", "familiarity"):
        (out / name).mkdir()
        (out / name / "config.json").write_text(name)
    write_policy(weights, None, record, out)
    assert (out / "probe" / "config.json").exists(), "the weights are the same"
    tensors = load_file(weights / "model.safetensors")
    save_file({name: own + 1 for name, own in tensors.items()}, weights / "model.safetensors")
    write_policy(weights, None, record, out)
    for name in ("probe", "familiarity"):
        assert not (out / name).exists()
        assert (out / f"{name}.former" / "config.json").read_text() == name
        assert (out / f"{name}.former").stat().st_mode & 0o111, "else nobody but root can open it"


def test_it_is_put_aside_also_if_the_export_was_killed_between(
    tmp_path: Path, parts: tuple[Path, TrainingRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    weights, record = parts
    out = tmp_path / "out"
    write_policy(weights, None, record, out)
    (out / "probe").mkdir()
    tensors = load_file(weights / "model.safetensors")
    save_file({name: own + 1 for name, own in tensors.items()}, weights / "model.safetensors")

    def killed(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(export, "_as_stored", killed)
        with pytest.raises(Killed):
            write_policy(weights, None, record, out)
    assert (out / "probe").exists()
    write_policy(weights, None, record, out)
    assert not (out / "probe").exists()
    assert (out / "probe.former").exists()


def test_a_figure_that_is_not_a_number_is_null(
    tmp_path: Path, parts: tuple[Path, TrainingRecord]
) -> None:
    weights, record = parts
    curves = [{"reward": 1.0, "probe/bce": float("nan")}, {"reward": 1.0, "probe/bce": 0.5}]
    write_policy(weights, None, replace(record, log=curves), tmp_path / "out")
    assert json.loads((tmp_path / "out/training.json").read_text())["curves"][0] == {
        "reward": 1.0,
        "probe/bce": None,
    }
    assert "nan" not in (tmp_path / "out/README.md").read_text()


def test_a_policy_remembers_what_trained_the_one_it_began_with(
    tmp_path: Path, parts: tuple[Path, TrainingRecord]
) -> None:
    weights, record = parts
    base = tmp_path / "base"
    shutil.copytree(record.base.folder, base)
    (own,) = seen_problems(record.problems.problems[:1]).digest_of_problem
    earlier = SeenProblems({own: "of another text", "other": "d"}, frozenset({"pattern"}))
    write_seen_problems(base / "training-problems.parquet", earlier)
    write_policy(
        weights, None, replace(record, base=replace(record.base, folder=base)), tmp_path / "out"
    )
    found = read_seen_problems(tmp_path / "out" / "training-problems.parquet")
    assert {"of another text", "d"} < {*found.digest_of_problem.values()}
    assert {*seen_problems(record.problems.problems).digest_of_problem} < {*found.digest_of_problem}
    assert "pattern" in found.patterns


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
