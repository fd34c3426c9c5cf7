"""`rlcm solve --file` as users run it: on the real engine, and killed in the middle."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rlcm_serve.commands.batch import Batch
from rlcm_serve.errors import RequestRefused
from training.tasks.problems import Split, sample_problems

ROWS = 300
BROKEN = 7


@pytest.mark.slow
def test_a_run_that_was_killed_continues_and_answers_every_row_once(tmp_path: Path) -> None:
    problems = sample_problems(Split.TEST, ROWS, seed=0)
    lines = [json.dumps({"problem": one.question, "answer": one.answer}) for one in problems]
    lines[BROKEN] = "broken"
    (tmp_path / "questions.jsonl").write_text("\n".join(lines))
    out = tmp_path / "questions.answers.jsonl"
    rlcm = [sys.executable, "-c", "from rlcm_serve.cli import main; main()"]
    command = [*rlcm, "solve", "--file", "questions.jsonl", "--unordered", "--concurrency", "16"]

    killed = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL)
    while not out.exists() or out.read_bytes().count(b"\n") < ROWS // 10:
        assert killed.poll() is None, "it ended before it was killed"
        time.sleep(0.05)
    killed.kill()
    killed.wait()
    kept = out.read_bytes().count(b"\n")
    assert kept < ROWS
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    rows = {row["row"]: row for row in map(json.loads, out.read_text().splitlines())}
    assert sorted(rows) == [*range(ROWS)]
    assert out.read_bytes().count(b"\n") == ROWS, "no row is there twice"
    assert rows.pop(BROKEN)["error"].startswith(f"row {BROKEN} is not JSON")
    assert all(row["guarantee"] is not None for row in rows.values())
    assert f"{ROWS} questions" in done.stdout
    assert "1 failed" in done.stdout
    assert {path.name for path in tmp_path.iterdir()} == {"questions.jsonl", out.name}


def test_answers_as_they_come_cannot_be_parquet(tmp_path: Path) -> None:
    file = tmp_path / "questions.jsonl"
    file.write_text('{"problem": "What?"}')
    with pytest.raises(RequestRefused, match="leave out --unordered"):
        Batch.of(file, tmp_path / "a.parquet", unordered=True, concurrency=1)
    ordered = Batch.of(file, tmp_path / "a.parquet", unordered=False, concurrency=1)
    assert ordered.kept.name == "a.journal.jsonl"


def test_the_questions_are_not_overwritten_by_their_answers(tmp_path: Path) -> None:
    file, link = tmp_path / "questions.jsonl", tmp_path / "link.jsonl"
    file.write_text('{"problem": "What?"}')
    link.symlink_to(file)
    for out in (file, link):
        for unordered in (False, True):
            with pytest.raises(RequestRefused, match="which is read here"):
                Batch.of(file, out, unordered=unordered, concurrency=1)


def test_answers_have_the_format_of_the_questions_unless_told_otherwise(tmp_path: Path) -> None:
    text, table = tmp_path / "questions.txt", tmp_path / "questions.parquet"
    text.write_text('{"problem": "What?"}')
    pq.write_table(pa.table({"problem": ["What?"]}), table)
    for file, name in {text: "questions.answers.jsonl", table: "questions.answers.parquet"}.items():
        assert Batch.of(file, None, unordered=False, concurrency=1).out == tmp_path / name
