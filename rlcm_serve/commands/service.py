"""`rlcm serve` and `rlcm config`."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from rlcm_serve.commands.options import JsonOption
from rlcm_serve.commands.settings_options import takes_settings
from rlcm_serve.settings import Loaded, Settings
from rlcm_serve.settings.reference import template, to_json


@takes_settings
def serve(loaded: Loaded) -> None:
    """Start the service. Put vLLM's engine arguments after `--`.

    Each setting can also be an environment variable (RLCM_MAX_N=8) or a line of the settings
    file (max_n = 8). Options override variables, variables override the file. `rlcm config`
    shows the result.
    """
    from rlcm_serve.api.server.server import run_server

    run_server(loaded.settings)
    raise typer.Exit(0)


@takes_settings
def config(
    loaded: Loaded,
    as_json: JsonOption = False,
    as_toml: Annotated[
        bool, typer.Option("--toml", help="Print a settings file to start from.")
    ] = False,
) -> None:
    """Show all settings and where each value comes from. Takes the options of `rlcm serve`."""
    if as_toml:
        typer.echo(template(), nl=False)
        return
    values = {name: to_json(name, getattr(loaded.settings, name)) for name in Settings.model_fields}
    if as_json:
        settings = {
            name: {"value": value, "source": loaded.sources[name]} for name, value in values.items()
        }
        typer.echo(json.dumps(settings, indent=2))
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("setting", "value", "from"):
        table.add_column(heading, overflow="fold")
    for name, value in values.items():
        table.add_row(name, "" if value is None else str(value), loaded.sources[name])
    Console().print(table)
