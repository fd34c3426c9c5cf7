"""The paper's comparisons: `python -m studies.paper run`, then `python -m studies.paper report`.

Both read and write files of the repository, so they run from its top folder.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer
from rich.console import Console

from rlcm_serve.cli import run_app
from studies.paper.repeated import WARM_START, repeated_study, runs_of
from studies.paper.report.write import REPEATED, other_base_sections, write_report
from studies.paper.result_files import design_digest
from studies.paper.runs import PaperRun, paper_runs, repeated_runs, run_named
from studies.paper.stages import ANSWERS, TEMPERATURE, Study
from studies.paper.study import carry_out, smoke_study
from studies.smoke import SMOKE

CONFIG = Path("configs/embedded.toml")
RESULTS, PAGE = Path("studies/results/paper"), Path("docs/studies/paper-at-toy-scale.md")
REPEATED_RESULTS = Path("studies/results/paper-all")
REPEATED_PAGE = REPEATED_RESULTS / "report.md"

app = typer.Typer(
    help="Train and measure what the RLCM paper compares, and write the page about it.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
)


Smoke = Annotated[bool, typer.Option("--smoke", help=SMOKE)]


@app.command("run")
def run_studies(
    names: Annotated[
        list[str] | None, typer.Argument(help="Names of runs. Default: every run.")
    ] = None,
    config: Annotated[Path, typer.Option(help="TOML file with the training settings.")] = CONFIG,
    data: Annotated[str, typer.Option(help="Benchmark of the evaluation.")] = "embedded",
    out: Annotated[Path, typer.Option(help="Folder for policies and evaluations.")] = Path(
        "runs/paper"
    ),
    results: Annotated[
        Path, typer.Option(help="Folder for the results: one JSON file per run.")
    ] = RESULTS,
    jobs: Annotated[int, typer.Option(min=1, help="Number of runs at a time.")] = 1,
    threads: Annotated[int, typer.Option(min=1, help="CPU threads per run.")] = 1,
    list_only: Annotated[
        bool, typer.Option("--list", help="List the runs, and do nothing else.")
    ] = False,
    smoke: Smoke = False,
) -> None:
    """Train and evaluate each run of the paper. Finished runs are skipped."""
    if smoke:
        with TemporaryDirectory() as folder:
            carry_out(smoke_study(Path(folder)), [run_named("rlcm-0.05-0")], 1, Console())
        return
    runs = [run_named(name) for name in names] if names else list(paper_runs())
    design = "" if (config, data) == (CONFIG, "embedded") else _design(config, data)
    study = Study(config, data, out / design, results, threads, design=design)
    console = Console()
    if list_only:
        _list(runs, [run for run in runs if study.is_done(run)], console)
        return
    carry_out(study, runs, jobs, console)


@app.command("all")
def run_all(
    names: Annotated[
        list[str] | None, typer.Argument(help="Names of runs. Default: every run.")
    ] = None,
    model: Annotated[str, typer.Option(help="Base model: a folder or a name.")] = WARM_START,
    methods: Annotated[
        str | None, typer.Option(help="Only these methods, with commas between them.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for policies and evaluations.")] = Path(
        "runs/paper-all"
    ),
    results: Annotated[
        Path, typer.Option(help="Folder for the results: one JSON file per run.")
    ] = REPEATED_RESULTS,
    jobs: Annotated[int, typer.Option(min=1, help="Number of runs at a time.")] = 2,
    list_only: Annotated[
        bool, typer.Option("--list", help="List the runs, and do nothing else.")
    ] = False,
    smoke: Smoke = False,
) -> None:
    """Train and evaluate every method with three seeds, on the primary comparison's problems."""
    console = Console()
    if smoke:
        with TemporaryDirectory() as folder:
            study = smoke_study(Path(folder))
            study = replace(study, probe_problems=Path(study.benchmark), temperature=1.0)
            carry_out(study, [run_named("rlcm-0.05-1", repeated_runs())], 1, console)
        return
    chosen = runs_of(methods)
    runs = [run_named(name, repeated_runs()) for name in names] if names else chosen
    if list_only:
        done = [run for run in runs if (results / f"{run.name}.json").exists()]
        _list(runs, done, console)
        return
    carry_out(repeated_study(out, results, model), runs, jobs, console)


def _design(config: Path, data: str) -> str:
    return design_digest((data, TEMPERATURE, ANSWERS), [config.read_bytes()])


def _list(runs: Sequence[PaperRun], done: Sequence[PaperRun], console: Console) -> None:
    for run in runs:
        console.print(f"{run.name}{' (done)' if run in done else ''}")


@app.command("report")
def report_results(
    results: Annotated[
        Path | None, typer.Option(help="Folder with the results. Default: the study's.")
    ] = None,
    page: Annotated[
        Path | None,
        typer.Option(
            help="Markdown page to update; a missing one is created. Default: the study's."
        ),
    ] = None,
    every_seed: Annotated[
        bool, typer.Option("--every-seed", help="The study that `all` makes.")
    ] = False,
    methods: Annotated[
        str | None,
        typer.Option(help="The methods that `all` was given: another base model (App. C.1)."),
    ] = None,
    smoke: Smoke = False,
) -> None:
    """Write the paper's tables and figures from the results into a page."""
    if every_seed:
        runs = tuple(runs_of(methods))
        sections, heading = REPEATED, "Three seeds of every method"
        if methods is not None:
            sections, heading = other_base_sections(runs), "Another base model"
        written = write_report(
            results or REPEATED_RESULTS, page or REPEATED_PAGE, runs, sections, heading
        )
        Console().print(f"{written}", markup=False, highlight=False, soft_wrap=True)
        return
    results, page = results or RESULTS, page or PAGE
    if smoke:
        with TemporaryDirectory() as folder:
            print(write_report(results, Path(folder) / page.name).name)
        return
    Console().print(f"{write_report(results, page)}", markup=False, highlight=False, soft_wrap=True)


if __name__ == "__main__":
    run_app(app)
