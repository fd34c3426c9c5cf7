"""The `rlcm` command. Other packages add commands through the entry points `rlcm.commands`.

Only the standard library is imported at the top: `main` first checks that no other distribution
has replaced the packages `calibration` and `training`.
"""

from __future__ import annotations

import inspect
import signal
import sys
from collections.abc import Callable
from importlib.metadata import entry_points, packages_distributions, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import typer

SERVE, CERTIFICATES, EVALUATE, TRAIN, ADMIN = (
    "Serve and ask",
    "Certificates",
    "Evaluate",
    "Train",
    "Administer",
)
_PANEL_OF = {"train": TRAIN, "push": TRAIN, "examples": SERVE}
"""Panels of the commands that entry points add."""
_EXAMPLE_OF = {
    "push": "rlcm push FOLDER OWNER/NAME",
    "examples": "rlcm examples --jsonl --split calibration --count 100",
}
OUR_PACKAGES = ("calibration", "training")
MARK = "Part of rlcm-serve."
"""In the docstring of each of our packages."""


def replaced_package() -> str | None:
    """Says in one sentence which distribution replaced one of our packages; None if none did."""
    for package in OUR_PACKAGES:
        spec = find_spec(package)
        origin = spec.origin if spec else None
        if origin and MARK in Path(origin).read_text("utf-8", errors="replace"):
            continue
        others = sorted(set(packages_distributions().get(package, ())) - {"rlcm-serve"})
        if not others:
            return (
                f"the package {package!r} of rlcm-serve is hidden by {origin or 'nothing'}: remove "
                "that from PYTHONPATH, or install rlcm-serve again"
            )
        return (
            f"the distribution {others[0]} {version(others[0])} replaces the package {package!r} "
            f"of rlcm-serve ({origin}): uninstall {others[0]} and install rlcm-serve again, or "
            "give each its own virtual environment"
        )
    return None


def build_app() -> typer.Typer:
    """The service's commands, and a group or a command for each entry point.

    An entry point `report.NAME` is a command of `rlcm report`.
    """
    import typer

    import rlcm_serve
    from rlcm_serve import commands
    from rlcm_serve.commands.certificates import extend, fit, plan, report, verify
    from rlcm_serve.commands.options import Commands, EngineCommand

    app = typer.Typer(cls=Commands, no_args_is_help=True, pretty_exceptions_show_locals=False)

    def show_version(wanted: bool) -> None:
        if wanted:
            typer.echo(f"rlcm-serve {rlcm_serve.__version__}")
            raise typer.Exit

    option = typer.Option(
        False, "--version", callback=show_version, is_eager=True, help="Print the version and exit."
    )

    def root(version: bool = option) -> None:
        """Answer questions with a reasoning model at a risk you choose."""

    app.callback()(root)

    def add(panel: str, name: str, command: Callable[..., None], example: str) -> None:
        described = _with_example(command.__doc__ or "", example)
        app.command(name, cls=EngineCommand, help=described, rich_help_panel=panel)(command)

    add(SERVE, "serve", commands.serve, "rlcm serve --model embedded --port 8000")
    app.add_typer(commands.ray, rich_help_panel=SERVE)
    add(SERVE, "vllm-args", commands.vllm_args, "vllm serve MODEL $(rlcm vllm-args MODEL)")
    add(SERVE, "solve", commands.solve, 'rlcm solve "A dial shows 3. A up 5. ..." --alpha 0.1')
    add(SERVE, "aggregate", commands.aggregate, "rlcm aggregate rollouts.jsonl --out answers.jsonl")
    add(SERVE, "feedback", commands.feedback, "rlcm feedback labels.jsonl")
    add(SERVE, "audit", commands.audit, "rlcm audit --json")
    add(
        CERTIFICATES,
        "collect",
        commands.collect,
        "rlcm collect --data problems.jsonl --out traces.parquet",
    )
    add(
        CERTIFICATES,
        "regrade",
        commands.regrade,
        "rlcm regrade traces.parquet --data problems.jsonl --out regraded.parquet",
    )
    add(
        CERTIFICATES,
        "reread",
        commands.reread,
        "rlcm reread traces.parquet --probe new-probe --out reread.parquet",
    )
    add(
        CERTIFICATES,
        "add-familiarity",
        commands.add_familiarity,
        "rlcm add-familiarity traces.parquet --data problems.jsonl --out traces.parquet",
    )
    add(CERTIFICATES, "plan", plan.plan, "rlcm plan pilot.parquet --alpha 0.1")
    add(CERTIFICATES, "fit", fit.fit, "rlcm fit traces.parquet --out certificate.json")
    add(
        CERTIFICATES,
        "extend",
        extend.extend,
        "rlcm extend certificate.json traces/ --out certificate.json",
    )
    add(CERTIFICATES, "labels", extend.labels, "rlcm labels design.json unlabelled.parquet")
    add(CERTIFICATES, "recalibrate", commands.recalibrate, "rlcm recalibrate 571b667eda0c")
    add(CERTIFICATES, "rehearsal", commands.rehearsal, "rlcm rehearsal 571b667eda0c --start")
    add(CERTIFICATES, "activate", commands.activate, "rlcm activate 571b667eda0c --dry-run")
    add(CERTIFICATES, "verify", verify.verify, "rlcm verify certificate.json traces.parquet")
    add(CERTIFICATES, "replay", verify.replay, "rlcm replay certificate.json other.parquet")
    reports = report.report_group()
    app.add_typer(reports, rich_help_panel=CERTIFICATES)
    add(
        CERTIFICATES,
        "report-data",
        report.report_data,
        "rlcm report-data certificate.json traces.parquet --test test.parquet",
    )
    app.command("exhibit", hidden=True)(report.report_data)  # its name up to release 0.1
    add(EVALUATE, "eval", commands.evaluate, "rlcm eval --data embedded --out runs/embedded")
    add(EVALUATE, "compare", commands.compare, "rlcm compare runs/a runs/b --out runs/compare")
    _add_entry_points(app, reports)
    add(ADMIN, "doctor", commands.doctor, "rlcm doctor --model DIR --self-test")
    add(ADMIN, "config", commands.config, "rlcm config --toml > rlcm.toml")
    app.add_typer(commands.keys, rich_help_panel=ADMIN)
    app.add_typer(commands.store, rich_help_panel=ADMIN)
    app.add_typer(commands.evidence, rich_help_panel=ADMIN)
    _join_lines(app)
    return app


def _add_entry_points(app: typer.Typer, report: typer.Typer) -> None:
    import typer

    groups = {"": app, "report": report}
    for entry in sorted(entry_points(group="rlcm.commands"), key=lambda entry: entry.name):
        loaded: typer.Typer | Callable[..., None] = entry.load()
        panel = _PANEL_OF.get(entry.name)
        if isinstance(loaded, typer.Typer):
            app.add_typer(loaded, name=entry.name, rich_help_panel=panel)
        else:
            group, _, name = entry.name.rpartition(".")
            described = _with_example(loaded.__doc__ or "", _EXAMPLE_OF.get(entry.name))
            groups[group].command(name, help=described, rich_help_panel=panel)(loaded)


def _with_example(described: str, example: str | None) -> str:
    described = inspect.cleandoc(described)
    return f"{described}\n\nExample: {example}" if example else described


def _join_lines(app: typer.Typer) -> None:
    """Makes each paragraph of help a single line: the terminal breaks it where it has to."""
    for command in app.registered_commands:
        text = inspect.cleandoc(command.help or getattr(command.callback, "__doc__", None) or "")
        command.help = "\n\n".join(part.replace("\n", " ") for part in text.split("\n\n"))
    for group in app.registered_groups:
        if group.typer_instance is not None:
            _join_lines(group.typer_instance)


def main() -> None:
    """The `rlcm` command line."""
    if problem := replaced_package():
        sys.stderr.write(f"error: {problem}\n")
        sys.exit(1)
    run_app(lambda: build_app()())


def run_app(app: Callable[[], object]) -> None:
    """Runs a command line. An error that a user can fix is shown as its message, with status 1."""
    from rich.console import Console

    from calibration.errors import CalibrationError
    from rlcm_serve.errors import RlcmError

    # A service manager's stop runs every clean-up, as Ctrl-C does.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        app()
    except (RlcmError, CalibrationError, OSError) as error:
        Console(stderr=True, style="red", soft_wrap=True).print(
            f"error: {_in_words(error)}", markup=False, highlight=False
        )
        sys.exit(1)


def _in_words(error: Exception) -> str:
    """What went wrong; of a file without the error's number."""
    if isinstance(error, IsADirectoryError) and error.filename is not None:
        return f"{error.filename} is a folder: give a file"
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror[0].lower()}{error.strerror[1:]}"
    return str(error)
