"""Dataclasses from TOML or JSON tables, every name and type checked."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from training.errors import TrainingRefused

Table = TypeVar("Table")


def read_file(path: Path) -> dict[str, Any]:
    """The table in a TOML file.

    Raises:
        TrainingRefused: the file is missing or malformed.
    """
    try:
        return tomllib.loads(path.read_text())
    except FileNotFoundError as error:
        raise TrainingRefused(f"there is no file {path}: give an existing one") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise TrainingRefused(f"{path} is not valid TOML: {error}") from error


def read_table(cls: type[Table], table: Mapping[str, Any], where: str) -> Table:
    """A dataclass from a TOML table; missing fields keep their defaults.

    Raises:
        TrainingRefused: a name is unknown, or a value has the wrong type.
    """
    hints = get_type_hints(cls)
    known = [each.name for each in fields(cls)]  # type: ignore[arg-type]  # dataclasses only
    for name in table:
        require(name in known, f"{where}: there is no setting {name!r}, only {', '.join(known)}")
    return cls(**{name: _value(hints[name], table[name], f"{where}: {name}") for name in table})


def _value(hint: Any, value: Any, where: str) -> Any:
    kinds = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    for kind in kinds:
        plain = get_origin(kind) or kind
        if is_dataclass(kind) and isinstance(value, Mapping):
            return read_table(kind, value, where)  # type: ignore[arg-type]  # a class, as hints are
        if plain is tuple and isinstance(value, list):
            return tuple(value)
        if plain is float and isinstance(value, int) and not isinstance(value, bool):
            return float(value)
        if plain is NoneType and value is None:
            return None
        if plain not in (tuple, NoneType) and isinstance(value, plain):
            if isinstance(value, bool) and plain is not bool:
                continue
            return value
    names = " or ".join(getattr(kind, "__name__", str(kind)) for kind in kinds)
    raise TrainingRefused(f"{where} is {value!r}: give a value of type {names}")


def require(holds: bool, message: str) -> None:
    """Raises `TrainingRefused` with this message unless `holds`."""
    if not holds:
        raise TrainingRefused(message)
