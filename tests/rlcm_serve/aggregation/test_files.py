import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rlcm_serve.aggregation import VoteOptions, aggregate_file
from rlcm_serve.aggregation.files import written_whole
from rlcm_serve.errors import Conflict, RequestRefused
from tests.rlcm_serve.command_line import Rlcm

ROWS: list[dict[str, Any]] = [
    {"problem_id": "a", "answer": "0.5", "confidence": 0.9, "reference": r"\frac12"},
    {"problem_id": "b", "answer": "7", "confidence": 0.2, "reference": None},
    {"problem_id": "a", "answer": "2/4", "confidence": 0.25, "reference": None},
    {"problem_id": "a", "answer": "3", "confidence": 1.0, "reference": None},
    {"problem_id": "b", "answer": None, "confidence": 0.8, "reference": None},
]
RESULTS: list[dict[str, Any]] = [
    {
        "problem_id": "a",
        "answer": "0.5",
        "confidence": pytest.approx(1.15 / 2.15),
        "tally": {"0.5": pytest.approx(1.15), "3": 1.0},
        "classes": 2,
        "rollouts": 3,
        "kept": 3,
        "tied": False,
        "correct": True,
        "pass_at_1": pytest.approx(2 / 3),
        "oracle": True,
        "compared": True,
    },
    {
        "problem_id": "b",
        "answer": "7",
        "confidence": pytest.approx(0.2),
        "tally": {"7": pytest.approx(0.2)},
        "classes": 1,
        "rollouts": 2,
        "kept": 2,
        "tied": False,
        "correct": None,
        "pass_at_1": None,
        "oracle": None,
        "compared": True,
    },
]


def test_the_rollouts_are_never_overwritten(tmp_path: Path, rlcm: Rlcm) -> None:
    rollouts = write(tmp_path / "rollouts.jsonl", ROWS)
    before = rollouts.read_bytes()
    status, _, err = rlcm(f"aggregate {rollouts} --out {rollouts}")
    assert (status, rollouts.read_bytes()) == (1, before)
    assert "is read here and would be lost: give another file" in err


def test_a_folder_of_the_results_is_made(tmp_path: Path) -> None:
    out = tmp_path / "new" / "answers.jsonl"
    aggregate_file(write(tmp_path / "rollouts.jsonl", ROWS), out, VoteOptions())
    assert len(out.read_text().splitlines()) == 2


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def read(path: Path) -> list[dict[str, Any]]:
    if path.suffix == ".parquet":
        rows = pq.read_table(path).to_pylist()
        return [{**row, "tally": dict(row["tally"])} for row in rows]
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("out", ["out.jsonl", "out.ndjson", "out.parquet"])
@pytest.mark.parametrize("source", ["rollouts.jsonl", "rollouts.parquet"])
def test_from_file_to_file(rlcm: Rlcm, source: str, out: str, tmp_path: Path) -> None:
    write(tmp_path / source, ROWS)
    status, said, _ = rlcm(f"aggregate {source} --vote confidence --seed 0 --out {out}")
    assert status == 0
    assert read(tmp_path / out) == RESULTS
    assert said.splitlines() == [
        "2 problems, 5 rollouts: 2 answered, 0 of them by breaking a tie",
        "of 1 with a reference: pass@1 0.6667, vote 1.0000, oracle 1.0000",
    ]
    assert sorted(each.name for each in tmp_path.iterdir()) == sorted([source, out])


def run(*words: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    program = "from rlcm_serve.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", program, *words], input=stdin, capture_output=True, check=False
    )


@pytest.mark.slow
def test_a_pipe_in_and_out() -> None:
    lines = "".join(json.dumps(row) + "\n" for row in ROWS).encode()
    ran = run("aggregate", "-", "--out", "-", stdin=lines)
    assert ran.returncode == 0, ran.stderr
    assert [json.loads(line) for line in ran.stdout.splitlines()] == RESULTS
    assert b"2 problems, 5 rollouts" in ran.stderr


@pytest.mark.parametrize(
    ("options", "answer"),
    [("--vote majority --grouped", "7"), ("--vote filtered --top-p 0.1", "8"), ("--seed 3", "7")],
)
def test_options(rlcm: Rlcm, options: str, answer: str, tmp_path: Path) -> None:
    rows = [{"problem_id": "a", "answer": "7", "confidence": 0.5}] * 8
    rows += [{"problem_id": "a", "answer": "8", "confidence": 0.9}] * 2
    write(tmp_path / "rollouts.jsonl", rows)
    assert rlcm(f"aggregate rollouts.jsonl --out out.jsonl {options}")[0] == 0
    (result,) = read(tmp_path / "out.jsonl")
    assert result["answer"] == answer


def test_the_same_results_from_lines_and_parquet_grouped_scattered_and_spilled(
    tmp_path: Path,
) -> None:
    rows = [
        {"problem_id": f"p{at % 97}", "answer": str(at % 7), "confidence": at % 13 / 13}
        for at in range(3000)
    ]
    together = sorted(rows, key=lambda row: int(str(row["problem_id"])[1:]))
    found = []
    for name, given, options, memory in (
        ("1.jsonl", rows, VoteOptions(), 2**26),
        ("2.parquet", rows, VoteOptions(), 2**26),
        ("3.jsonl", rows, VoteOptions(), 0),
        ("4.jsonl", together, VoteOptions(grouped=True), 0),
    ):
        out = tmp_path / f"out-{name}"
        aggregate_file(write(tmp_path / name, given), out, options, memory=memory)
        found.append(read(out))
    assert len(found[0]) == 97
    assert all(each == found[0] for each in found)


@pytest.mark.parametrize(
    ("name", "rows", "message"),
    [
        ("a.jsonl", [ROWS[0], {**ROWS[1], "confidence": 2}], "line 2: confidence is 2.0: give a n"),
        ("a.parquet", [ROWS[0], {**ROWS[1], "confidence": 2.0}], "row 2: confidence is 2.0: give"),
        ("a.jsonl", [{**ROWS[0], "tokens": 3}], "line 1: there is no field 'tokens'"),
        ("a.parquet", [{**ROWS[0], "tokens": 3}], "there is a column 'tokens'"),
        ("a.parquet", [{"problem_id": "a"}], "there is no column 'answer': add it"),
        ("a.parquet", [{**ROWS[0], "answer": 7}], "column 'answer' holds int64: store it as str"),
        ("a.csv", [], "a.csv is neither JSON lines nor Parquet"),
    ],
)
def test_what_cannot_be_read_is_said_and_nothing_is_written(
    rlcm: Rlcm, name: str, rows: list[dict[str, Any]], message: str, tmp_path: Path
) -> None:
    write(tmp_path / name, rows)
    (tmp_path / "out.jsonl").write_text("from before")
    status, _, error = rlcm(f"aggregate {name} --out out.jsonl")
    assert status == 1
    said = message if name == "a.csv" else f"{name}: {message}"
    assert f"error: {said}" in error.replace("\n", "")
    assert (tmp_path / "out.jsonl").read_text() == "from before"
    assert sorted(each.name for each in tmp_path.iterdir()) == sorted([name, "out.jsonl"])


def test_a_file_that_is_not_parquet_is_refused(rlcm: Rlcm, tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_text("no")
    status, _, error = rlcm("aggregate a.parquet --out out.jsonl")
    assert status == 1
    assert "error: a.parquet: cannot be read as Parquet" in error
    assert error.count("a.parquet") == 1


def test_further_columns_are_passed_over_if_asked(rlcm: Rlcm, tmp_path: Path) -> None:
    for name in ("a.jsonl", "a.parquet"):
        write(tmp_path / name, [{**row, "tokens": 3} for row in ROWS])
        assert rlcm(f"aggregate {name} --out out.jsonl --ignore-extra")[0] == 0
        assert read(tmp_path / "out.jsonl") == RESULTS


def test_columns_may_be_dictionaries_and_floats_of_any_size(tmp_path: Path) -> None:
    table = pa.Table.from_pylist(ROWS)
    for name in ("problem_id", "answer"):
        at = table.schema.get_field_index(name)
        table = table.set_column(at, name, table[name].dictionary_encode())
    at = table.schema.get_field_index("confidence")
    table = table.set_column(at, "confidence", table["confidence"].cast(pa.float32()))
    pq.write_table(table, tmp_path / "a.parquet")
    summary = aggregate_file(tmp_path / "a.parquet", tmp_path / "out.jsonl", VoteOptions())
    assert (summary.problems, summary.rollouts) == (2, 5)


def test_progress_is_told(tmp_path: Path) -> None:
    told: list[tuple[int, int | None]] = []
    for name in ("a.jsonl", "a.parquet"):
        source = write(tmp_path / name, ROWS)
        aggregate_file(
            source,
            tmp_path / "out.jsonl",
            VoteOptions(),
            on_progress=lambda done, total: told.append((done, total)),
        )
    size = (tmp_path / "a.jsonl").stat().st_size
    assert told == [(size, size), (5, 5)]


def test_two_runs_do_not_write_one_file(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    with written_whole(out) as file:
        file.write(b"whole\n")
        with pytest.raises(Conflict, match="another run is writing"), written_whole(out):
            pass
    assert out.read_bytes() == b"whole\n"


KILLED = """
import os, signal, sys
from pathlib import Path
from rlcm_serve.aggregation.files import written_whole
signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever started the tests may ignore it
with written_whole(Path(sys.argv[1])) as file:
    file.write(b"half" * 100_000)
    file.flush()
    os.kill(os.getpid(), signal.Signals[sys.argv[2]])
"""


@pytest.mark.parametrize("name", ["SIGKILL", "SIGINT"])
def test_a_run_that_is_killed_writes_nothing_and_the_next_one_does(
    name: str, tmp_path: Path
) -> None:
    out = tmp_path / "out.jsonl"
    ran = subprocess.run(
        [sys.executable, "-c", KILLED, str(out), name], capture_output=True, check=False
    )
    assert ran.returncode == -signal.Signals[name]
    assert not out.exists()
    with written_whole(out) as file:
        file.write(b"whole\n")
    assert out.read_bytes() == b"whole\n"
    assert list(tmp_path.iterdir()) == [out]


def test_a_term_signal_ends_a_run_with_nothing_left(tmp_path: Path) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    program = "from rlcm_serve.cli import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", program, "aggregate", "-", "--out", str(tmp_path / "out.jsonl")],
        stdin=subprocess.PIPE,
        env=os.environ | {"TMPDIR": str(folder)},
    )
    partial = tmp_path / ".out.jsonl.partial"
    wait_until(partial.exists)
    process.terminate()
    assert process.wait(20) == 128 + signal.SIGTERM
    assert process.stdin is not None
    process.stdin.close()
    assert list(tmp_path.iterdir()) == [folder]
    assert not list(folder.iterdir())


def wait_until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_file_that_is_not_there(rlcm: Rlcm) -> None:
    status, _, error = rlcm("aggregate nowhere.jsonl --out out.jsonl")
    assert status == 1
    assert "nowhere.jsonl" in error


def test_a_source_may_be_its_own_output(tmp_path: Path) -> None:
    source = write(tmp_path / "a.jsonl", ROWS)
    aggregate_file(source, source, VoteOptions())
    assert read(source) == RESULTS


def test_the_suffix_of_the_output_counts_before_anything_is_read(tmp_path: Path) -> None:
    with pytest.raises(RequestRefused, match="neither JSON lines nor Parquet"):
        aggregate_file(tmp_path / "nowhere.jsonl", tmp_path / "out.txt", VoteOptions())


def test_columns_of_other_kinds_of_text_are_read_and_doubled_ones_named(
    rlcm: Rlcm, tmp_path: Path
) -> None:
    table = pa.Table.from_pylist(ROWS)
    for name in ("problem_id", "answer"):
        viewed = pa.array(table[name].to_pylist(), pa.string_view())
        table = table.set_column(table.column_names.index(name), name, viewed)
    pq.write_table(table, tmp_path / "a.parquet")
    assert rlcm("aggregate a.parquet --out out.jsonl")[0] == 0
    assert read(tmp_path / "out.jsonl") == RESULTS
    pq.write_table(table.append_column("answer", table["answer"]), tmp_path / "b.parquet")
    status, _, error = rlcm("aggregate b.parquet --out out.jsonl")
    assert status == 1
    assert "there are two columns 'answer': keep one" in error
