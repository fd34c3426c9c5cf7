"""The folder of an evaluation run.

run.json                  engine and settings
grades.txt                verdicts, by a digest of grader, answer and reference
BENCHMARK/problems.jsonl  problems and references
BENCHMARK/journal.jsonl   rollouts while the benchmark is recorded; a kill loses no finished one
BENCHMARK/rollouts.parquet, readings.parquet   the same rollouts, once all are recorded
BENCHMARK/traces.parquet  graded rollouts, for `rlcm fit` and for the measures
metrics.json, report.html, figures/
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from calibration.files import write_text
from rlcm_serve.errors import RequestRefused
from rlcm_serve.evaluation.rollouts import EvaluationReading, EvaluationRollout
from rlcm_serve.recording.problems import LabelledProblem, read_problems
from rlcm_serve.recording.rollouts import Key

_KEY = ("problem_id", "rollout")
_NOT_IN_OLDER = {"request"}
"""Settings that older folders do not tell; the texts of their problems do."""
_ROLLOUTS = pa.schema(
    {
        "problem_id": pa.string(),
        "rollout": pa.int64(),
        "text": pa.large_string(),
        "tokens": pa.int64(),
        "natural": pa.bool_(),
        "own_text": pa.large_string(),
        "own_answer": pa.string(),
        "own_tokens": pa.int64(),
        "own_verbalised": pa.float64(),
        "familiarity": pa.float64(),
    }
)
_READINGS = pa.schema(
    {
        "problem_id": pa.string(),
        "rollout": pa.int64(),
        "tokens": pa.int64(),
        "signals": pa.map_(pa.string(), pa.float64()),
        "answers": pa.list_(pa.string()),
        "answer_tokens": pa.list_(pa.int64()),
        "answer_probability": pa.float64(),
        "entropy": pa.float64(),
        "verbalised": pa.float64(),
        "verbalised_tokens": pa.int64(),
        "suffix_tokens": pa.int64(),
    }
)


class BenchmarkFolder:
    """The files of one benchmark in a run.

    Attributes:
        traces: the graded table.
        journal: rollouts that are not in the tables yet.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.traces = path / "traces.parquet"
        self.journal = path / "journal.jsonl"
        self._problems = path / "problems.jsonl"
        self._rollouts = path / "rollouts.parquet"
        self._readings = path / "readings.parquet"

    def begin(self, problems: Sequence[LabelledProblem]) -> None:
        """Adds these problems to the file of problems.

        Raises:
            RequestRefused: as `with_all`.
        """
        lines = (json.dumps(asdict(problem)) + "\n" for problem in self.with_all(problems))
        self.path.mkdir(parents=True, exist_ok=True)
        write_text(self._problems, "".join(lines))

    def with_all(self, problems: Sequence[LabelledProblem]) -> list[LabelledProblem]:
        """The problems added so far, and these. It writes nothing.

        Raises:
            RequestRefused: the folder has a problem of the same id with another text or reference.
        """
        known = {problem.id: problem for problem in self.problems()}
        for problem in problems:
            if known.setdefault(problem.id, problem) != problem:
                raise RequestRefused(
                    "out",
                    f"{self.path} holds rollouts of problem {problem.id!r} with another text or "
                    "reference: give another folder",
                )
        return list(known.values())

    def problems(self) -> list[LabelledProblem]:
        """All problems added so far."""
        return read_problems(self._problems) if self._problems.exists() else []

    def finished(self) -> list[Key]:
        """The keys of the rollouts in the tables."""
        if not self._rollouts.exists():
            return []
        return [(row["problem_id"], row["rollout"]) for row in _rows(self._rollouts, _KEY)]

    def read(self) -> Iterator[EvaluationRollout]:
        """The rollouts in the tables, by problem and number."""
        if not self._rollouts.exists():
            return
        readings: dict[Key, list[EvaluationReading]] = {}
        for row in _rows(self._readings):
            key = row["problem_id"], row["rollout"]
            readings.setdefault(key, []).append(msgspec.convert(row, EvaluationReading))
        for row in _rows(self._rollouts):
            row["readings"] = readings[row["problem_id"], row["rollout"]]
            yield EvaluationRollout.from_json(row)

    def texts(self) -> dict[Key, str]:
        """The reasoning of each rollout."""
        rows = _rows(self._rollouts, [*_KEY, "text"])
        return {(row["problem_id"], row["rollout"]): row["text"] for row in rows}

    def write(self, recordings: Iterable[EvaluationRollout]) -> None:
        """Replaces the tables; after that the journal may be deleted.

        A kill between the two leaves a rollout in both. The tables then keep it once.
        """
        by_key = {recording.key: recording for recording in recordings}
        rollouts, readings = [], []
        for key in sorted(by_key):
            rollout = by_key[key].to_json()
            same = {name: rollout[name] for name in _KEY}
            readings += [same | reading for reading in rollout.pop("readings")]
            rollouts.append(rollout)
        # The readings first: a table of rollouts says that its readings are complete.
        write_table(self._readings, pa.Table.from_pylist(readings, schema=_READINGS))
        write_table(self._rollouts, pa.Table.from_pylist(rollouts, schema=_ROLLOUTS))


class RunFolder:
    """The files of a run; the folder need not exist yet.

    Attributes:
        metrics_file: measures, as JSON.
        grades_file: verdicts.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.metrics_file = path / "metrics.json"
        self.grades_file = path / "grades.txt"
        self._manifest = path / "run.json"

    @property
    def is_begun(self) -> bool:
        """Whether the folder holds a run, finished or not."""
        return self._manifest.exists()

    def benchmark(self, name: str) -> BenchmarkFolder:
        """The files of one benchmark."""
        return BenchmarkFolder(self.path / name)

    def begin(self, manifest: dict[str, Any]) -> None:
        """Writes the manifest, or checks that the folder has the same one.

        Raises:
            RequestRefused: the folder holds a run with other settings; the message names them.
        """
        self.require_same(manifest)
        if not self.is_begun:
            self.path.mkdir(parents=True, exist_ok=True)
            write_text(self._manifest, json.dumps(manifest, indent=2) + "\n")

    def require_same(self, settings: Mapping[str, Any]) -> None:
        """Checks that a run in the folder, if there is one, has these settings.

        Raises:
            RequestRefused: it has others; the message names them. Or the path is a file.
        """
        if self.path.exists() and not self.path.is_dir():
            raise RequestRefused("out", f"{self.path} is a file: give a folder for the run")
        if not self.is_begun:
            return
        held = self.manifest()
        before = flat({name: held[name] for name in settings if name in held})
        unknown = _NOT_IN_OLDER - held.keys()
        now = flat({name: value for name, value in settings.items() if name not in unknown})
        differences = [
            f"{name} was {before.get(name)!r}, is {now.get(name)!r}"
            for name in {**before, **now}
            if before.get(name) != now.get(name)
        ]
        if differences:
            raise RequestRefused(
                "out",
                f"{self.path} holds a run with other settings ({'; '.join(differences)}): give "
                "another folder",
            )

    def manifest(self) -> dict[str, Any]:
        """Engine and settings of the run.

        Raises:
            RequestRefused: the folder holds no run.
        """
        try:
            manifest: dict[str, Any] = json.loads(self._manifest.read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise RequestRefused(
                "run", f"{self.path} holds no run ({error}): give a folder that `rlcm eval` wrote"
            ) from error
        return manifest


def plain_manifest(**values: Any) -> dict[str, Any]:
    """A manifest of these values, as JSON reads it back."""
    plain: dict[str, Any] = json.loads(json.dumps(values, default=asdict))
    return plain


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings as one level; names are joined by blanks."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{prefix}{name} ")
        else:
            found[prefix + name] = value
    return found


def write_table(path: Path, table: pa.Table) -> None:
    """Writes a Parquet file; a kill leaves the old file or the new one."""
    partial = path.with_name(f"{path.name}.partial")
    pq.write_table(table, partial, compression="zstd")
    partial.replace(path)


def _rows(path: Path, columns: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(columns=columns):
            yield from batch.to_pylist(maps_as_pydicts="strict")
