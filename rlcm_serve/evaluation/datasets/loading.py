"""Loads benchmarks: problems with references, their parts, and the grader."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rlcm_serve.errors import RequestRefused
from rlcm_serve.evaluation.datasets.benchmarks import Benchmark, Generated, Row, benchmark_named
from rlcm_serve.evaluation.datasets.questions import (
    PreparedProblem,
    choice_question,
    code_question,
    plain_question,
)
from rlcm_serve.evaluation.datasets.rows import file_rows, local_rows, source_rows
from rlcm_serve.evaluation.grading import Grader, grader_named
from rlcm_serve.recording.problems import NO_LABEL, LabelledProblem, digest_problems

ROLLOUTS = 4
"""Default per problem of a user's file."""

_QUESTION_OF_GRADER: dict[str, Callable[[Row], PreparedProblem]] = {
    "math": plain_question,
    "exact": plain_question,
    "choice": choice_question,
    "code": code_question,
}
"""Graders of installed packages have plain questions."""
_FIELDS = ("problem", "answer", "id", "group", "part", "options", "context")


@dataclass(frozen=True, slots=True)
class LoadedBenchmark:
    """Problems for a model, and the grader of its answers.

    Attributes:
        name, title: of the benchmark.
        problems: prompts and references.
        parts: family, level or subject of a problem, by its id; not every problem has one.
        grader: without running workers.
        rollouts: per problem, by default.
        digest: of prompts, references and ids, without the appended request. So runs with
            different requests still have the same problems.
    """

    name: str
    title: str
    problems: tuple[LabelledProblem, ...]
    parts: dict[str, str]
    grader: Grader
    rollouts: int
    digest: str


def load(
    spec: str,
    mapping: Mapping[str, str] | None = None,
    grader: str | None = None,
    limit: int | None = None,
    request: str = "",
) -> LoadedBenchmark:
    """Loads the benchmark that `spec` names.

    Args:
        spec: the name of a benchmark; or NAME=PATH, to read its rows from a local file or from a
            folder that is a copy of its repository; or the PATH of a user's file (JSONL, JSON, CSV
            or Parquet), whose problems become prompts without changes.
        mapping: the columns of the fields problem, answer, id, group and part, and for multiple
            choice of options and context, where they have other names.
        grader: for a user's file; math by default.
        limit: number of problems; the first ones are taken.
        request: appended to every problem.

    Raises:
        RequestRefused: there is no such benchmark, file, column or grader, a reference does not
            parse, or the hub cannot be reached; the message says what to do.
    """
    benchmark, rows = _find(spec, grader)
    return load_rows(benchmark, rows[:limit], mapping or {}, request)


def load_rows(
    benchmark: Benchmark, rows: Sequence[Row], mapping: Mapping[str, str], request: str = ""
) -> LoadedBenchmark:
    """Makes the problems of a benchmark from these rows.

    Args:
        mapping, request: as of `load`.

    Raises:
        RequestRefused: as `load`.
    """
    if not rows:
        raise RequestRefused("data", f"{benchmark.name} holds no row: check its source")
    _check_fields(mapping, benchmark)
    answer_grader = grader_named(benchmark.grader)
    problems: dict[str, LabelledProblem] = {}
    parts: dict[str, str] = {}
    for number, row in enumerate(rows, start=1):
        where = f"{benchmark.name}, row {number}"
        problem, part = _problem(benchmark, mapping, number, row, where)
        if problem.id in problems:
            raise RequestRefused(
                "data", f"{where}: the id {problem.id!r} comes twice; each id may come once"
            )
        if not problem.is_labelled:
            raise RequestRefused(
                "data",
                f"{where} ({problem.id}): the answer is {NO_LABEL!r}, so nobody has given the "
                "right one: give it, or leave the row out",
            )
        try:
            answer_grader.check_reference(problem.answer)
        except RequestRefused as error:
            raise RequestRefused("data", f"{where} ({problem.id}): {error}") from error
        problems[problem.id] = problem
        if part:
            parts[problem.id] = part
    return LoadedBenchmark(
        name=benchmark.name,
        title=benchmark.title,
        problems=tuple(
            replace(problem, problem=problem.problem + request) for problem in problems.values()
        ),
        parts=parts,
        grader=answer_grader,
        rollouts=benchmark.rollouts,
        digest=digest_problems(problems.values()),
    )


def _find(spec: str, grader: str | None) -> tuple[Benchmark, Sequence[Row]]:
    """The benchmark of a specification, and its rows."""
    name, equals, path = spec.partition("=")
    if equals and not Path(spec).exists():
        benchmark = benchmark_named(name)
        rows = local_rows(benchmark, Path(path))
    elif Path(spec).suffix or "/" in spec:
        benchmark = _of_file(Path(spec), grader or "math")
        return benchmark, file_rows(Path(spec))
    else:
        benchmark = benchmark_named(spec)
        rows = source_rows(benchmark)
    if grader is not None and grader != benchmark.grader:
        raise RequestRefused(
            "grader",
            f"{benchmark.name} is graded with {benchmark.grader!r}: leave the grader out, or give "
            "the file by its path alone",
        )
    return benchmark, rows


def _of_file(path: Path, grader: str) -> Benchmark:
    grader_named(grader)
    return Benchmark(
        name=path.stem,
        title=path.stem,
        source=Generated(lambda: ()),
        grader=grader,
        rollouts=ROLLOUTS,
        question=_QUESTION_OF_GRADER.get(grader, plain_question),
    )


def _check_fields(mapping: Mapping[str, str], benchmark: Benchmark) -> None:
    known = dict.fromkeys((*_FIELDS, *benchmark.columns))
    for name in mapping:
        if name not in known:
            raise RequestRefused("map", f"{name!r} is not a field: map one of {', '.join(known)}")


def _problem(
    benchmark: Benchmark, mapping: Mapping[str, str], number: int, row: Row, where: str
) -> tuple[LabelledProblem, str]:
    """The problem of a row and its part, which may be ""."""
    for column in mapping.values():
        if column not in row:
            raise _no_column(where, column, row)
    columns = {**benchmark.columns, **mapping}
    # Files with the columns `problem` and `answer` need none of the benchmark's own columns.
    fields = {**row, **{name: row[column] for name, column in columns.items() if column in row}}
    try:
        prepared = benchmark.question(fields)
        problem = LabelledProblem.from_json(
            {
                "id": fields.get("id", f"{benchmark.name}-{number - 1:04d}"),
                "problem": prepared.problem,
                "answer": prepared.answer,
                "group": fields.get("group"),
            }
        )
    except KeyError as error:
        raise _no_column(where, columns.get(error.args[0], error.args[0]), row) from error
    except (ValueError, TypeError, AttributeError) as error:
        raise RequestRefused("data", f"{where}: {error}; correct the row or remove it") from error
    part = fields.get("part")
    return problem, "" if part is None else benchmark.part.format(part)


def _no_column(where: str, column: str, row: Row) -> RequestRefused:
    return RequestRefused(
        "data",
        f"{where}: there is no column {column!r}, only {', '.join(map(repr, row))}; map the field "
        "to one of them",
    )
