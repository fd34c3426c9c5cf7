"""The result of one run of the primary comparison: a JSON file of some 200 kB, to be committed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from studies.paper.primary.measures import Measured
from studies.paper.result import Stage
from studies.paper.result_files import read_folder, write_result

COMMAND = "python -m studies.paper.primary run"
"""Writes the results."""


@dataclass(frozen=True, slots=True)
class PrimaryResult:
    """One run.

    Attributes:
        name, method, seed: of the run.
        design: digest of the settings and problems; runs that are compared have the same.
        seconds: of all stages together.
        training, probe, test: stages; the training's seconds are those of its steps.
        settings: of the training.
        accuracy: of the training's rollouts, by step.
        measured: on the test.
    """

    name: str
    method: str
    seed: int
    design: str
    seconds: float
    training: Stage
    probe: Stage
    test: Stage
    settings: dict[str, Any]
    accuracy: tuple[float, ...]
    measured: Measured

    def write(self, folder: Path) -> Path:
        """Writes `NAME.json` atomically."""
        return write_result(self, folder)


def read_primary(folder: Path) -> dict[str, PrimaryResult]:
    """The results in a folder, by name; empty without any.

    Raises:
        RequestRefused: a file is not a result.
    """
    return read_folder(folder, PrimaryResult, COMMAND)
