"""`rlcm serve`, `rlcm vllm-args` and `rlcm config`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from rlcm_serve.commands.options import JsonOption, VllmArguments
from rlcm_serve.commands.settings_options import takes_settings
from rlcm_serve.errors import RequestRefused, SettingsRefused
from rlcm_serve.settings import Loaded, Settings, load_settings
from rlcm_serve.settings.reference import template, to_json
from rlcm_serve.terminal import output_to


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


def vllm_args(
    model: Annotated[
        str, typer.Argument(help="Model: a folder or a Hugging Face id, as for `vllm serve`.")
    ],
    vllm_arguments: VllmArguments = None,
) -> None:
    """Print the arguments with which `vllm serve` has exit control.

    For `vllm serve MODEL $(rlcm vllm-args MODEL)` with VLLM_PLUGINS=rlcm,rlcm-routes. All settings
    come from RLCM_* variables and rlcm.toml, there and here.
    """
    from rlcm_serve.api.composition import build_service
    from rlcm_serve.engine.model_files import SHIPPED_MODELS
    from rlcm_serve.engine.vllm_engine import VllmEngine

    if model in SHIPPED_MODELS:
        raise SettingsRefused(
            f"vLLM does not know the model {model!r}: give the folder {SHIPPED_MODELS[model]}, "
            "here and to `vllm serve`"
        )
    flags = {"model": model, "vllm_arguments": tuple(vllm_arguments or ())}
    settings = load_settings(flags).settings
    service = build_service(
        settings.engine(), (), lambda stage: None, profiles=settings.profiles or ()
    )
    if not isinstance(service.engine, VllmEngine):
        raise TypeError(f"the engine is {service.engine!r}, which is not vLLM")
    with output_to(Path(os.devnull)):  # vLLM logs to the standard output
        arguments = [_in_one_word(argument) for argument in service.engine.command_line()]
    for argument in arguments:
        if any(character.isspace() for character in argument):
            raise SettingsRefused(
                f"{argument!r} contains a space, where a shell would split it: write it without "
                "one; if it is a folder, rename the folder"
            )
    typer.echo(" ".join(arguments))


def _in_one_word(argument: str) -> str:
    """JSON without blanks between its parts; any other argument as it is."""
    if not argument.startswith(("{", "[")):
        return argument
    try:
        return json.dumps(json.loads(argument), separators=(",", ":"), ensure_ascii=False)
    except ValueError:
        return argument


@takes_settings
def config(
    loaded: Loaded,
    as_json: JsonOption = False,
    as_toml: Annotated[
        bool, typer.Option("--toml", help="Print a settings file to start from.")
    ] = False,
) -> None:
    """Show all settings and where each value comes from. Takes the options of `rlcm serve`."""
    if as_toml and as_json:
        raise RequestRefused("json", "--toml prints a settings file: give --toml or --json")
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
    Console(markup=False).print(table)
