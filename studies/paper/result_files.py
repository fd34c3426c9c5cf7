"""Result files of runs: one JSON file each, named as the run."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from calibration.files import write_text
from rlcm_serve.errors import RequestRefused


class Named(Protocol):
    """A result; `name` is its run's."""

    @property
    def name(self) -> str: ...


Kind = TypeVar("Kind", bound=Named)


def write_result(result: Named, folder: Path) -> Path:
    """Writes `NAME.json` atomically."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{result.name}.json"
    write_text(path, msgspec.json.encode(result).decode() + "\n")
    return path


def read_folder(folder: Path, kind: type[Kind], command: str) -> dict[str, Kind]:
    """The results in a folder, by name; empty without any.

    Args:
        folder: of the files.
        kind: what they are.
        command: writes them, for the error message.

    Raises:
        RequestRefused: a file is not a result of this kind.
    """
    results = [read_result(path, kind, command) for path in sorted(folder.glob("*.json"))]
    return {result.name: result for result in results}


def read_result(path: Path, kind: type[Kind], command: str) -> Kind:
    """One result.

    Raises:
        RequestRefused: the file is not a result of this kind.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except msgspec.DecodeError as error:
        raise RequestRefused(
            "results",
            f"{path} is no valid result ({error}): delete it, then `{command}` writes a new one",
        ) from error
