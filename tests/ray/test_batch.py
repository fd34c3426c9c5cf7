"""Files on two engines: `rlcm solve --file`, `rlcm collect` and `rlcm eval` with `--ray`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import psutil
import pytest

from calibration import read_traces
from tests.ray.on_ray import SECONDS_TO_READY
from tests.served import RLCM
from tests.service.clients import until
from training.tasks.problems import Split, sample_problems

pytestmark = pytest.mark.ray


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def start(folder: Path, *command: str | Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([RLCM, *command, "--engine-log", "engine.log"], cwd=folder)


def processes_of_engines(run: subprocess.Popen[bytes]) -> list[psutil.Process]:
    family = psutil.Process(run.pid).children(recursive=True)
    return [one for one in family if one.name().startswith("ray::Engine")]


def lines_in(journal: Path) -> int:
    return journal.read_bytes().count(b"\n") if journal.exists() else 0


def test_a_run_that_is_killed_and_loses_an_engine_ends_with_one_row_for_each_question(
    tmp_path: Path,
) -> None:
    file, out, kept = (
        tmp_path / f"q{end}" for end in (".jsonl", ".answers.jsonl", ".answers.journal.jsonl")
    )
    problems = [one.question for one in sample_problems(Split.VALIDATION, 300, seed=4)]
    lines = [json.dumps({"id": str(at), "problem": each}) for at, each in enumerate(problems)]
    lines[7] = "{"
    file.write_text("\n".join(lines))

    def run(*options: str) -> subprocess.Popen[bytes]:
        return start(tmp_path, "solve", "--file", file, "--alpha", "0.1", *options)

    first = run("--ray", "2")
    until(lambda: lines_in(kept) > 20, SECONDS_TO_READY)
    first.send_signal(signal.SIGKILL)
    first.wait()

    second = run("--ray", "2")
    before = lines_in(kept)
    until(lambda: lines_in(kept) > before + 20, SECONDS_TO_READY)
    os.kill(processes_of_engines(second)[0].pid, signal.SIGKILL)
    assert second.wait(60) == 1, "it says that it can be continued"

    last = run()
    assert last.wait(SECONDS_TO_READY) == 0, "an engine without Ray continues it too"
    rows = rows_of(out)
    assert [row["row"] for row in rows] == [*range(300)]
    assert [row["row"] for row in rows if "error" in row] == [7]
    assert sum(row.get("guarantee") is not None for row in rows) > 250
    assert not kept.exists()


def test_rollouts_recorded_on_two_engines_are_each_there_once_also_after_a_kill(
    tmp_path: Path,
) -> None:
    data, out, journal = (tmp_path / f"t{end}" for end in (".in", ".parquet", ".journal.jsonl"))
    problems = sample_problems(Split.CALIBRATION, 40, seed=4)
    rows = [
        {"id": str(at), "problem": p.question, "answer": p.answer} for at, p in enumerate(problems)
    ]
    data.write_text("\n".join(map(json.dumps, rows)))

    def run(*options: str) -> subprocess.Popen[bytes]:
        options = ("--rollouts", "2", *options)
        return start(tmp_path, "collect", "--data", data, "--out", out, *options)

    first = run("--ray", "2")
    until(lambda: lines_in(journal) > 10, SECONDS_TO_READY)
    first.send_signal(signal.SIGKILL)
    first.wait()
    assert not out.exists()

    second = run("--ray", "2")
    assert second.wait(SECONDS_TO_READY) == 0
    traces = read_traces(out)
    assert traces.n_rollouts == 80
    assert len(traces.problem_ids) == 40


def test_an_evaluation_on_two_engines_writes_its_report(tmp_path: Path) -> None:
    options = ("--data", "embedded", "--limit", "6", "--rollouts", "2", "--answers", "1")
    run = start(tmp_path, "eval", *options, "--out", tmp_path / "run", "--ray", "2")
    assert run.wait(SECONDS_TO_READY) == 0
    assert (tmp_path / "run/report.html").exists()


def test_what_an_engine_on_ray_refuses_is_said_as_without_ray(tmp_path: Path) -> None:
    data = tmp_path / "long.jsonl"
    data.write_text(json.dumps({"id": "long", "problem": "1 + 1 " * 2000, "answer": "2"}))
    command = [RLCM, "collect", "--data", data, "--out", tmp_path / "t.parquet", "--ray", "1"]
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert said.returncode == 1
    assert "problem 'long'" in said.stderr
    assert "Traceback" not in said.stderr
