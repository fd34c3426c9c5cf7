"""Limits that end a test soon, a way to run one, and a sandbox that an ordinary user starts."""

from __future__ import annotations

import json
import os
import shutil
import site
import subprocess
from collections.abc import Generator, Sequence
from dataclasses import asdict
from pathlib import Path

from rlcm_serve.evaluation.grading.sandbox import Limits, Outcome, Sandbox

LIMITS = Limits(cpu=2, wall=3.0)
ROOT = Path(__file__).parents[4]
NOBODY = 65534
EVALUATION = """
import json, sys
from dataclasses import asdict
from rlcm_serve.evaluation.grading.sandbox import Limits, Sandbox
sandbox = Sandbox(Limits(**json.loads(sys.argv[1])), namespaces=False)
for line in sys.stdin:
    code, inputs, function = json.loads(line)
    print(json.dumps([asdict(one) for one in sandbox.run(code, inputs, function)]), flush=True)
"""


def one(sandbox: Sandbox, code: str, text: str = "", function: str | None = None) -> Outcome:
    (outcome,) = sandbox.run(code, [text], function)
    return outcome


class SandboxOfNobody(Sandbox):
    """Without namespaces, in an evaluation whose user is not root: programs run as this user too.

    Attributes:
        pid: of the evaluation.

    Raises:
        RuntimeError: only root can start it, with a Python that this user may read.
    """

    def __init__(self) -> None:
        super().__init__(LIMITS, namespaces=False)
        python = shutil.which("python3", path=os.defpath)
        if os.getuid() or python is None:
            raise RuntimeError("only root can start an evaluation of another user")
        self._process = subprocess.Popen(
            [python, "-c", EVALUATION, json.dumps(asdict(LIMITS))],
            user=NOBODY,
            group=NOBODY,
            extra_groups=[],
            env={"PYTHONPATH": f"{ROOT}:{site.getsitepackages()[0]}", "HF_TOKEN": "secret"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid = self._process.pid
        list(self.run("", [""]))

    def run(
        self, code: str, inputs: Sequence[str], function: str | None = None
    ) -> Generator[Outcome, None, None]:
        """As `Sandbox.run`, all at once."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([code, [*inputs], function]) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the evaluation ended with status {self._process.wait()}")
        yield from (Outcome(**outcome) for outcome in json.loads(line))

    def close(self) -> None:
        """Ends the evaluation."""
        self._process.kill()
        self._process.communicate()


def evaluation_of(sandbox: Sandbox) -> int:
    """The process that asks for the programs."""
    return sandbox.pid if isinstance(sandbox, SandboxOfNobody) else os.getpid()
