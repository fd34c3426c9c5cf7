"""`rlcm solve --file --ray`: two engines answer one file."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.ray.on_ray import SECONDS_TO_READY
from tests.served import RLCM
from tests.service.clients import until
from training.tasks.problems import Split, sample_problems

pytestmark = pytest.mark.ray


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def start(file: Path, *options: str) -> subprocess.Popen[bytes]:
    command = [RLCM, "solve", "--file", file, "--alpha", "0.1", *options]
    return subprocess.Popen([*command, "--engine-log", "engine.log"], cwd=file.parent)


def processes_of_engines(run: subprocess.Popen[bytes]) -> list[psutil.Process]:
    family = psutil.Process(run.pid).children(recursive=True)
    return [one for one in family if one.name().startswith("ray::Engine")]


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

    def finished(count: int) -> bool:
        return kept.exists() and kept.read_bytes().count(b"\n") > count

    first = start(file, "--ray", "2")
    until(lambda: finished(20), SECONDS_TO_READY)
    first.send_signal(signal.SIGKILL)
    first.wait()

    second = start(file, "--ray", "2")
    before = len(rows_of(kept))
    until(lambda: finished(before + 20), SECONDS_TO_READY)
    os.kill(processes_of_engines(second)[0].pid, signal.SIGKILL)
    assert second.wait(60) == 1, "it says that it can be continued"

    last = start(file)
    assert last.wait(SECONDS_TO_READY) == 0, "an engine without Ray continues it too"
    rows = rows_of(out)
    assert [row["row"] for row in rows] == [*range(300)]
    assert [row["row"] for row in rows if "error" in row] == [7]
    assert sum(row.get("guarantee") is not None for row in rows) > 250
    assert not kept.exists()
