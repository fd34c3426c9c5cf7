"""The problems to train on, from a file, a hub, or made."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlcm_serve.errors import RequestRefused
from rlcm_serve.evaluation.datasets.benchmarks import Benchmark, Hub, benchmarks
from rlcm_serve.evaluation.datasets.loading import load, load_rows
from rlcm_serve.evaluation.datasets.questions import plain_question
from rlcm_serve.evaluation.datasets.rows import source_rows
from rlcm_serve.evaluation.grading import Grader
from rlcm_serve.recording.problems import LabelledProblem, digest_problems
from training.errors import TrainingRefused
from training.rl.settings import DataSettings
from training.tasks.problems import FAMILIES, Split, sample_problems

MADE = "embedded"
_MADE_COUNT = 3000


@dataclass(frozen=True, slots=True)
class TrainingProblems:
    """Problems and references.

    Attributes:
        problems: at least one.
        digest: of problems, references and ids: the data's fingerprint.
        source: where they are from, for the card.
    """

    problems: tuple[LabelledProblem, ...]
    digest: str
    source: str

    def rows(self, settings: DataSettings, asks_confidence: bool) -> list[dict[str, Any]]:
        """What a trainer reads: `prompt` as messages, `answer`, `id`."""
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
    """The problems that `settings` names, references checked.

    Raises:
        TrainingRefused: they cannot be had, or have no answers; the message says what to do.
    """
    try:
        problems = _found(settings, seed)
        for problem in problems:
            grader.check_reference(problem.answer)
    except RequestRefused as error:
        raise TrainingRefused(f"[data] source {settings.source!r}: {error}") from error
    return TrainingProblems(problems, digest_problems(problems), settings.source)


def _found(settings: DataSettings, seed: int) -> tuple[LabelledProblem, ...]:
    source = settings.source
    if source == MADE or source.removeprefix(f"{MADE}-") in FAMILIES:
        return _made(source, settings.limit or _MADE_COUNT, seed)
    is_file = Path(source).exists() or bool(Path(source).suffix) or "=" in source
    if is_file or source in benchmarks():
        return load(source, settings.columns, limit=settings.limit).problems
    if source.count("/") != 1:
        raise TrainingRefused(
            f"[data] source is {source!r}, which is no file, no benchmark and no id of a data set "
            f"(OWNER/NAME): give one of these, or {MADE!r}"
        )
    hub = Benchmark(
        name=source,
        title=source,
        source=Hub(source, split=settings.split, config=settings.config),
        question=plain_question,
    )
    return load_rows(hub, source_rows(hub)[: settings.limit], settings.columns).problems


def _made(source: str, count: int, seed: int) -> tuple[LabelledProblem, ...]:
    """Of split TRAIN, every level: what neither a certificate nor an evaluation sees."""
    family = source.removeprefix(f"{MADE}-")
    families = (family,) if family in FAMILIES else tuple(FAMILIES)
    return tuple(
        LabelledProblem(made.id, made.question, made.answer)
        for made in sample_problems(Split.TRAIN, count, seed, families=families)
    )
