"""Training problems: from a file, a benchmark or the Hugging Face hub, or generated."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rlcm_serve.errors import RequestRefused
from rlcm_serve.evaluation.datasets.benchmarks import Benchmark, Hub, benchmarks
from rlcm_serve.evaluation.datasets.loading import load, load_rows
from rlcm_serve.evaluation.datasets.questions import plain_question
from rlcm_serve.evaluation.datasets.rows import SUFFIXES, source_rows
from rlcm_serve.evaluation.grading import Grader, grader_named
from rlcm_serve.recording.problems import LabelledProblem, digest_problems
from training.errors import TrainingRefused
from training.rl.settings import DataSettings, EvaluationSettings, RunSettings
from training.tasks.problems import FAMILIES, Split, sample_problems

GENERATED = "embedded"
_GENERATED_COUNT = 3000
_HELD_OUT = -1
"""Seed of generated problems to evaluate on, for all runs the same."""


@dataclass(frozen=True, slots=True)
class TrainingProblems:
    """Problems and references.

    Attributes:
        problems: at least one.
        digest: of problems, references and ids.
        source: origin of the problems, for the model card.
    """

    problems: tuple[LabelledProblem, ...]
    digest: str
    source: str

    def rows(self, settings: DataSettings, asks_confidence: bool) -> list[dict[str, Any]]:
        """Rows for a trainer: `prompt` as messages, `answer` and `id`."""
        request = settings.confidence_request if asks_confidence else ""
        return [
            {
                "prompt": [
                    {
                        "role": "user",
                        "content": settings.prompt.replace("{problem}", problem.problem) + request,
                    }
                ],
                "answer": problem.answer,
                "id": problem.id,
            }
            for problem in self.problems
        ]


def load_problems(settings: DataSettings, grader: Grader, seed: int) -> TrainingProblems:
    """Loads the problems that `settings` names and checks their references.

    Raises:
        TrainingRefused: they cannot be loaded, have no answers, or are a benchmark with another
            grader; the message names the fix.
    """
    try:
        _require_grader(settings.source, grader)
        problems = _found(settings, seed)
        for problem in problems:
            grader.check_reference(problem.answer)
    except (RequestRefused, OSError) as error:
        raise TrainingRefused(f"[data] source {settings.source!r}: {error}") from error
    return TrainingProblems(problems, digest_problems(problems), settings.source)


def load_held_out(settings: RunSettings, grader: Grader) -> TrainingProblems | None:
    """Loads the problems of `[evaluation]`; None without that table.

    Raises:
        TrainingRefused: as `load_problems`.
    """
    if settings.evaluation is None:
        return None
    try:
        data = _held_out_data(settings.data, settings.evaluation)
        return load_problems(data, grader, _HELD_OUT)
    except (TrainingRefused, OSError) as error:
        raise TrainingRefused(f"[evaluation]: {error}") from error


def _held_out_data(data: DataSettings, own: EvaluationSettings) -> DataSettings:
    """Where held-out problems come from: `[data]`, with what `[evaluation]` sets.

    A benchmark has columns of its own, so it does not take those of `[data]`.
    """
    shared = {} if _benchmark(own.source) else data.columns
    return replace(
        data,
        source=own.source,
        limit=own.limit,
        columns=shared if own.columns is None else own.columns,
        split=own.split or data.split,
        config=own.config or data.config,
    )


def _require_grader(source: str, grader: Grader) -> None:
    """Raises `TrainingRefused` if the source is a benchmark that another grader grades."""
    benchmark = _benchmark(source)
    if benchmark is None:
        return
    own = grader_named(benchmark.grader)
    if own.name != grader.name:
        raise TrainingRefused(
            f"source {source!r} is graded with {benchmark.grader!r} ({own.name}), and "
            f"training grades with {grader.name}, which would count right answers as wrong: give "
            "problems whose answers are mathematics"
        )


def _benchmark(source: str) -> Benchmark | None:
    """The benchmark that a source names, alone or as NAME=PATH; None for other sources."""
    name, equals, _ = source.partition("=")
    return None if equals and Path(source).exists() else benchmarks().get(name)


def _found(settings: DataSettings, seed: int) -> tuple[LabelledProblem, ...]:
    source = settings.source
    if source == GENERATED or source.removeprefix(f"{GENERATED}-") in FAMILIES:
        return _generated(source, settings.limit or _GENERATED_COUNT, seed)
    # What follows another dot belongs to the name of a data set on the hub.
    names_a_file = Path(source).suffix.lower() in SUFFIXES or "=" in source
    if names_a_file or Path(source).exists() or source in benchmarks():
        return load(source, settings.columns, limit=settings.limit).problems
    if source.count("/") != 1:
        raise TrainingRefused(
            f"[data] source is {source!r}, which is not a file, a benchmark or the id of a dataset "
            f"(OWNER/NAME): give one of these, or {GENERATED!r}"
        )
    hub = Benchmark(
        name=source,
        title=source,
        source=Hub(source, split=settings.split, config=settings.config),
        question=plain_question,
    )
    return load_rows(hub, source_rows(hub)[: settings.limit], settings.columns).problems


def _generated(source: str, count: int, seed: int) -> tuple[LabelledProblem, ...]:
    """Problems at every level, which certificates and evaluations do not use.

    Those to evaluate on while training are of another split than those to train on.
    """
    split = Split.VALIDATION if seed == _HELD_OUT else Split.TRAIN
    family = source.removeprefix(f"{GENERATED}-")
    families = (family,) if family in FAMILIES else tuple(FAMILIES)
    return tuple(
        LabelledProblem(problem.id, problem.question, problem.answer)
        for problem in sample_problems(split, count, seed, families=families)
    )
