"""The parts of the report: commands of at most nine minutes, each with a file of results."""

from __future__ import annotations

import sys
from dataclasses import dataclass

LONGEST = 540
"""Seconds after which a part is ended."""
RESULT = "{result}"
"""Stands for the file of the results in a command."""


@dataclass(frozen=True, slots=True)
class Part:
    """One command.

    Attributes:
        name: in the report and on the command line.
        title: on the page.
        command: arguments of Python, run in the repository's root.
        needs_hooks: whether vLLM must have every name that the service uses.
        seconds: it usually takes; a run that has less time left does not begin it.
    """

    name: str
    title: str
    command: tuple[str, ...]
    needs_hooks: bool = True
    seconds: int = LONGEST

    def arguments(self, result: str) -> list[str]:
        """The whole command line."""
        return [sys.executable, *(result if word == RESULT else word for word in self.command)]


def _overhead(name: str, title: str, model: str, *options: str) -> Part:
    command = ("-m", "studies.serving.overhead", "--model", model, "--json", RESULT, *options)
    return Part(f"overhead-{name}", title, command)


def _tests(*arguments: str) -> Part:
    return Part("tests", "Tests", ("-m", "pytest", "-q", *arguments, "--junitxml", RESULT))


def _training(*options: str) -> Part:
    command = ("-m", "studies.gpu.training_speed", "--json", RESULT, *options)
    return Part("training", "RLCM training", command, needs_hooks=False)


_FULL = ("--rounds", "5", "--tokens", "256", "--batches")
_ALL = ("1", "8", "64", "256")

PARTS = (
    _tests("-m", "gpu", "tests/rlcm_serve/engine"),
    _overhead("embedded-v2", "embedded model, V2", "embedded", "--runner", "v2", *_FULL, *_ALL),
    _overhead("embedded-v1", "embedded model, V1", "embedded", "--runner", "v1", *_FULL, *_ALL),
    _overhead("0.5B", "0.5 billion parameters", "0.5B", *_FULL, *_ALL),
    _overhead("1.5B", "1.5 billion parameters", "1.5B", *_FULL, *_ALL),
    _overhead("7B-few", "7 billion parameters, few", "7B", *_FULL, "1", "8"),
    _overhead("7B-many", "7 billion parameters, many", "7B", *_FULL, "64", "256"),
    _training("--steps", "10"),
)
"""On a GPU. Models of other sizes than the embedded one have random weights."""

_TINY = ("--rounds", "1", "--tokens", "64", "--batches", "1", "2")
TINY_PARTS = (
    _tests("tests/rlcm_serve/engine/worker/test_probe.py"),
    _overhead("tiny", "tiny model", "tiny", *_TINY),
    _training("--steps", "2", "--tiny"),
)
"""The same commands on tiny inputs, to try the report itself on a CPU."""
