"""The embedded reasoner's task families as benchmarks: `embedded`, and one for each family.

Their problems are of split TEST, which neither training nor a certificate has seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from rlcm_serve.evaluation.datasets.benchmarks import Benchmark, Generated, Row
from rlcm_serve.evaluation.datasets.questions import plain_question
from training.tasks.problems import FAMILIES, Split, sample_problems

COUNT = 240
"""Problems of each benchmark."""
ROLLOUTS = 8


def held_out_rows(families: Sequence[str] = tuple(FAMILIES), count: int = COUNT) -> Iterator[Row]:
    """Different problems of split TEST, every family and level as likely; always the same."""
    for problem in sample_problems(Split.TEST, count, seed=0, families=families):
        yield {
            "id": problem.id,
            "problem": problem.question,
            "answer": problem.answer,
            "part": f"{problem.family}, level {problem.level}",
        }


def _benchmark(name: str, title: str, families: Sequence[str]) -> Benchmark:
    source = Generated(partial(held_out_rows, families=families))
    return Benchmark(
        name=name, title=title, source=source, rollouts=ROLLOUTS, question=plain_question
    )


BENCHMARKS: tuple[Benchmark, ...] = (
    _benchmark("embedded", "Embedded families", tuple(FAMILIES)),
    *(_benchmark(f"embedded-{name}", f"Embedded, {name}", (name,)) for name in FAMILIES),
)
"""Found by the service through an entry point of group `rlcm.benchmarks`."""
