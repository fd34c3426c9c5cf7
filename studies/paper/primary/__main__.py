"""The primary comparison: `python -m studies.paper.primary run`, then `... report`.

Both read and write files of the repository, so they run from its top folder.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer
from rich.console import Console

from rlcm_serve.cli import run_app
from studies.paper.primary.design import (
    CONFIG,
    PAGE,
    PILOT_SEEDS,
    RESULTS,
    RUNS,
    SEEDS,
    run_named,
    runs,
)
from studies.paper.primary.page import found_on_panels, full_text, write_page
from studies.paper.primary.problems import write_problems
from studies.paper.primary.result import read_primary
from studies.paper.primary.running import PrimaryStudy, Running
from studies.paper.primary.smoke import smoke_study
from studies.paper.study import complete
from studies.smoke import SMOKE

app = typer.Typer(
    help="Compare GRPO, RLCM and the authors' RLCM over ten seeds.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
)


@app.command("run")
def run_studies(
    names: Annotated[
        list[str] | None, typer.Argument(help="Names of runs. Default: all 30.")
    ] = None,
    pilot: Annotated[bool, typer.Option("--pilot", help="The pilot's seeds instead.")] = False,
    out: Annotated[Path, typer.Option(help="Folder for policies and tests.")] = RUNS,
    results: Annotated[
        Path, typer.Option(help="Folder for the results: one JSON file per run.")
    ] = RESULTS,
    jobs: Annotated[int, typer.Option(min=1, help="Number of runs at a time.")] = 2,
    smoke: Annotated[bool, typer.Option("--smoke", help=SMOKE)] = False,
) -> None:
    """Train, probe and test each run. Finished runs are skipped, others continue."""
    console = Console()
    if smoke:
        with TemporaryDirectory() as folder:
            complete([Running(smoke_study(Path(folder)), run_named("rlcm-100"))], 1, 1, console)
        return
    chosen = [run_named(name) for name in names] if names else [*runs(_seeds(pilot))]
    study = PrimaryStudy(CONFIG, out / "problems", out, results)
    write_problems(study.problems)
    missing = [Running(study, run) for run in chosen if not study.is_done(run)]
    complete(missing, len(chosen), jobs, console)


@app.command("report")
def report_results(
    results: Annotated[Path, typer.Option(help="Folder with the results.")] = RESULTS,
    pilot: Annotated[bool, typer.Option("--pilot", help="The pilot's seeds instead.")] = False,
) -> None:
    """Print differences, intervals, verdicts, what ten seeds can show, and secondary figures."""
    found, seeds = read_primary(results), _seeds(pilot)
    text = full_text(found, seeds, found_on_panels(found, seeds))
    Console().print(text, markup=False, highlight=False, soft_wrap=True)


@app.command("page")
def update_page(
    results: Annotated[Path, typer.Option(help="Folder with the results.")] = RESULTS,
    page: Annotated[Path, typer.Option(help="Markdown page with the blocks.")] = PAGE,
) -> None:
    """Write tables and figures of the pilot and of the ten seeds into the study's page."""
    written = write_page(read_primary(results), page)
    Console().print(f"{written}", markup=False, highlight=False, soft_wrap=True)


def _seeds(pilot: bool) -> tuple[int, ...]:
    return PILOT_SEEDS if pilot else SEEDS


if __name__ == "__main__":
    run_app(app)
