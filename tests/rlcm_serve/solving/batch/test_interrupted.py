"""A run over a file of questions that is killed, and one over many questions."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

MODULE = "tests.rlcm_serve.solving.batch.scripted_batch"
ROOT = Path(__file__).parents[4]


def written(path: Path, count: int) -> Path:
    """Questions, with a broken row after every hundred."""
    with path.open("w") as file:
        for number in range(count):
            line = json.dumps({"problem": f"What is {number}?", "answer": "7"})
            file.write("broken\n" if number % 100 == 99 else f"{line}\n")
    return path


def started(folder: Path, mode: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", MODULE, mode]
    command += [str(folder / name) for name in ("questions.jsonl", "kept", "answers.jsonl")]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def rows_in(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["ordered", "unordered"])
def test_after_kills_every_row_is_answered_exactly_once(tmp_path: Path, mode: str) -> None:
    count = 6_000
    written(tmp_path / "questions.jsonl", count)
    growing = tmp_path / ("kept" if mode == "ordered" else "answers.jsonl")
    kept = 0
    for _ in range(3):
        run = started(tmp_path, mode)
        while rows_in(growing) < kept + 500:
            assert run.poll() is None, "it ended before it was killed"
            time.sleep(0.01)
        run.kill()
        run.communicate()
        kept = rows_in(growing)
        assert kept < count
    run = started(tmp_path, mode)
    run.communicate()
    assert run.returncode == 0
    rows = [json.loads(line) for line in (tmp_path / "answers.jsonl").read_text().splitlines()]
    numbers = [row["row"] for row in rows]
    assert sorted(numbers) == [*range(count)]
    if mode == "ordered":
        assert numbers == sorted(numbers)
    failed = {row["row"] for row in rows if "error" in row}
    assert failed == {*range(99, count, 100)}


@pytest.mark.slow
def test_a_hundred_thousand_questions_need_hardly_more_memory_than_ten(tmp_path: Path) -> None:
    """A byte for each row, and 200 for each of the fourth of the questions that abstains."""
    written(tmp_path / "questions.jsonl", 100_000)
    run = started(tmp_path, "ordered")
    grown = json.loads(run.communicate()[0])["grown"]
    assert run.returncode == 0
    assert (tmp_path / "answers.jsonl").stat().st_size > 100 * 2**20
    assert grown < 30
