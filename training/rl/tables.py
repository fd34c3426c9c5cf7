"""Dataclasses from TOML or JSON tables, every name and type checked."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from training.errors import TrainingRefused

Table = TypeVar("Table")

_ANY = Mapping[str, Any] | list[Any] | str | bool | int | float
"""What TOML and JSON share: no dates, which the stored settings could not hold."""
_LARGEST = 2**63
"""Of TOML's integers."""
_SEEDS = 2**32
"""NumPy takes no larger seeds."""


def read_file(path: Path) -> dict[str, Any]:
    """The table in a TOML file.

    Raises:
        TrainingRefused: the file is missing or malformed.
    """
    try:
        return tomllib.loads(path.read_text())
    except FileNotFoundError as error:
        raise TrainingRefused(f"there is no file {path}: give an existing one") from error
    except IsADirectoryError as error:
        raise TrainingRefused(f"{path} is a folder: give a TOML file") from error
    except OSError as error:
        raise TrainingRefused(f"{path} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise TrainingRefused(f"{path} is not valid TOML: {error}") from error


def read_table(cls: type[Table], table: Mapping[str, Any], where: str) -> Table:
    """A dataclass from a TOML table; missing fields keep their defaults.

    Raises:
        TrainingRefused: a name is unknown or missing, or a value has the wrong type.
    """
    hints = get_type_hints(cls)
    known = {each.name: each for each in fields(cls)}  # type: ignore[arg-type]  # dataclasses only
    for name in table:
        require(name in known, f"{where}: there is no setting {name!r}, only {', '.join(known)}")
    for name, own in known.items():
        has_default = not (own.default is MISSING and own.default_factory is MISSING)
        require(has_default or name in table, f"{where}: {name!r} is missing: give a value")
    return cls(**{name: typed(hints[name], table[name], f"{where}: {name}") for name in table})


def typed(hint: Any, value: Any, where: str) -> Any:
    """A TOML value as the type of a hint, and its elements as those of the hint's.

    Raises:
        TrainingRefused: it has another type; the message begins with `where`.
    """
    hint = _ANY if hint is Any else hint
    kinds = get_args(hint) if get_origin(hint) in (UnionType, Union) else (hint,)
    for kind in kinds:
        plain = get_origin(kind) or kind
        if plain is Literal and value in get_args(kind):
            return value
        if is_dataclass(kind) and isinstance(value, Mapping):
            return read_table(kind, value, where)  # type: ignore[arg-type]  # a class, as hints are
        if plain in (tuple, list) and isinstance(value, list | tuple):
            return plain(_elements(kind, value, where))
        if isinstance(plain, type) and issubclass(plain, Mapping) and isinstance(value, Mapping):
            (_, element) = get_args(kind) or (str, Any)
            return {name: typed(element, own, f"{where}.{name}") for name, own in value.items()}
        if _is_plain(plain, value):
            within = -_LARGEST < value < _LARGEST if isinstance(value, int | float) else True
            require(within, f"{where} is {value}: give a finite number below 2^63")
            return float(value) if plain is float else value
    raise TrainingRefused(f"{where} is {value!r}: give {_wanted(kinds)}")


def is_plain(hint: Any) -> bool:
    """Whether `typed` knows all types of a hint: those of TOML, and literals."""
    if get_origin(hint) is Literal:
        return True
    if get_origin(hint) in (Union, UnionType, tuple, list, dict, Mapping):
        return all(map(is_plain, get_args(hint)))
    return hint in (str, bool, int, float, dict, NoneType, Any, ...)


def _wanted(kinds: Iterable[Any]) -> str:
    """What to give for a hint of these kinds."""
    literals = [own for kind in kinds if get_origin(kind) is Literal for own in get_args(kind)]
    types = [kind for kind in kinds if kind is not NoneType and get_origin(kind) is not Literal]
    wanted = []
    if types:
        wanted.append(f"a value of type {' or '.join(map(_name, types))}")
    if literals:
        wanted.append(f"one of {', '.join(map(repr, literals))}")
    return " or ".join(wanted)


def _name(kind: Any) -> str:
    """What TOML calls a type."""
    plain = get_origin(kind) or kind
    if plain in (tuple, list):
        return "array"
    if is_dataclass(plain) or (isinstance(plain, type) and issubclass(plain, Mapping)):
        return "table"
    return str(getattr(kind, "__name__", kind))


def _elements(kind: Any, values: Iterable[Any], where: str) -> list[Any]:
    """The elements of an array, each of the type that `tuple[T, ...]` or `list[T]` names."""
    element = get_args(kind)[0]
    return [typed(element, own, f"{where}[{index}]") for index, own in enumerate(values)]


def _is_plain(kind: Any, value: Any) -> bool:
    """Whether a value has a type without elements; no bool is an int."""
    if value is None or isinstance(value, bool):
        return kind is (NoneType if value is None else bool)
    return isinstance(value, {str: str, int: int, float: int | float}.get(kind, ()))


def require(holds: bool, message: str) -> None:
    """Raises `TrainingRefused` with this message unless `holds`."""
    if not holds:
        raise TrainingRefused(message)


def require_seed(seed: int) -> None:
    """Raises `TrainingRefused` unless all generators of random numbers take this seed."""
    require(0 <= seed < _SEEDS, f"seed is {seed}: give 0 or more, below {_SEEDS}")
