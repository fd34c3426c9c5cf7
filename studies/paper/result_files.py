"""Result files of runs: one JSON file each, named as the run, and tied to a study's design."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from calibration.files import write_text
from rlcm_serve.errors import RequestRefused
from training.errors import TrainingRefused


class Named(Protocol):
    """A result; `name` is its run's."""

    @property
    def name(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Made:
    """What every result says about its run: the name, and the digest of the study's design."""

    name: str
    design: str = ""


Kind = TypeVar("Kind", bound=Named)


def design_digest(tested: Sequence[object], texts: Iterable[bytes]) -> str:
    """Digest of a study's design: results that stand beside each other have the same.

    Args:
        tested: values of the test and of its probe.
        texts: contents of the files with settings and problems.
    """
    digest = hashlib.sha256(repr(tested).encode())
    for text in texts:
        digest.update(text)
    return digest.hexdigest()[:12]


def is_made(path: Path, design: str, command: str) -> bool:
    """Whether a run's result exists.

    Args:
        path: of the result.
        design: digest of the study's.
        command: as in `read_folder`.

    Raises:
        TrainingRefused: it exists, and is of another design.
        RequestRefused: the file is not a result.
    """
    if not path.exists():
        return False
    if read_result(path, Made, command).design != design:
        raise TrainingRefused(
            f"{path} was made under another design, so it cannot stand beside new results: "
            "give them another folder with --results; or delete it, then its run is made again"
        )
    return True


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
