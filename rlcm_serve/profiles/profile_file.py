"""Reads profiles from TOML files."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from rlcm_serve.errors import ProfileRefused
from rlcm_serve.home import at_home
from rlcm_serve.profiles.profile import DEFAULT_NAME, Profile
from rlcm_serve.suggestions import did_you_mean

PROFILE_FOLDER = "profiles"
"""Folder of profile files inside a model's folder."""
_KEYS = tuple(one.name for one in fields(Profile))


def load_profile(file: Path) -> Profile:
    """The profile of a TOML file, whose keys are the fields of `Profile`.

    Without `name`, the file's name without its ending is the profile's. `schema` is a table or the
    path of a JSON file. Paths are relative to the file's folder.

    Raises:
        ProfileRefused: the file cannot be read, has an unknown key, or a value is not accepted.
    """
    values = {"name": file.stem} | _read(file)
    for key in values:
        if key not in _KEYS:
            remedy = did_you_mean(key, _KEYS, f"give some of {', '.join(_KEYS)}")
            raise ProfileRefused(f"{file} has {key!r}, which no profile has: {remedy}")
    if values["name"] == DEFAULT_NAME:
        raise ProfileRefused(
            f"{file}: the name {DEFAULT_NAME!r} means the model without a profile: choose another"
        )
    if isinstance(values.get("schema"), str):
        values["schema"] = _schema(file.parent / values["schema"], file)
    if isinstance(values.get("adapter"), str):
        values["adapter"] = _adapter(values["adapter"], file)
    try:
        return Profile(**values)
    except ProfileRefused as error:
        raise ProfileRefused(f"{file}: {error}") from None


def load_profiles(files: Sequence[Path]) -> tuple[Profile, ...]:
    """The profiles of the files; one that is named twice counts once.

    Raises:
        ProfileRefused: a file is refused, or two profiles have one name.
    """
    loaded: dict[str, tuple[Profile, Path]] = {}
    for file in {file.resolve(): file for file in files}.values():
        profile = load_profile(file)
        for other, source in loaded.values():
            if other.name == profile.name:
                raise ProfileRefused(
                    f"{source} and {file} are both named {profile.name!r}: rename one of them"
                )
        loaded[profile.name] = profile, file
    return tuple(profile for profile, _ in loaded.values())


def find_profiles(model: Path) -> tuple[Path, ...]:
    """The profile files in a model's folder; empty if there is no such folder."""
    return tuple(sorted((model / PROFILE_FOLDER).glob("*.toml")))


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ProfileRefused(f"cannot read the profile {file}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ProfileRefused(f"{file} is not TOML: {error}") from error


def _adapter(path: str, file: Path) -> Path:
    try:
        return file.parent / at_home(Path(path))
    except ValueError as error:
        raise ProfileRefused(f"{file}: adapter is {path!r}: {error}") from None


def _schema(path: Path, file: Path) -> Mapping[str, Any]:
    try:
        schema = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ProfileRefused(
            f"{file}: schema is {str(path)!r}, which has no JSON: {error}"
        ) from error
    if not isinstance(schema, dict):
        raise ProfileRefused(f"{file}: schema is {str(path)!r}, which holds no JSON object")
    return schema
