r"""The benchmarks of RLCM §4, and those of installed packages.

The numbers of rollouts are those of RLCM App. B: 32 for AIME, 4 otherwise. The paper does not
print its prompts. Here mathematics and multiple choice request step-by-step reasoning and an
answer in `\boxed{}`, as the authors of its base models recommend. LiveCodeBench has the prompt of
its own harness.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import entry_points
from typing import Any

from rlcm_serve.errors import RequestRefused
from rlcm_serve.evaluation.datasets.questions import (
    PreparedProblem,
    boxed_question,
    choice_question,
    code_question,
    gsm8k_question,
    hidden_choice_question,
    olympiad_question,
)

Row = Mapping[str, Any]

ENTRY_POINTS = "rlcm.benchmarks"
"""Entry point group for sequences of `Benchmark`."""


@dataclass(frozen=True, slots=True)
class Hub:
    """A dataset of the Hugging Face hub.

    Attributes:
        repository: id.
        config, split: loaded by `datasets`, unless `files` are given.
        revision: a branch or commit; None is the main branch.
        files: to read from the repository instead.
        is_gated: users must accept its terms and log in.
    """

    repository: str
    split: str = "test"
    config: str | None = None
    revision: str | None = None
    files: tuple[str, ...] = ()
    is_gated: bool = False


@dataclass(frozen=True, slots=True)
class Web:
    """A file at a URL, cached after the first download."""

    url: str


@dataclass(frozen=True, slots=True)
class Generated:
    """Rows from a function."""

    rows: Callable[[], Iterable[Row]]


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A benchmark: data, prompt and grader.

    Attributes:
        name: on the command line.
        title: in reports.
        source: of its rows.
        grader: one of `grading.GRADERS`.
        rollouts: per problem, by default.
        question: turns a row into prompt and reference.
        columns: the column of each field that `question` reads, and of `id`, `group` and `part`.
            By default a field is in the column with its own name.
        part: name of a part in reports; `{}` stands for the value in the column `part`.
    """

    name: str
    title: str
    source: Hub | Web | Generated
    grader: str = "math"
    rollouts: int = 4
    question: Callable[[Row], PreparedProblem] = boxed_question
    columns: Mapping[str, str] = field(default_factory=dict)
    part: str = "{}"


PAPER: tuple[Benchmark, ...] = (
    Benchmark(
        name="math500",
        title="MATH-500",
        source=Hub("HuggingFaceH4/MATH-500"),
        columns={"id": "unique_id", "part": "level"},
        part="level {}",
    ),
    Benchmark(
        name="aime24",
        title="AIME 2024",
        source=Hub("HuggingFaceH4/aime_2024", split="train"),
        rollouts=32,
    ),
    Benchmark(name="aime25", title="AIME 2025", source=Hub("math-ai/aime25"), rollouts=32),
    Benchmark(
        name="amc",
        title="AMC 12, 2022 and 2023",
        # What the authors of RLCM ran as AMC; the problems whose answer is an integer.
        source=Hub("AI-MO/aimo-validation-amc", split="train"),
    ),
    Benchmark(
        name="amc23",
        title="AMC 2023",
        source=Hub("math-ai/amc23"),
        columns={"problem": "question"},
    ),
    Benchmark(
        name="olympiadbench",
        title="OlympiadBench",
        # Open-ended, text only, mathematics, English, competition: the part used by related work.
        source=Hub("Hothan/OlympiadBench", split="train", config="OE_TO_maths_en_COMP"),
        question=olympiad_question,
        columns={"problem": "question", "answer": "final_answer", "part": "subfield"},
    ),
    Benchmark(
        name="gpqa-diamond",
        title="GPQA Diamond",
        source=Hub("Idavidrein/gpqa", split="train", config="gpqa_diamond", is_gated=True),
        grader="choice",
        question=hidden_choice_question,
        columns={
            "problem": "Question",
            "right": "Correct Answer",
            "wrong_1": "Incorrect Answer 1",
            "wrong_2": "Incorrect Answer 2",
            "wrong_3": "Incorrect Answer 3",
            "id": "Record ID",
            "part": "High-level domain",
        },
    ),
    Benchmark(
        name="logiqa",
        title="LogiQA",
        # The main branch holds a script, which `datasets` no longer runs; this branch its output.
        source=Hub("lucasmccabe/logiqa", revision="refs/convert/parquet"),
        grader="choice",
        question=choice_question,
        columns={"problem": "query", "answer": "correct_option"},
    ),
    Benchmark(
        name="livecodebench",
        title="LiveCodeBench v6",
        # The problems added by release 6, the newest ones: 134 MB of 4.5 GB.
        source=Hub("livecodebench/code_generation_lite", files=("test6.jsonl",)),
        grader="code",
        question=code_question,
        columns={"problem": "question_content", "id": "question_id", "part": "difficulty"},
    ),
    Benchmark(
        name="gsm8k",
        title="GSM8K",
        source=Hub("openai/gsm8k", config="main"),
        question=gsm8k_question,
        columns={"problem": "question"},
    ),
    Benchmark(
        name="grpo-lead",
        title="GRPO-LEAD (training)",
        # Its authors publish the problems of stages 2 and 3 on GitHub only.
        source=Web(
            "https://raw.githubusercontent.com/aeroplanepaper/GRPO-LEAD/"
            "8c1e032fa9c59e03fdac31006bbc60cdb6da48a0/deepscaler/data/train/stage_2%263_data.json"
        ),
    ),
)
"""The evaluation suite of RLCM §4, GSM8K, and the training problems of RLCM."""


@cache
def benchmarks() -> dict[str, Benchmark]:
    """All benchmarks by name: those of the paper, then those of installed packages."""
    found = {benchmark.name: benchmark for benchmark in PAPER}
    for entry in sorted(entry_points(group=ENTRY_POINTS), key=lambda entry: entry.name):
        found |= {benchmark.name: benchmark for benchmark in entry.load()}
    return found


def benchmark_named(name: str) -> Benchmark:
    """The benchmark with this name.

    Raises:
        RequestRefused: there is no such benchmark; the message lists all.
    """
    known = benchmarks()
    if name not in known:
        raise RequestRefused(
            "data",
            f"{name!r} is not a benchmark: choose one of {', '.join(known)}, give your own file by "
            "its path, or give NAME=FILE to replace the data of benchmark NAME",
        )
    return known[name]
