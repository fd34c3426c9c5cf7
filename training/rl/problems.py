"""Training problems: from a file, a benchmark or the Hugging Face hub, or generated."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rlcm_serve.errors import RequestRefused
from rlcm_serve.evaluation.datasets.benchmarks import Benchmark, Hub, benchmarks
from rlcm_serve.evaluation.datasets.loading import load, load_rows
from rlcm_serve.evaluation.datasets.questions import plain_question
from rlcm_serve.evaluation.datasets.rows import SUFFIXES, local_rows, source_rows
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

    A benchmark has columns, split and configuration of its own, so it takes none of `[data]`.
    Problems of a file are asked as those of `[data]`: with the request of its benchmark.
    """
    named, asked_as, hub = _benchmark(own.source), _benchmark(data.source), _hub(own.source)
    is_file = named is None and hub is None and not _is_generated(own.source)
    default = data if named is None and hub is not None else hub or DataSettings()
    columns = {} if named else data.columns
    return replace(
        data,
        source=f"{asked_as.name}={own.source}" if asked_as and is_file else own.source,
        limit=own.limit,
        columns=columns if own.columns is None else own.columns,
        split=own.split or default.split,
        config=own.config or default.config,
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


def _hub(source: str) -> Hub | None:
    """The data set of the hub that a source names, or a benchmark's copy of one; None for others.

    Only these have splits.
    """
    benchmark, path = _benchmark(source), source.partition("=")[2]
    if benchmark is None:
        return Hub(source) if source.count("/") == 1 and not _is_local(source) else None
    hub = benchmark.source
    if not isinstance(hub, Hub) or hub.files:
        return None
    return hub if not path or Path(path).is_dir() else None


def _is_local(source: str) -> bool:
    # What follows another dot belongs to the name of a data set on the hub.
    return Path(source).suffix.lower() in SUFFIXES or "=" in source or Path(source).exists()


def _found(settings: DataSettings, seed: int) -> tuple[LabelledProblem, ...]:
    source, benchmark, hub = settings.source, _benchmark(settings.source), _hub(settings.source)
    if hub is not None:
        return _of_split(
            replace(hub, split=settings.split, config=settings.config or hub.config), settings
        )
    if settings.split != DataSettings().split or settings.config is not None:
        raise TrainingRefused(
            f"source {source!r} is no data set of the hub, so it has neither split nor config: "
            "leave them out"
        )
    if _is_generated(source):
        return _generated(source, settings.limit or _GENERATED_COUNT, seed)
    if benchmark is None and not _is_local(source):
        raise TrainingRefused(
            f"[data] source is {source!r}, which is not a file, a benchmark or the id of a dataset "
            f"(OWNER/NAME): give one of these, or {GENERATED!r}"
        )
    return load(source, settings.columns, limit=settings.limit).problems


def _of_split(hub: Hub, settings: DataSettings) -> tuple[LabelledProblem, ...]:
    """The problems of a split, from the hub or from a local copy."""
    source, path = settings.source, settings.source.partition("=")[2]
    plain = Benchmark(name=source, title=source, source=hub, question=plain_question)
    named = _benchmark(source)
    benchmark = replace(named, source=hub) if named else plain
    rows = local_rows(benchmark, Path(path)) if path else source_rows(benchmark)
    return load_rows(benchmark, rows[: settings.limit], settings.columns).problems


def _is_generated(source: str) -> bool:
    return source == GENERATED or source.removeprefix(f"{GENERATED}-") in FAMILIES


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
