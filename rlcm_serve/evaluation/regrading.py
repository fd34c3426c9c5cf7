"""Grades recorded traces again, from the answers' texts; no model is needed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from calibration import TraceError
from calibration.policy.voting import NO_ANSWER
from calibration.traces.fingerprint import Fingerprint
from calibration.traces.table import SCHEMA, fingerprint_of, with_fingerprint
from rlcm_serve.errors import RequestRefused
from rlcm_serve.evaluation.grading import Grader, grader_named, grader_of
from rlcm_serve.events import OnProgress, ignore_progress
from rlcm_serve.recording.problems import LabelledProblem

TEXT_COLUMNS = ("problem_id", "answer", "answer_class", "correct")
"""What a table needs to be graded again; `rlcm collect` writes all of them."""

Answers = Mapping[str, Sequence[str]]
"""The different answers to each problem, by its id, in the order of their first rows."""


@dataclass(frozen=True, slots=True, eq=False)
class Regraded:
    """Traces with today's verdicts, and what changed.

    Attributes:
        table: as it was, but for `answer_class`, `correct` and the fingerprint's grader.
        was: the grader that the traces named; None without a fingerprint.
        became_right, became_wrong: readings whose verdict changed.
        regrouped: problems in which other answers share a class.
        unlabelled: problems without a label, whose verdicts are null.
    """

    table: pa.Table
    was: str | None
    became_right: int
    became_wrong: int
    regrouped: int
    unlabelled: int


def read_table(path: Path) -> pa.Table:
    """The table of a Parquet file of traces.

    Raises:
        TraceError: it is a folder, is not Parquet, or has no texts of answers.
        FileNotFoundError: the path does not exist.
    """
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file or directory")
    if path.is_dir():
        raise TraceError(f"{path} is a folder: give one of its Parquet files")
    try:
        table = pq.read_table(path)
    except pa.ArrowInvalid as error:
        raise TraceError(f"{path} is not Parquet ({error}): collect it again") from error
    if missing := [name for name in TEXT_COLUMNS if name not in table.column_names]:
        raise TraceError(f"{path}: missing columns {missing}: without them nothing can be graded")
    return table


def problems_of(table: pa.Table, problems: Iterable[LabelledProblem]) -> list[LabelledProblem]:
    """The problems of the traces, in the order of their first rows.

    Raises:
        RequestRefused: one is not among `problems`; the message names it.
    """
    known = {problem.id: problem for problem in problems}
    ids = dict.fromkeys(table["problem_id"].to_pylist())
    for id_ in ids:
        if id_ not in known:
            raise RequestRefused(
                "data",
                f"problem {id_!r} of the traces is not among the {len(known)} problems: give the "
                "problems that were recorded",
            )
    return [known[id_] for id_ in ids]


def required_fingerprint(table: pa.Table) -> Fingerprint:
    """The fingerprint of the traces.

    Raises:
        TraceError: they have none, or it is malformed.
    """
    fingerprint = fingerprint_of(table.schema, "traces")
    if fingerprint is None:
        raise TraceError("the traces have no fingerprint, so no service can use them: record again")
    return fingerprint


def regrader(table: pa.Table, name: str | None) -> Grader:
    """The grader with this name; for None that of the traces, in its version of today.

    Traces without a fingerprint are graded as mathematics.

    Raises:
        RequestRefused: there is no such grader.
        TraceError: the fingerprint is malformed.
    """
    if name is not None:
        return grader_named(name)
    fingerprint = fingerprint_of(table.schema, "traces")
    return grader_named("math") if fingerprint is None else grader_of(fingerprint.grader)


def regrade(
    table: pa.Table,
    problems: Iterable[LabelledProblem],
    grader: Grader,
    on_progress: OnProgress = ignore_progress,
) -> Regraded:
    """Verdicts and classes of all recorded answers under `grader`.

    The answers' texts are taken as recorded: they are not extracted again.

    Args:
        table: as from `read_table`.
        problems: those of the traces; others are ignored.
        on_progress: counts problems, while their answers are grouped.

    Raises:
        RequestRefused: a problem of the traces is not among `problems`, or its reference cannot be
            compared with; the message names it.
        TraceError: the fingerprint is malformed.
    """
    fingerprint = fingerprint_of(table.schema, "traces")
    ids, said = table["problem_id"].to_pylist(), table["answer"].to_pylist()
    references = _references(problems_of(table, problems), grader)
    answers: dict[str, list[str]] = {}
    for id_, answer in dict.fromkeys(zip(ids, said, strict=True)):
        answers.setdefault(id_, []).extend([] if answer is None else [answer])
    labelled = {id_: given for id_, given in answers.items() if id_ in references}
    right = _right(labelled, references, grader)
    class_of = _classes(answers, grader, on_progress)
    correct = [
        (id_, answer) in right if id_ in references else None
        for id_, answer in zip(ids, said, strict=True)
    ]
    classes = [class_of.get(key, NO_ANSWER) for key in zip(ids, said, strict=True)]
    before = table["correct"].to_pylist()
    regraded = _replaced(table, correct, classes)
    if fingerprint is not None:
        regraded = with_fingerprint(regraded, replace(fingerprint, grader=grader.name))
    return Regraded(
        table=regraded,
        was=None if fingerprint is None else fingerprint.grader,
        became_right=sum(now is True and not was for now, was in zip(correct, before, strict=True)),
        became_wrong=sum(
            was is True and now is False for now, was in zip(correct, before, strict=True)
        ),
        regrouped=_regrouped(ids, table["answer_class"].to_pylist(), classes),
        unlabelled=len(set(ids) - references.keys()),
    )


def _references(problems: Iterable[LabelledProblem], grader: Grader) -> dict[str, str]:
    """The reference of each problem that has a label."""
    found = {}
    for problem in problems:
        if not problem.is_labelled:
            continue
        try:
            grader.check_reference(problem.answer)
        except RequestRefused as error:
            raise RequestRefused("data", f"problem {problem.id!r}: {error}") from error
        found[problem.id] = problem.answer
    return found


def _right(answers: Answers, references: Mapping[str, str], grader: Grader) -> set[tuple[str, str]]:
    """The right answers, each with its problem."""
    keys = [(id_, answer) for id_, given in answers.items() for answer in given]
    verdicts = grader.grade([(answer, references[id_]) for id_, answer in keys])
    return {key for key, right in zip(keys, verdicts, strict=True) if right}


def _classes(
    answers: Answers, grader: Grader, on_progress: OnProgress
) -> dict[tuple[str, str], int]:
    """The class of each answer, numbered within its problem by first appearance."""
    classes = grader.classes_of_all(list(answers.values()), on_progress)
    return {
        (id_, answer): number
        for (id_, given), numbers in zip(answers.items(), classes, strict=True)
        for answer, number in zip(given, numbers, strict=True)
    }


def _replaced(table: pa.Table, correct: Sequence[bool | None], classes: Sequence[int]) -> pa.Table:
    for name, values in (("answer_class", classes), ("correct", correct)):
        at = table.column_names.index(name)
        field = SCHEMA.field(name)  # the file may have other whole numbers, also for true and false
        table = table.set_column(at, field, pa.array(values, field.type))
    return table


def _regrouped(ids: Sequence[str], before: Sequence[int], after: Sequence[int]) -> int:
    """Problems whose readings are grouped otherwise, whatever the classes' numbers."""
    pairs: dict[str, set[tuple[int, int]]] = {}
    for id_, old, new in zip(ids, before, after, strict=True):
        pairs.setdefault(id_, set()).add((old, new))
    return sum(
        len({old for old, _ in seen}) < len(seen) or len({new for _, new in seen}) < len(seen)
        for seen in pairs.values()
    )
