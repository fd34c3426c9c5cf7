"""A run on disk: what it was made with, its rollouts, their grades, its figures.

run.json                  what the rollouts were made with
grades.txt                verdicts, by a digest of grader, answer and reference
BENCHMARK/journal.jsonl   rollouts while they are made; a kill loses none of it
BENCHMARK/rollouts.parquet, readings.parquet   the same, once all are there
BENCHMARK/traces.parquet  graded, for `rlcm fit` and for measuring
metrics.json, report.html, figures/
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from calibration.files import write_text
from rlcm_serve.errors import RequestRefused
from rlcm_serve.evaluation.rollouts import EvaluationReading, EvaluationRollout
from rlcm_serve.recording.problems import LabelledProblem, read_problems
from rlcm_serve.recording.rollouts import Key

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
    }
)


@dataclass(frozen=True, slots=True)
class BenchmarkFolder:
    """One benchmark's part of a run."""

    path: Path

    @property
    def traces(self) -> Path:
        """The graded table."""
        return self.path / "traces.parquet"

    @property
    def noted(self) -> Path:
        """The problems."""
        return self.path / "problems.jsonl"

    @property
    def journal(self) -> Path:
        """Rollouts that are not yet in the tables."""
        return self.path / "journal.jsonl"

    @property
    def rollouts(self) -> Path:
        """Rollouts with their texts."""
        return self.path / "rollouts.parquet"

    @property
    def readings(self) -> Path:
        """What was read and forced at their checkpoints."""
        return self.path / "readings.parquet"

    def begin(self, problems: Sequence[LabelledProblem]) -> None:
        """Notes these problems beside those that are noted already.

        Raises:
            RequestRefused: one of them was another problem when rollouts of it were made.
        """
        known = {problem.id: problem for problem in self.problems()}
        for problem in problems:
            if known.setdefault(problem.id, problem) != problem:
                raise RequestRefused(
                    "out",
                    f"{self.path} holds rollouts of problem {problem.id!r} with another text or "
                    "reference: give another folder",
                )
        self.path.mkdir(parents=True, exist_ok=True)
        lines = (json.dumps(asdict(problem)) + "\n" for problem in known.values())
        write_text(self.noted, "".join(lines))

    def problems(self) -> list[LabelledProblem]:
        """All problems that the part was ever begun with."""
        return read_problems(self.noted) if self.noted.exists() else []

    def finished(self) -> list[Key]:
        """The rollouts in the tables."""
        if not self.rollouts.exists():
            return []
        table = pq.read_table(self.rollouts, columns=["problem_id", "rollout"])
        return list(zip(*(column.to_pylist() for column in table.columns), strict=True))

    def read(self) -> Iterator[EvaluationRollout]:
        """The rollouts in the tables, by problem and number."""
        if not self.rollouts.exists():
            return
        readings: dict[Key, list[EvaluationReading]] = {}
        for row in _rows(self.readings):
            key = row["problem_id"], row["rollout"]
            readings.setdefault(key, []).append(msgspec.convert(row, EvaluationReading))
        for row in _rows(self.rollouts):
            row["readings"] = readings[row["problem_id"], row["rollout"]]
            yield EvaluationRollout.from_json(row)

    def texts(self) -> dict[Key, str]:
        """The reasoning of each rollout."""
        table = pq.read_table(self.rollouts, columns=["problem_id", "rollout", "text"])
        ids, numbers, texts = (column.to_pylist() for column in table.columns)
        return dict(zip(zip(ids, numbers, strict=True), texts, strict=True))

    def write(self, records: Iterable[EvaluationRollout]) -> None:
        """Puts these into the tables, in place of what they hold; then the journal may go.

        One that comes twice, for a kill came between the tables and the journal, is there once.
        """
        by_key = {record.key: record for record in records}
        rollouts, readings = [], []
        for key in sorted(by_key):
            rollout = by_key[key].to_json()
            same = {name: rollout[name] for name in ("problem_id", "rollout")}
            readings += [same | reading for reading in rollout.pop("readings")]
            rollouts.append(rollout)
        # The readings first: a table of rollouts says that its readings are complete.
        write_table(self.readings, pa.Table.from_pylist(readings, schema=_READINGS))
        write_table(self.rollouts, pa.Table.from_pylist(rollouts, schema=_ROLLOUTS))


@dataclass(frozen=True, slots=True)
class RunFolder:
    """A run's folder, which may not be there yet."""

    path: Path

    @property
    def manifest_file(self) -> Path:
        return self.path / "run.json"

    @property
    def metrics_file(self) -> Path:
        return self.path / "metrics.json"

    @property
    def grades_file(self) -> Path:
        return self.path / "grades.txt"

    def benchmark(self, name: str) -> BenchmarkFolder:
        """The part of one benchmark."""
        return BenchmarkFolder(self.path / name)

    def begin(self, manifest: dict[str, Any]) -> Self:
        """Notes what the run is made with, or sees that it is what the folder was begun with.

        Raises:
            RequestRefused: the folder holds a run of other settings; the message names them.
        """
        if self.path.exists() and not self.path.is_dir():
            raise RequestRefused("out", f"{self.path} is a file: give a folder for the run")
        if self.manifest_file.exists():
            begun, asked = flat(self.manifest()), flat(manifest)
            differ = [name for name in {**begun, **asked} if begun.get(name) != asked.get(name)]
            if differ:
                was = "; ".join(
                    f"{name} was {begun.get(name)!r}, is {asked.get(name)!r}" for name in differ
                )
                raise RequestRefused(
                    "out", f"{self.path} holds a run of other settings ({was}): give another folder"
                )
            return self
        self.path.mkdir(parents=True, exist_ok=True)
        write_text(self.manifest_file, json.dumps(manifest, indent=2) + "\n")
        return self

    def manifest(self) -> dict[str, Any]:
        """What the run was made with.

        Raises:
            RequestRefused: the folder holds no run.
        """
        try:
            manifest: dict[str, Any] = json.loads(self.manifest_file.read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise RequestRefused(
                "run", f"{self.path} holds no run ({error}): give a folder that `rlcm eval` wrote"
            ) from error
        return manifest


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings as one level, names joined by blanks."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{prefix}{name} ")
        else:
            found[prefix + name] = value
    return found


def write_table(path: Path, table: pa.Table) -> None:
    """Whole or not at all."""
    partial = path.with_name(f"{path.name}.partial")
    pq.write_table(table, partial, compression="zstd")
    partial.replace(path)


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches():
            yield from batch.to_pylist(maps_as_pydicts="strict")


def plain_manifest(**values: Any) -> dict[str, Any]:
    """Values as JSON gives them back."""
    plain: dict[str, Any] = json.loads(json.dumps(values, default=asdict))
    return plain
