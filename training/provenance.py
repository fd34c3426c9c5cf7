"""Provenance of a result: the command line, the commit and the versions of the code."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Self

_PACKAGES = ("rlcm-serve", "torch", "transformers", "trl", "accelerate", "verl")


@dataclass(frozen=True, slots=True)
class Session:
    """What ran a training, or a part of it.

    Attributes:
        command: the command line.
        commit: as of `commit`.
        versions: of the packages that are installed.
    """

    command: str
    commit: str | None
    versions: dict[str, str]

    @classmethod
    def now(cls) -> Self:
        """This process."""
        return cls(command(), commit(), dict(_versions()))


def _versions() -> Iterator[tuple[str, str]]:
    for package in _PACKAGES:
        with suppress(PackageNotFoundError):
            yield package, version(package)


def command() -> str:
    """The command line of this process, without the path of the program."""
    return shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])


def commit() -> str | None:
    """The commit of this checkout, with `+` if a tracked file differs. None outside a checkout."""
    tracked = _git("ls-files", Path(__file__).name)
    if not tracked:  # installed, maybe below somebody else's checkout
        return None
    changed = _git("status", "--porcelain", "--untracked-files=no", ":/")
    return _git("rev-parse", "HEAD") + ("+" if changed else "")


def _git(*arguments: str) -> str:
    """The output of git in this folder. Empty without git or without a checkout."""
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=Path(__file__).parent, capture_output=True, text=True
        )
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
