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
from rlcm_serve.errors import RlcmError

app = typer.Typer(
    help="Answer questions with a reasoning model at a risk you choose.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
)
for command in (commands.serve, commands.solve, commands.collect, commands.fit):
    app.command()(command)


def _add_plugins() -> None:
    """Adds a group for each typer app among the entry points, a command for each function."""
    for entry in sorted(entry_points(group="rlcm.commands"), key=lambda entry: entry.name):
        loaded: typer.Typer | Callable[..., None] = entry.load()
        if isinstance(loaded, typer.Typer):
            app.add_typer(loaded, name=entry.name)
        else:
            app.command(entry.name)(loaded)


def main() -> None:
    """Runs the command line; what a user can mend is shown as its message alone, status 1."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that all is stopped
    _add_plugins()
    try:
        app()
    except (RlcmError, CalibrationError, OSError) as error:
        Console(stderr=True).print(f"error: {error}", style="red", markup=False, highlight=False)
        sys.exit(1)
