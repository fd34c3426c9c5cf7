"""Loads settings: flags override `RLCM_*` variables, then a TOML file, then defaults."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_settings import EnvSettingsSource

from rlcm_serve.errors import SettingsRefused
from rlcm_serve.home import at_home
from rlcm_serve.settings.model import PREFIX, Settings, split_list
from rlcm_serve.settings.reference import flag_of, shown, type_of, variable_of
from rlcm_serve.suggestions import did_you_mean
from rlcm_serve.wrong_values import remedy_of

CONFIG_VARIABLE = "RLCM_CONFIG"
"""Variable that names the settings file; it is not itself a setting."""
CLIENT_VARIABLES = ("RLCM_SERVICE", "RLCM_API_KEY")
"""Variables for commands that call a running service; they are not settings either."""
DEFAULT_CONFIG = Path("rlcm.toml")
"""Default settings file."""
_LISTED = "`rlcm config --toml` lists them all"


@dataclass(frozen=True, slots=True)
class Loaded:
    """Settings, and for each the place it was taken from.

    A source is "flag", the name of a variable, the path of the file, or "default".
    """

    settings: Settings
    sources: dict[str, str]


def load_settings(flags: Mapping[str, object], config: Path | None = None) -> Loaded:
    """Loads the settings.

    Args:
        flags: by name of the setting; None means not given.
        config: the TOML file; else the one `RLCM_CONFIG` names, else ./rlcm.toml if it is there.

    Raises:
        SettingsRefused: a name is unknown, a value is invalid, or the file cannot be read.
    """
    file = _find_config(config)
    values: dict[str, Any] = {}
    sources = dict.fromkeys(Settings.model_fields, "default")
    layers: list[tuple[dict[str, object], Callable[[str], str]]] = [
        (_read_config(file) if file else {}, lambda name: str(file)),
        (_read_environment(), variable_of),
        ({name: value for name, value in flags.items() if value is not None}, lambda name: "flag"),
    ]
    for found, source in layers:  # a later one wins
        values |= found
        sources |= {name: source(name) for name in found}
    try:
        return Loaded(Settings(**values), sources)
    except ValidationError as error:
        raise SettingsRefused(_explain(error, sources)) from None


def _find_config(given: Path | None) -> Path | None:
    named = given or os.environ.get(CONFIG_VARIABLE) or None
    if named is None:
        return DEFAULT_CONFIG if DEFAULT_CONFIG.is_file() else None
    source = "--config" if given else CONFIG_VARIABLE
    try:
        file = at_home(Path(named))
    except ValueError as error:
        raise SettingsRefused(f"the settings file is {str(named)!r} ({source}): {error}") from None
    if not file.is_file():
        raise SettingsRefused(f"no settings file {str(file)!r} ({source}): give one that exists")
    return file


def _read_environment() -> dict[str, object]:
    known = [*map(variable_of, Settings.model_fields), CONFIG_VARIABLE, *CLIENT_VARIABLES]
    for variable in os.environ:
        upper = variable.upper()
        if upper.startswith(PREFIX) and variable not in known:
            remedy = did_you_mean(upper, known, _LISTED)
            raise SettingsRefused(
                f"the environment has {variable}, which is not a setting: {remedy}"
            )
    return EnvSettingsSource(Settings)()


def _read_config(file: Path) -> dict[str, object]:
    try:
        values = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsRefused(f"{file} is not TOML: {error}") from error
    for name in values:
        if name not in Settings.model_fields:
            remedy = did_you_mean(name, Settings.model_fields, _LISTED)
            raise SettingsRefused(f"{file} has {name!r}, which is not a setting: {remedy}")
    return {name: _beside(file.parent, name, value) for name, value in values.items()}


def _beside(folder: Path, name: str, value: Any) -> Any:
    """Paths in a settings file are relative to its folder."""
    kind = type_of(name)
    if kind is Path and isinstance(value, str):
        return _located(folder, value)
    if kind == list[Path]:
        listed = split_list(value)
        if isinstance(listed, list) and all(isinstance(part, str) for part in listed):
            return [_located(folder, part) for part in listed]
    if name == "model" and isinstance(value, str) and value.startswith("."):
        return str(folder / value)
    if name == "rehearse" and isinstance(value, str) and (folder / value).is_file():
        return str(folder / value)  # otherwise it is an id
    return value


def _located(folder: Path, value: str) -> Path | str:
    return value if value.startswith("~") else folder / value  # the setting itself expands ~


def _explain(error: ValidationError, sources: Mapping[str, str]) -> str:
    """Each wrong value with the place it came from, in one line."""
    return "; ".join(_explain_one(found, sources) for found in error.errors())


def _places(message: str, sources: Mapping[str, str]) -> str:
    """Where the settings come from that a message begins with, such as ` (--audit-share-of)`."""
    named = re.findall(r"\w+", message.partition(":")[0])
    given = [name for name in dict.fromkeys(named) if sources.get(name, "default") != "default"]
    return f" ({', '.join(_place(name, sources) for name in given)})" if given else ""


def _place(name: str, sources: Mapping[str, str]) -> str:
    return flag_of(name) if sources[name] == "flag" else sources[name]


def _explain_one(found: Mapping[str, Any], sources: Mapping[str, str]) -> str:
    message = remedy_of(found)
    if not found["loc"]:
        return message + _places(message, sources)
    name = str(found["loc"][0])
    if name not in Settings.model_fields:
        return f"{name!r} is not a setting: {did_you_mean(name, Settings.model_fields, _LISTED)}"
    value = shown(name, found["input"])
    return f"{name} is {value!r} ({_place(name, sources)}): {message[0].lower()}{message[1:]}"
