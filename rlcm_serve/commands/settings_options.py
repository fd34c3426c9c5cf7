"""An option for every setting, made from the settings themselves."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from rlcm_serve.settings import Settings, load_settings
from rlcm_serve.settings.reference import Described, described

ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", help="Settings file (TOML); ./rlcm.toml if it is there."),
]


def takes_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command `--config` and an option for each setting.

    What is given comes as its argument `loaded`, validated together with the other sources; its
    other parameters stay as they are.
    """

    def run(config: Path | None = None, **given: Any) -> None:
        own = {name: given.pop(name) for name in list(given) if name not in Settings.model_fields}
        flags = {name: value for name, value in given.items() if value not in (None, [])}
        command(loaded=load_settings(flags, config), **own)

    own = inspect.signature(command, eval_str=True).parameters.values()
    parameters = [parameter for parameter in own if parameter.name != "loaded"]
    parameters.append(_parameter("config", ConfigOption))
    parameters += [_parameter(setting.name, _option(setting)) for setting in described()]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _parameter(name: str, annotation: Any) -> inspect.Parameter:
    keyword = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, keyword, default=None, annotation=annotation)


def _option(setting: Described) -> Any:
    """What typer is to make of a setting. It converts nothing that the settings would."""
    if setting.flag == "--":
        return Annotated[list[str] | None, typer.Argument(help=f"After `--`: {setting.help}")]
    of = setting.type
    flag = setting.flag if of is not bool else f"{setting.flag}/--no-{setting.flag[2:]}"
    if setting.name.startswith("no_"):
        flag = setting.flag
    flags = [flag] if setting.alias is None else [flag, setting.alias]
    return Annotated[
        of | None,
        typer.Option(*flags, help=setting.help, rich_help_panel=setting.group, show_default=False),
    ]
