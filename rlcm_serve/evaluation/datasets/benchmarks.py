r"""The benchmarks of RLCM §4, each a small declaration, and whatever other packages bring.

Rollouts are those of RLCM App. B: 32 for AIME, 4 otherwise. The paper does not print its prompts:
mathematics and multiple choice ask for step by step reasoning and an answer in `\boxed{}`, as the
makers of its base models recommend; LiveCodeBench asks as its own harness does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import entry_points
from typing import Any

from rlcm_serve.errors import RequestRefused
from rlcm_serve.evaluation.datasets.questions import (
    Asked,
    boxed_question,
    choice_question,
    code_question,
    gsm8k_question,
    hidden_choice_question,
    olympiad_question,
)

Row = Mapping[str, Any]

ENTRY_POINTS = "rlcm.benchmarks"
"""Group whose entry points are sequences of `Benchmark`."""


@dataclass(frozen=True, slots=True)
class Hub:
    """A data set of the Hugging Face hub.

    Attributes:
        repository: its id.
        config, split: of a repository that `datasets` loads.
        revision: a branch or commit; None is the main branch.
        files: of a repository of plain files, which are read instead.
        is_gated: its terms have to be accepted, and a token given.
    """

    repository: str
    split: str = "test"
    config: str | None = None
    revision: str | None = None
    files: tuple[str, ...] = ()
    is_gated: bool = False


@dataclass(frozen=True, slots=True)
class Web:
    """A file at an address, kept once it is fetched."""

    url: str


@dataclass(frozen=True, slots=True)
class Made:
    """Rows that are made, not loaded."""

    rows: Callable[[], Iterable[Row]]


@dataclass(frozen=True, slots=True)
class Benchmark:
    """Where a benchmark's problems come from, how they are asked, and who grades the answers.

    Attributes:
        name: to ask for it by.
        title: in reports.
        source: of its rows.
        grader: its name, one of `grading.GRADERS`.
        rollouts: per problem, unless another number is asked for.
        question: makes the prompt and the reference of a row.
        columns: the column of each field that `question` reads, and of `id`, `group` and `part`
            where there are such; a field that is not named is in the column of its own name.
        part: how a value of the column `part` reads in a report; `{}` takes it.
    """

    name: str
    title: str
    source: Hub | Web | Made
    grader: str = "math"
    rollouts: int = 4
    question: Callable[[Row], Asked] = boxed_question
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
        name="amc23",
        title="AMC 2023",
        source=Hub("math-ai/amc23"),
        columns={"problem": "question"},
    ),
    Benchmark(
        name="olympiadbench",
        title="OlympiadBench",
        # Open-ended, text only, mathematics, English, competition: the part that RLCM's peers use.
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
        # The main branch holds a script, which `datasets` no longer runs; this one its output.
        source=Hub("lucasmccabe/logiqa", revision="refs/convert/parquet"),
        grader="choice",
        question=choice_question,
        columns={"problem": "query", "answer": "correct_option"},
    ),
    Benchmark(
        name="livecodebench",
        title="LiveCodeBench v6",
        # What release 6 added: the newest problems, and 134 MB of the 4.5 GB of all releases.
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
        # Its authors publish the problems of their stages 2 and 3, and only on GitHub.
        source=Web(
            "https://raw.githubusercontent.com/aeroplanepaper/GRPO-LEAD/"
            "8c1e032fa9c59e03fdac31006bbc60cdb6da48a0/deepscaler/data/train/stage_2%263_data.json"
        ),
    ),
)
"""The evaluation suite of RLCM §4, GSM8K, and the problems its models are trained on."""


@cache
def benchmarks() -> dict[str, Benchmark]:
    """All there are, by name: the paper's, then those of installed packages."""
    found = {benchmark.name: benchmark for benchmark in PAPER}
    for entry in sorted(entry_points(group=ENTRY_POINTS), key=lambda entry: entry.name):
        found |= {benchmark.name: benchmark for benchmark in entry.load()}
    return found


def benchmark_named(name: str) -> Benchmark:
    """The benchmark of that name.

    Raises:
        RequestRefused: there is none; the message lists those there are.
    """
    known = benchmarks()
    if name not in known:
        raise RequestRefused(
            "data",
            f"{name!r} is no benchmark: take one of {', '.join(known)}; a file of your own is "
            "given by its path, or as NAME=FILE in place of the benchmark NAME's data",
        )
    return known[name]
