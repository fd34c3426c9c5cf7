"""Names and descriptions of settings, for flags, variables, listings and documentation."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

from pydantic import ByteSize

from rlcm_serve.settings.model import PREFIX, Settings

_PASSWORD = re.compile(r"(://[^/:@]*:).+(@)|([?&]password=)[^&]+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Described:
    """One setting as it is documented; `default` and `example` are values of TOML.

    `type` is what its option takes: a text, int, float, bool, path, or a list of these. `help` is
    the description with the default. `alias` is another name of its option.

    Those without a fixed default have an example.
    """

    name: str
    group: str
    flag: str
    alias: str | None
    variable: str
    type: Any
    default: str | None
    example: str | None
    description: str
    help: str


def described() -> Iterator[Described]:
    """All settings, group by group."""
    for name, field in Settings.model_fields.items():
        extra = _extra(name)
        yield Described(
            name=name,
            group=extra["group"],
            flag=flag_of(name),
            alias=extra.get("alias"),
            variable=variable_of(name),
            type=type_of(name),
            default=None if field.default_factory else to_toml(field.default),
            example=to_toml(extra.get("example")),
            description=field.description or "",
            help=_with_default(name, field.default, field.description or ""),
        )


def flag_of(name: str) -> str:
    """The option of `rlcm serve`."""
    return _extra(name).get("flag") or f"--{name.replace('_', '-')}"


def variable_of(name: str) -> str:
    """The variable of the environment."""
    return PREFIX + name.upper()


def type_of(name: str) -> Any:
    """What the setting's option takes, as in `Described`."""
    return _type_of(Settings.model_fields[name].annotation)


def shown(name: str, value: Any) -> Any:
    """The value with passwords in URLs masked."""
    if name in ("database", "otlp_endpoint", "alarm_webhook") and isinstance(value, str):
        return _PASSWORD.sub(lambda found: _masked(*found.groups()), value)
    return value


def to_json(name: str, value: Any) -> Any:
    """The value for JSON, with passwords in URLs masked."""
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, list | tuple):
        return [to_json(name, part) for part in value]
    return shown(name, value)


def to_toml(value: Any) -> str | None:
    """The value in TOML; None, which TOML does not have, gives None."""
    return None if value is None else json.dumps(to_json("", value))


def template() -> str:
    """A settings file with every setting commented out, at its default."""
    lines = ["# Settings of rlcm-serve. Flags and RLCM_* variables override this file."]
    group = None
    for setting in described():
        if setting.group != group:
            group = setting.group
            lines += ["", f"# {group}"]
        lines += [
            "",
            f"# {setting.description}",
            f"# {setting.name} = {setting.default or setting.example}",
        ]
    return "\n".join(lines) + "\n"


def markdown() -> str:
    """The table of all settings in docs/reference/settings.md."""
    lines = ["| setting | default | option | |", "|---|---|---|---|"]
    for setting in described():
        default = f"`{setting.default}`" if setting.default else ""
        lines.append(f"| `{setting.name}` | {default} | `{setting.flag}` | {setting.description} |")
    return "\n".join(lines)


def _with_default(name: str, default: Any, description: str) -> str:
    """The description, which says itself what an unset value means, with any other default."""
    if "Default: " in description or default is None:
        return description
    if isinstance(default, bool):
        default = "on" if default else "off"
    elif isinstance(default, ByteSize):
        default = default.human_readable(separator=" ")
    elif isinstance(default, float):
        default = f"{default:.12g}{' s' if name.endswith('_s') else ''}"
    elif default in ([], ()):
        default = "none"
    return f"{description} Default: {default}."


def _masked(account: str | None, at: str | None, parameter: str | None) -> str:
    return f"{account}***{at}" if account else f"{parameter}***"


def _extra(name: str) -> dict[str, Any]:
    extra = Settings.model_fields[name].json_schema_extra
    return extra if isinstance(extra, dict) else {}


def _type_of(annotation: Any) -> Any:
    """The simple type behind a setting's annotation; a text, unless it is one of a few others."""
    arguments = [part for part in get_args(annotation) if part is not type(None)]
    if get_origin(annotation) is Annotated or type(None) in get_args(annotation):
        return _type_of(arguments[0])
    if get_origin(annotation) is list:
        return list[_type_of(arguments[0])]  # type: ignore[misc]
    return annotation if annotation in (int, float, bool, Path) else str
