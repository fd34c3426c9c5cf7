"""Confidence within a question: `python -m studies.paper.within run`, then `... report`.

Both read and write files of the repository, so they run from its top folder.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer
from rich.console import Console

from rlcm_serve.cli import run_app
from studies.paper.primary.design import CONFIG
from studies.paper.primary.design import RESULTS as PRIMARY_RESULTS
from studies.paper.primary.problems import write_problems
from studies.paper.primary.result import read_primary
from studies.paper.primary.running import PrimaryStudy, Running
from studies.paper.primary.smoke import smoke_study
from studies.paper.study import complete
from studies.paper.within.design import run_named, runs
from studies.paper.within.tables import own_text, pilot_text
from studies.smoke import SMOKE

RESULTS = Path("studies/results/paper-within")

app = typer.Typer(
    help="Try ideas for confidence that is better within a question.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
)


@app.command("run")
def run_studies(
    names: Annotated[list[str] | None, typer.Argument(help="Names of runs. Default: all.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for policies and tests.")] = Path(
        "runs/paper-within"
    ),
    results: Annotated[Path, typer.Option(help="Folder for the results.")] = RESULTS,
    jobs: Annotated[int, typer.Option(min=1, help="Number of runs at a time.")] = 2,
    smoke: Annotated[bool, typer.Option("--smoke", help=SMOKE)] = False,
) -> None:
    """Train, probe and test each run. Finished runs are skipped, others continue."""
    console = Console()
    if smoke:
        with TemporaryDirectory() as folder:
            study = smoke_study(Path(folder))
            complete([Running(study, run_named("rlcm-ranking-100"))], 1, 1, console)
        return
    chosen = [run_named(name) for name in names] if names else [*runs()]
    problems = out / "problems"
    write_problems(problems)
    study = PrimaryStudy(CONFIG, problems, out, results)
    missing = [Running(study, run) for run in chosen if not study.is_done(run)]
    complete(missing, len(chosen), jobs, console)


@app.command("report")
def report_results(
    results: Annotated[Path, typer.Option(help="Folder with the results.")] = RESULTS,
    primary: Annotated[
        Path, typer.Option(help="Folder with the primary comparison's results.")
    ] = PRIMARY_RESULTS,
) -> None:
    """Print the ideas' figures on the pilot's seeds, and those of the best one on its own."""
    found = read_primary(primary) | read_primary(results)
    text = f"## The pilot\n\n{pilot_text(found)}\n\n## Seeds of its own\n\n{own_text(found)}"
    Console().print(text, markup=False, highlight=False, soft_wrap=True)


if __name__ == "__main__":
    run_app(app)
