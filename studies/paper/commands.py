"""The stages of a run: `rlcm` commands that continue after an interruption, one run at a time."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import lock_descriptor

from calibration.files import write_text
from studies.paper.result import Stage
from training.errors import TrainingRefused
from training.provenance import commit


@dataclass(frozen=True, slots=True)
class Stages:
    """The commands of a run.

    Attributes:
        folder: of the run's model; its name is the run's. Logs and the lock are beside it.
    """

    folder: Path

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Holds a lock that stages inherit, as a stage may outlive this process.

        Raises:
            TrainingRefused: another process holds it.
        """
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        name = self.folder.name
        held = f"{name} is under way in another process: wait until it ends, or stop it"
        with self.folder.with_name(f"{name}.lock").open("w") as file:
            if not lock_descriptor(file.fileno(), blocking=False):
                raise TrainingRefused(held)
            os.set_inheritable(file.fileno(), True)
            yield

    def stage(self, name: str, arguments: Sequence[object]) -> Stage:
        """Runs a stage unless it is complete; returns its command, commit and seconds.

        Raises:
            TrainingRefused: the stage was completed or started with another command.
        """
        path, typed = self._note(name), _typed(arguments)
        note: dict[str, Any] = {"command": typed}
        if path.exists():
            note = json.loads(path.read_text())
        if note["command"] != typed:
            raise TrainingRefused(
                f"{self.folder} holds the {name} of another command ({note['command']}): remove "
                "the folder to do it anew"
            )
        if not note.get("done"):
            with _noted(path, note):
                self.rlcm(name, arguments)
        return _stage(note)

    def completed(self, name: str) -> Stage | None:
        """A stage's command, commit and seconds; None unless it is complete."""
        path = self._note(name)
        note = json.loads(path.read_text()) if path.exists() else {}
        return _stage(note) if note.get("done") else None

    def rlcm(self, name: str, arguments: Sequence[object]) -> None:
        """Runs `rlcm`; its output goes to the stage's log.

        Raises:
            TrainingRefused: it failed.
        """
        log = self.folder.with_name(f"{self.folder.name}.{name}.log")
        program = Path(sys.executable).with_name("rlcm")
        with log.open("a") as output:
            done = subprocess.run(
                [str(program), *map(str, arguments)],
                stdout=output,
                stderr=subprocess.STDOUT,
                close_fds=False,  # the lock stays held while it runs
            )
        if done.returncode:
            raise TrainingRefused(
                f"{_typed(arguments)} ended with {done.returncode}: {log} says why"
            )

    def _note(self, name: str) -> Path:
        return self.folder / f"{name}.stage.json"


def _stage(note: dict[str, Any]) -> Stage:
    return Stage(note["command"], note["commit"], round(note["seconds"], 1))


def _typed(arguments: Sequence[object]) -> str:
    return shlex.join(["rlcm", *map(str, arguments)])


@contextmanager
def _noted(path: Path, note: dict[str, Any]) -> Iterator[None]:
    """Stores a stage's commit, its seconds over all sessions, and at the end its completion.

    The seconds of a killed session are lost.
    """
    before = note.get("seconds", 0.0)
    note |= {"commit": commit(), "seconds": before, "done": False}
    _write(path, note)
    began = time.monotonic()
    try:
        yield
        note["done"] = True
    finally:
        note["seconds"] = before + time.monotonic() - began
        _write(path, note)


def _write(path: Path, note: dict[str, Any]) -> None:
    write_text(path, json.dumps(note) + "\n")
