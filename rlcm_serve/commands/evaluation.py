"""`rlcm eval` and `rlcm compare`: a model and its confidence on benchmarks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from rlcm_serve.commands.options import (
    JsonOption,
    LogOption,
    MaxTokensOption,
    ModelOption,
    ProbeOption,
    ProfileOption,
    RayOption,
    TemperatureOption,
    ThinkingOption,
    TopPOption,
    VerboseOption,
    engine_settings,
    recorders_on,
)
from rlcm_serve.errors import RequestRefused

if TYPE_CHECKING:
    from rlcm_serve.engine.launch import EngineSettings
    from rlcm_serve.evaluation.datasets.loading import LoadedBenchmark
    from rlcm_serve.evaluation.sources import Source

_TAKEN = ("figures", "")
"""Folders of a run that are no benchmark's."""


def evaluate(
    data: Annotated[
        list[str] | None,
        typer.Option(
            help="Benchmark, NAME=FILE for its rows in a file of yours, or a JSONL, JSON, CSV or "
            "Parquet file; several may follow."
        ),
    ] = None,
    more: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[DATA]... [-- VLLM_ARGS]...",
            help="Further benchmarks; after `--`: vLLM's engine arguments, passed through.",
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the run.")] = Path("runs/eval"),
    model: ModelOption = "embedded",
    probe: ProbeOption = None,
    profile: ProfileOption = None,
    rollouts: Annotated[
        int | None,
        typer.Option(min=1, help="Rollouts per problem. Default: each benchmark's own number."),
    ] = None,
    budgets: Annotated[
        int | None,
        typer.Option(
            min=1, help="Tokens between two readings of confidence and forced answers (N)."
        ),
    ] = None,
    answers: Annotated[int, typer.Option(min=1, help="Answers forced at every reading (K).")] = 4,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Only the first problems of each benchmark.")
    ] = None,
    confidence: Annotated[
        str | None,
        typer.Option(
            help="The run's own source of confidence: probe, sequence-probability, lowest-group, "
            "tail, answer-probability, agreement, entropy or verbalised. By default the probe, or "
            "the sequence probability of a model without one."
        ),
    ] = None,
    sources: Annotated[
        list[str] | None,
        typer.Option(
            help="Record only these further sources, and those that cost nothing. Default: all."
        ),
    ] = None,
    request: Annotated[
        str,
        typer.Option(help="Text that follows every problem, such as how to state the confidence."),
    ] = "",
    column: Annotated[
        list[str] | None,
        typer.Option(
            "--map",
            help="FIELD=COLUMN, for a file: problem, answer, id, group, part; for multiple choice "
            "also options and context.",
        ),
    ] = None,
    grader: Annotated[
        str | None, typer.Option(help="For a file: math, choice, code, exact, or module:object.")
    ] = None,
    temperature: TemperatureOption = None,
    top_p: TopPOption = None,
    max_tokens: MaxTokensOption = None,
    thinking: ThinkingOption = None,
    ray: RayOption = None,
    as_json: JsonOption = False,
    engine_log: LogOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Evaluate a model and its confidence on benchmarks.

    An interrupted run continues where it stopped.
    """
    from rlcm_serve.evaluation.evaluate import EvaluationPlan
    from rlcm_serve.evaluation.evaluate import evaluate as run
    from rlcm_serve.evaluation.sources import Source

    named = list(takewhile(lambda word: not word.startswith("-"), more or ()))
    specs = dict.fromkeys([*(data or ()), *named])
    if not specs:
        raise RequestRefused("data", "nothing to evaluate on: give --data embedded, for example")
    benchmarks = _load(specs, _mapping(column or ()), grader, limit, request)
    settings = engine_settings(
        model,
        probe=probe,
        profile=profile,
        interval=budgets,
        max_tokens=max_tokens,
        thinking=thinking,
        temperature=temperature,
        top_p=top_p,
        engine_log=engine_log,
        verbose=verbose,
        vllm_arguments=(more or [])[len(named) :],
    )
    settings, source = _with_source(settings, confidence)
    also = list(Source) if sources is None else [_source(name, "a source") for name in sources]
    plan = EvaluationPlan(
        settings=replace(settings, record_signals=True),
        benchmarks=benchmarks,
        source=source,
        sources=frozenset([source, *also]),
        rollouts=rollouts,
        answers=answers,
        out=out,
        request=request,
    )
    report = asyncio.run(run(plan, Console(stderr=True), recorders_on(ray)))
    if as_json:
        typer.echo(plan.folder.metrics_file.read_text(encoding="utf-8"))
        return
    Console().print(str(report), markup=False, highlight=False, soft_wrap=True)


def compare(
    runs: Annotated[
        list[str],
        typer.Argument(
            help="[NAME=]FOLDER[:SOURCE] of each run; the others are compared with the first."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder for the page.")] = Path("runs/compare"),
    as_json: JsonOption = False,
) -> None:
    """Compare runs: main table, paired differences, and what cannot be compared."""
    from rlcm_serve.evaluation.compare import compare as put_together
    from rlcm_serve.evaluation.compare import to_text, write_comparison
    from rlcm_serve.evaluation.compare.page import FIGURES_AS_JSON
    from rlcm_serve.evaluation.run import Run

    if len(runs) < 2:
        raise RequestRefused("runs", "one run has nothing to be compared with: give two or more")
    comparison = put_together([Run.load(spec) for spec in runs])
    page = write_comparison(comparison, out)
    console = Console()
    if as_json:
        typer.echo((out / FIGURES_AS_JSON).read_text(encoding="utf-8"))
        return
    console.print(to_text(comparison))
    console.print(str(page), markup=False, highlight=False, soft_wrap=True)


def _load(
    specs: Iterable[str],
    mapping: dict[str, str],
    grader: str | None,
    limit: int | None,
    request: str,
) -> list[LoadedBenchmark]:
    """The benchmarks; columns and grader are of the files among them."""
    from rlcm_serve.evaluation.datasets.benchmarks import benchmarks
    from rlcm_serve.evaluation.datasets.loading import load

    loaded: dict[str, LoadedBenchmark] = {}
    named = benchmarks()
    for spec in specs:
        own = ({}, None) if spec in named else (mapping, grader)
        benchmark = load(spec, *own, limit, request)
        if benchmark.name in loaded or benchmark.name in _TAKEN:
            raise RequestRefused(
                "data",
                f"{spec!r} would be kept as {benchmark.name!r}, which is taken in the run's "
                "folder: give the file another name, or evaluate it into another --out",
            )
        loaded[benchmark.name] = benchmark
    if (mapping or grader) and all(spec in named for spec in specs):
        raise RequestRefused(
            "data",
            "--map and --grader are for files, and only benchmarks are named: leave them out",
        )
    return list(loaded.values())


def _mapping(columns: Sequence[str]) -> dict[str, str]:
    mapping = {}
    for given in columns:
        field, equals, column = given.partition("=")
        if not (field and equals and column):
            raise RequestRefused("map", f"--map is {given!r}: give FIELD=COLUMN")
        mapping[field] = column
    return mapping


def _with_source(settings: EngineSettings, asked: str | None) -> tuple[EngineSettings, Source]:
    """The run's own source, and an engine that exits by it if it can; a probe if there is one."""
    from rlcm_serve.engine.model_files import ModelFiles, resolve_model
    from rlcm_serve.evaluation.sources import ABOUT, Source

    has_probe = ModelFiles.read(resolve_model(settings.model), settings.probe).probe is not None
    by_itself = Source.PROBE if has_probe else Source.SEQUENCE_PROBABILITY
    source = _source(asked) if asked else by_itself
    exits_by = source if ABOUT[source].online else by_itself
    return replace(settings, confidence=exits_by.value), source


def _source(name: str, what: str = "confidence") -> Source:
    from rlcm_serve.evaluation.sources import Source

    if name not in list(Source):
        raise RequestRefused("confidence", f"{what} is {name!r}: give one of {', '.join(Source)}")
    return Source(name)
