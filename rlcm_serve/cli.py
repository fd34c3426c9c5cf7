"""The `rlcm` command. Other packages add commands through the entry points `rlcm.commands`."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from importlib.metadata import entry_points

import typer
from rich.console import Console

from calibration.errors import CalibrationError
from rlcm_serve import commands
from rlcm_serve.commands import certificates as calibration
from rlcm_serve.errors import RlcmError


def build_app() -> typer.Typer:
    """The service's commands, and a group or a command for each entry point.

    An entry point `report.NAME` is a command of `rlcm report`.
    """
    app = typer.Typer(
        help="Answer questions with a reasoning model at a risk you choose.",
        no_args_is_help=True,
        pretty_exceptions_show_locals=False,
    )
    own: list[Callable[..., None]] = [
        commands.serve,
        commands.config,
        commands.solve,
        commands.collect,
        commands.aggregate,
        commands.compare,
    ]
    own += [calibration.fit, calibration.verify, calibration.replay]
    own += [calibration.plan, calibration.report_data]
    for command in own:
        app.command()(command)
    app.command("exhibit", hidden=True)(calibration.report_data)  # its name up to release 0.1
    app.command("eval")(commands.evaluate)
    app.add_typer(commands.keys)
    groups = {"": app, "report": calibration.report_group()}
    app.add_typer(groups["report"])
    for entry in sorted(entry_points(group="rlcm.commands"), key=lambda entry: entry.name):
        loaded: typer.Typer | Callable[..., None] = entry.load()
        if isinstance(loaded, typer.Typer):
            app.add_typer(loaded, name=entry.name)
        else:
            group, _, name = entry.name.rpartition(".")
            groups[group].command(name)(loaded)
    return app


def main() -> None:
    """The `rlcm` command line."""
    run_app(lambda: build_app()())


def run_app(app: Callable[[], object]) -> None:
    """Runs a command line. An error that a user can fix is shown as its message, with status 1."""
    # A service manager's stop runs every clean-up, as Ctrl-C does.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        app()
    except (RlcmError, CalibrationError, OSError) as error:
        Console(stderr=True, style="red", soft_wrap=True).print(
            f"error: {error}", markup=False, highlight=False
        )
        sys.exit(1)
