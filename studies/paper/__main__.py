"""The paper's comparisons: `python -m studies.paper run`, then `python -m studies.paper report`.

Both read and write files of the repository, so they run from its top folder.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer
from rich.console import Console

from rlcm_serve.cli import run_app
from studies.paper.report.write import write_report
from studies.paper.runs import paper_runs, run_named
from studies.paper.stages import Study
from studies.paper.study import carry_out, smoke_study
from studies.smoke import SMOKE

RESULTS = Path("studies/results/paper")

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
    config: Annotated[Path, typer.Option(help="TOML file with the training settings.")] = Path(
        "configs/embedded.toml"
    ),
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
    study = Study(config=config, benchmark=data, out=out, results=results, threads=threads)
    console = Console()
    if list_only:
        for run in runs:
            console.print(f"{run.name}{' (done)' if study.is_done(run) else ''}")
        return
    carry_out(study, runs, jobs, console)


@app.command("report")
def report_results(
    results: Annotated[Path, typer.Option(help="Folder with the results.")] = RESULTS,
    page: Annotated[
        Path,
        typer.Option(help="Markdown page to update. A missing page is created."),
    ] = Path("docs/studies/paper-at-toy-scale.md"),
    smoke: Smoke = False,
) -> None:
    """Write the paper's tables and figures from the results into a page."""
    if smoke:
        with TemporaryDirectory() as folder:
            print(write_report(results, Path(folder) / page.name).name)
        return
    Console().print(f"{write_report(results, page)}", markup=False, highlight=False, soft_wrap=True)


if __name__ == "__main__":
    run_app(app)
