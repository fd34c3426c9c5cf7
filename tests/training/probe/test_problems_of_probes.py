"""Problems that a probe is made from: labelled, and each of them once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.console import Console

from rlcm_serve.engine.launch import EngineSettings
from rlcm_serve.errors import RequestRefused
from training.errors import TrainingRefused
from training.probe.fit import ProbeTraining
from training.probe.train import ProbeRun, train_probe

CONSOLE = Console(quiet=True)


def made_from(folder: Path, rows: list[dict[str, str]]) -> ProbeRun:
    data = folder / "problems.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return ProbeRun(data, folder / "probe", folder / "probe.jsonl", 1, 1, ProbeTraining())


def sums(count: int) -> list[dict[str, str]]:
    return [{"id": str(n), "problem": f"{n} + 1?", "answer": str(n + 1)} for n in range(count)]


def test_a_problem_without_a_label_is_refused_before_anything_is_recorded(tmp_path: Path) -> None:
    rows = [*sums(20), {"id": "open", "problem": "Who?", "answer": "?"}]
    with pytest.raises(
        RequestRefused, match=r"1 problems have the answer '\?', so no label, 'open'"
    ):
        train_probe(EngineSettings(), made_from(tmp_path, rows), CONSOLE)


def test_a_problem_that_comes_twice_is_refused_unless_both_are_of_one_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    twice = {"id": "again", "problem": "3  + 1? ", "answer": "4"}
    with pytest.raises(TrainingRefused, match=r"1 problems have the text of another .* 'again'"):
        train_probe(EngineSettings(), made_from(tmp_path, [*sums(20), twice]), CONSOLE)

    def recording(*_: object) -> None:
        raise InterruptedError

    monkeypatch.setattr("training.probe.train.record_inputs", recording)
    grouped = [row | {"group": row["problem"].split()[0]} for row in [*sums(20), twice]]
    with pytest.raises(InterruptedError):
        train_probe(EngineSettings(), made_from(tmp_path, grouped), CONSOLE)
