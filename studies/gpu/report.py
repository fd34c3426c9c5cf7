"""The report: its file, which parts are done, and how one is run."""

from __future__ import annotations

import json
import os
import subprocess
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

from studies.gpu.machine import ROOT, Machine
from studies.gpu.parts import LONGEST, Part

FILE = "report.json"


class State(StrEnum):
    """How far a part is."""

    DONE = "done"
    FAILED = "failed"
    NOT_RUN = "not run"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a part, at which commit; `why` says why it failed or was not run."""

    state: State
    why: str = ""
    seconds: float = 0.0
    result: Any = None
    commit: str = ""

    @classmethod
    def from_json(cls, plain: dict[str, Any]) -> Self:
        """An outcome as it is in the file."""
        return cls(**(plain | {"state": State(plain["state"])}))


@dataclass
class Report:
    """Outcomes by the name of their part, in a file that is written after each.

    Attributes:
        machine: what they were measured on.
        is_rehearsal: whether inputs were tiny, so that no figure means anything.
        outcomes: so far.
    """

    machine: Machine
    is_rehearsal: bool
    outcomes: dict[str, Outcome] = field(default_factory=dict)

    @classmethod
    def resumed(cls, folder: Path, machine: Machine, is_rehearsal: bool) -> Self:
        """The report in this folder, or a new one. Parts may be of different commits.

        Raises:
            ValueError: the folder's report is of another machine, version or kind.
        """
        report = cls(machine, is_rehearsal)
        if not (folder / FILE).is_file():
            return report
        stored = json.loads((folder / FILE).read_text())
        before = Machine.from_json(stored["machine"])
        before_of = replace(before, commit=machine.commit)
        if (before_of, stored["is_rehearsal"]) != (machine, is_rehearsal):
            raise ValueError(
                f"{folder / FILE} is of {before.to_json()}"
                f"{', a rehearsal' if stored['is_rehearsal'] else ''}, and this run is of "
                f"{machine.to_json()}: give another folder with --out"
            )
        report.outcomes = {name: Outcome.from_json(one) for name, one in stored["parts"].items()}
        return report

    def write(self, folder: Path) -> None:
        """Writes the file, whole or not at all."""
        plain = {
            "machine": self.machine.to_json(),
            "is_rehearsal": self.is_rehearsal,
            "parts": {name: asdict(one) for name, one in self.outcomes.items()},
        }
        part = folder / f"{FILE}.part"
        part.write_text(json.dumps(plain, indent=2))
        part.replace(folder / FILE)

    def missing(self, parts: Sequence[Part]) -> list[Part]:
        """The parts that are not done."""
        return [part for part in parts if not self.is_done(part)]

    def is_done(self, part: Part) -> bool:
        """Whether the part has results."""
        found = self.outcomes.get(part.name)
        return found is not None and found.state is State.DONE

    def cannot_run(self, part: Part) -> str:
        """Why this machine cannot run a part; "" if it can."""
        if not self.machine.gpu and not self.is_rehearsal:
            return "there is no CUDA device"
        if part.needs_hooks and self.machine.lacks:
            return self.machine.lacks
        return ""


def run(part: Part, folder: Path, limit: float = LONGEST) -> Outcome:
    """Runs a part; its output is in a log beside the report."""
    result, log = folder / f"{part.name}.result", folder / f"{part.name}.log"
    result.unlink(missing_ok=True)
    began = time.monotonic()
    with log.open("w") as output:
        running = subprocess.Popen(
            part.arguments(str(result.absolute())),
            cwd=ROOT,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
        )
        try:
            status = running.wait(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, 9)
            running.wait()
            return Outcome(State.FAILED, f"it took longer than {limit:g} s; see {log}", limit)
    seconds = time.monotonic() - began
    found = _read(result)
    if status or found is None:
        why = f"the command ended with status {status}; see {log}"
        return Outcome(State.FAILED, why, seconds, found)
    return Outcome(State.DONE, "", seconds, found)


def _read(result: Path) -> Any:
    """The results of a part: JSON, or the counts of pytest's JUnit file; None without any."""
    if not result.is_file():
        return None
    text = result.read_text()
    if not text.startswith("<"):
        return json.loads(text)
    suite = ElementTree.fromstring(text).find("testsuite")
    counts = {} if suite is None else dict(suite.attrib)
    return {name: int(counts.get(name, 0)) for name in ("tests", "failures", "errors", "skipped")}
