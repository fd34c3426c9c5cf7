"""Recorded traces graded again: new verdicts and classes, and nothing else."""

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from calibration import ExitReason, TraceError, read_traces, write_traces
from calibration.traces.fingerprint import Fingerprint
from calibration.traces.table import FINGERPRINT_KEY, Reading, Rollout, fingerprint_of
from rlcm_serve.answers.grader import GRADER
from rlcm_serve.answers.grading.exact import ExactGrader
from rlcm_serve.errors import RequestRefused
from rlcm_serve.evaluation.grading import GRADERS, grader_named
from rlcm_serve.evaluation.regrading import read_table, regrade, regrader
from rlcm_serve.recording.problems import LabelledProblem
from tests.rlcm_serve.command_line import Rlcm

OLD = Fingerprint(
    model="m",
    probe="p",
    tokenizer="t",
    chat_template="c",
    temperature=1.0,
    top_p=1.0,
    checkpoint_interval=32,
    max_tokens=96,
    answer_max_tokens=16,
    forced_suffix="s",
    grader="an older one",
    samples=1,
    vote="confidence",
)
PROBLEMS = [LabelledProblem("a", "?", "2", "g"), LabelledProblem("b", "?", "6", "g")]
SAID = {
    ("a", 0): ["1", None, "2"],
    ("a", 1): ["2.0", "3"],
    ("b", 0): ["6", "5", "6"],
}
"""The answer at each reading of each rollout."""


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    """Traces in which every verdict is wrong, and every answer a class of its own."""
    path = tmp_path / "traces.parquet"
    rollouts = []
    for (problem, number), answers in SAID.items():
        readings = [
            Reading(32 * at, 0.5, answer, -1 if answer is None else at + 10 * number, 1, False)
            for at, answer in enumerate(answers, start=1)
        ]
        last = readings[-1]
        readings[-1] = Reading(
            last.tokens - 16, 0.5, last.answer, last.answer_class, 1, last.correct
        )
        rollouts.append(
            Rollout(
                problem, number, ExitReason.NATURAL, tuple(readings[:-1]), readings[-1], group="g"
            )
        )
    write_traces(path, rollouts, OLD)
    return path


class FirstDigit(ExactGrader):
    """A grader of an installed package."""

    name = "first digit 1"

    def key(self, answer: str) -> str:
        return answer[:1]

    def is_right(self, answer: str, reference: str) -> bool:
        return self.key(answer) == self.key(reference)


OWN = f"{__name__}:FirstDigit"


@pytest.mark.parametrize("name", [*GRADERS, OWN])
def test_traces_are_graded_by_their_own_grader(traces: Path, name: str) -> None:
    table = read_table(traces)
    assert regrader(table.replace_schema_metadata(None), None).name == GRADER
    known = replace(OLD, grader=f"{grader_named(name).name} before")
    metadata = {FINGERPRINT_KEY: json.dumps(known.to_json()).encode()}
    assert regrader(table.replace_schema_metadata(metadata), None).name == grader_named(name).name


def test_a_grader_of_an_installed_package_has_its_place_in_its_name(traces: Path) -> None:
    found = regrade(read_table(traces), PROBLEMS, grader_named(OWN))
    fingerprint = fingerprint_of(found.table.schema, "traces")
    assert fingerprint is not None
    assert fingerprint.grader == f"{OWN} first digit 1"
    with pytest.raises(RequestRefused, match="which cannot be loaded"):
        grader_named("no_such_package:Grader")


def test_verdicts_and_classes_are_those_of_the_grader(traces: Path) -> None:
    with grader_named("math") as grader:
        found = regrade(read_table(traces), PROBLEMS, grader)
    rows = found.table.to_pylist()
    assert [row["answer"] for row in rows] == [said for all_ in SAID.values() for said in all_]
    assert [row["correct"] for row in rows] == [False, False, True, True, False, True, False, True]
    assert [row["answer_class"] for row in rows] == [0, -1, 1, 1, 2, 0, 1, 0]
    assert (found.was, found.became_right, found.became_wrong) == ("an older one", 4, 0)
    assert found.regrouped == 2


def test_nothing_else_changes(traces: Path, rlcm: Rlcm, tmp_path: Path) -> None:
    data, out = tmp_path / "problems.jsonl", tmp_path / "new.parquet"
    lines = [{"id": each.id, "problem": each.problem, "answer": each.answer} for each in PROBLEMS]
    data.write_text("".join(json.dumps(line) + "\n" for line in lines))
    status, _, refused = rlcm(f"regrade {traces} --data {data} --out {out}")
    assert status != 0
    assert "graded by 'an older one', which is unknown here: name a grader" in " ".join(
        refused.split()
    )
    status, said, _ = rlcm(f"regrade {traces} --data {data} --out {out} --grader math")
    assert status == 0
    assert f"graded by {GRADER} (was an older one): 4 became right, 0 became wrong" in said
    before, after = pq.read_table(traces), pq.read_table(out)
    kept = [name for name in before.column_names if name not in ("answer_class", "correct")]
    assert after.select(kept).equals(before.select(kept))
    fingerprint = read_traces(out).fingerprint
    assert fingerprint is not None
    assert [line.split(":")[0].split(" ")[0] for line in OLD.differences(fingerprint)] == ["grader"]
    rlcm(f"regrade {out} --data {data} --out {out}")
    assert pq.read_table(out).equals(after)


def test_the_order_of_rows_does_not_matter(traces: Path) -> None:
    table = read_table(traces)
    with ExactGrader() as grader:
        whole = regrade(table, PROBLEMS, grader).table
        turned = regrade(table.take(list(range(len(table)))[::-1]), PROBLEMS, grader).table
    assert whole["correct"].to_pylist() == turned["correct"].to_pylist()[::-1]


def test_a_problem_without_a_reference_is_named(traces: Path) -> None:
    with ExactGrader() as grader, pytest.raises(RequestRefused, match=r"'b' of the traces is not"):
        regrade(read_table(traces), PROBLEMS[:1], grader)


def test_a_problem_without_a_label_gets_no_verdicts(traces: Path) -> None:
    problems = [PROBLEMS[0], LabelledProblem("b", "?", " ? ")]
    with ExactGrader() as grader:
        found = regrade(read_table(traces), problems, grader)
        again = regrade(found.table, PROBLEMS, grader)
    rows = found.table.to_pylist()
    assert {row["correct"] for row in rows if row["problem_id"] == "b"} == {None}
    assert [row["answer_class"] for row in rows if row["problem_id"] == "b"] == [0, 1, 0]
    assert (found.unlabelled, found.became_wrong, again.unlabelled) == (1, 0, 0)
    assert again.became_right == 2


def test_a_reference_that_cannot_be_compared_is_named(traces: Path) -> None:
    problems = [PROBLEMS[0], LabelledProblem("b", "?", r"\frac{1}{2")]
    with grader_named("math") as grader, pytest.raises(RequestRefused, match="problem 'b'"):
        regrade(read_table(traces), problems, grader)


def test_traces_without_texts_are_refused(traces: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare.parquet"
    pq.write_table(pq.read_table(traces).drop_columns(["answer"]), bare)
    with pytest.raises(TraceError, match=r"missing columns \['answer'\]"):
        read_table(bare)


def test_a_file_that_is_not_parquet_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.parquet").write_text("no")
    with pytest.raises(TraceError, match="is not Parquet"):
        read_table(tmp_path / "text.parquet")


def test_verdicts_may_be_whole_numbers(traces: Path) -> None:
    table = read_table(traces)
    numbers = pa.array([int(value) for value in table["correct"].to_pylist()], pa.int64())
    table = table.set_column(table.column_names.index("correct"), "correct", numbers)
    with ExactGrader() as grader:
        found = regrade(table, PROBLEMS, grader)
        expected = regrade(read_table(traces), PROBLEMS, grader)
    assert found.table["correct"].to_pylist() == expected.table["correct"].to_pylist()


def test_traces_without_a_fingerprint_stay_without(traces: Path) -> None:
    table = read_table(traces).replace_schema_metadata(None)
    with ExactGrader() as grader:
        found = regrade(table, PROBLEMS, grader)
    assert found.was is None
    assert not found.table.schema.metadata
    assert isinstance(found.table, pa.Table)
