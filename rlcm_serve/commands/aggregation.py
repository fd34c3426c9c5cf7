"""`rlcm aggregate`: votes over rollouts that were produced anywhere."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console

from rlcm_serve.commands.options import JsonOption, require_other

if TYPE_CHECKING:
    from rlcm_serve.aggregation.results import Summary


def aggregate(
    file: Annotated[Path, typer.Argument(help="Rollouts: .jsonl or .parquet, or - for stdin.")],
    out: Annotated[Path, typer.Option(help="Results: .jsonl or .parquet, or - for stdout.")],
    vote: Annotated[
        Literal["majority", "confidence", "filtered"],
        typer.Option(help="Which answer wins (docs/guides/aggregation.md)."),
    ] = "confidence",
    seed: Annotated[int, typer.Option(help="Seed for breaking ties, uniformly at random.")] = 0,
    top_p: Annotated[
        float | None,
        typer.Option(
            help="Share of each problem's rollouts that --vote filtered keeps. Default: 0.1."
        ),
    ] = None,
    grouped: Annotated[
        bool, typer.Option("--grouped", help="The rows of each problem are adjacent.")
    ] = False,
    ignore_extra: Annotated[
        bool, typer.Option("--ignore-extra", help="Ignore unknown fields.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Vote on rollouts from any source: one answer per problem, and its accuracy."""
    from rlcm_serve.aggregation import Rule, VoteOptions, aggregate_file
    from rlcm_serve.aggregation.files import PIPE

    console = Console(stderr=True)
    if PIPE not in (file, out):
        require_other(out, file)
    options = VoteOptions(Rule(vote), seed, top_p, grouped)
    with _progress(console) as on_progress:
        summary = aggregate_file(
            file, out, options, ignore_extra=ignore_extra, on_progress=on_progress
        )
    # What is written to stdout is to be read by a program.
    shown = console if str(out) == "-" else Console()
    if as_json:
        shown.print(json.dumps(asdict(summary)), markup=False, highlight=False, soft_wrap=True)
        return
    for line in _in_words(summary):
        shown.print(line, markup=False, highlight=False, soft_wrap=True)


@contextmanager
def _progress(console: Console) -> Iterator[Callable[[int, int | None], None]]:
    from rlcm_serve.terminal import progress_bar

    with progress_bar(console) as progress:
        task = progress.add_task("counting", total=None)

        def show(done: int, total: int | None) -> None:
            is_read = total is not None and done >= total
            progress.update(
                task, completed=done, total=total, description="voting" if is_read else "reading"
            )

        yield show


def _in_words(summary: Summary) -> Iterator[str]:
    yield (
        f"{summary.problems} problems, {summary.rollouts} rollouts: {summary.answered} answered, "
        f"{summary.ties} of them by breaking a tie"
    )
    if summary.uncompared:
        yield (
            f"{summary.uncompared} problems have answers that took too long to compare and count "
            "as different"
        )
    if summary.pass_at_1 is not None:
        yield (
            f"of {summary.graded} with a reference: pass@1 {summary.pass_at_1:.4f}, "
            f"vote {summary.accuracy:.4f}, oracle {summary.oracle:.4f}"
        )
