"""Runs untrusted programs, each test in a process with limits and without privileges.

With namespaces (as root, or where users may create them): the program has no network. It sees
Python and the system's libraries, which it cannot change, and its own /tmp, which is deleted with
it. It sees only its own processes, which end with the test. Without namespaces (a container's
default profile often forbids them) the kernel's filters of system calls and of files do most of
this. `Containment` says what holds on this machine, and what does not.

In either case the program has no capabilities and cannot gain any; if root starts it, it runs as a
user that owns nothing. CPU time, wall time, address space, resident memory of all its processes,
file size, number of processes and open files are limited for each test.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from rlcm_serve.evaluation.grading.containment import KERNEL, Containment

_WORKER = Path(__file__).with_name("sandbox_worker.py")
_START = 30.0  # seconds until a worker must be ready, even on a busy machine

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one test, in seconds, bytes and counts.

    Attributes:
        memory: address space of each process, and resident memory of all of them together.
        output: size of every written file, standard output included.
        disk: all files together.
        processes: at the same time.
    """

    cpu: int = 6
    wall: float = 12.0
    memory: int = 2 * 2**30
    output: int = 16 * 2**20
    disk: int = 64 * 2**20
    processes: int = 16


@dataclass(frozen=True, slots=True)
class Outcome:
    """Whether a program ended by itself without an error, and its output if it did."""

    ended: bool
    output: str


class Sandbox:
    """Runs programs; may be used from several threads.

    Attributes:
        is_apart: whether programs run in their own namespaces; None before the first one.
        containment: what holds the programs here; None before the first one.
    """

    def __init__(self, limits: Limits | None = None, namespaces: bool = True) -> None:
        self.limits = limits or Limits()
        self.is_apart: bool | None = None if namespaces else False
        self.containment: Containment | None = None
        self._lock, self._stating = threading.Lock(), threading.Lock()

    def run(
        self, code: str, inputs: Sequence[str], function: str | None = None
    ) -> Generator[Outcome, None, None]:
        """Yields the outcome of each input, in order; close the iterator to stop early.

        One thread must read the iterator; the program ends with that thread.

        Args:
            code: of the program.
            inputs: what the program reads in each test.
            function: to call, a method of `Solution` if that class exists. Each line of the input
                is an argument (JSON), and the output is the result as JSON. None runs the whole
                program on the input.

        Raises:
            RuntimeError: programs cannot run here; the message says why.
        """
        with self._lock:
            if self.is_apart is None:
                self.is_apart = self._try_namespaces()
        yield from self._outcomes(code, inputs, function, self.is_apart)

    def _try_namespaces(self) -> bool:
        try:
            return [*self._outcomes("print(1)", [""], None, True)] == [Outcome(True, "1\n")]
        except RuntimeError as error:
            _log.warning("programs run without namespaces (%s)", error)
            return False

    def _state(self, containment: Containment) -> None:
        """Logs, once, what does not hold programs here: a warning if it could hold elsewhere."""
        with self._stating:
            if self.containment is None:
                self.containment = containment
                gaps = containment.gaps()
                level = logging.WARNING if gaps != (KERNEL,) else logging.INFO
                _log.log(
                    level, "programs run in a sandbox that does not cover: %s", "; ".join(gaps)
                )

    def _outcomes(
        self, code: str, inputs: Sequence[str], function: str | None, namespaces: bool
    ) -> Generator[Outcome, None, None]:
        with tempfile.TemporaryDirectory(prefix="rlcm-") as folder:
            job = {
                "code": code,
                "function": function,
                "inputs": list(inputs),
                "limits": asdict(self.limits),
                "folder": folder,
                "namespaces": namespaces,
            }
            patience = _START + len(inputs) * (self.limits.wall + 1.0)
            with _worker(job, patience) as (replies, errors):
                containment = _containment(replies.readline(), errors)
                if self.is_apart is not None:
                    self._state(containment)
                for _ in inputs:
                    line = replies.readline()
                    yield Outcome(**json.loads(line)) if line else Outcome(False, "")


@contextmanager
def _worker(job: dict[str, Any], patience: float) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """Runs a worker on this job; yields its replies and its stderr. Kills it at the end."""
    with tempfile.TemporaryFile() as file, tempfile.TemporaryFile() as errors:
        file.write(json.dumps(job).encode())
        file.seek(0)
        # The same hashes in every run, so that no verdict depends on the order of a set.
        environment = {"PATH": os.defpath, "LANG": "C.UTF-8", "PYTHONHASHSEED": "0"}
        process = subprocess.Popen(
            [sys.executable, "-P", "-s", "-W", "ignore", str(_WORKER), str(file.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            pass_fds=[file.fileno()],
            env=environment | {"OPENBLAS_NUM_THREADS": "1"},
            start_new_session=True,
        )
        alarm = threading.Timer(patience, _kill, [process])
        alarm.start()
        try:
            with closing(_stdout(process)) as replies:
                yield replies, errors
        finally:
            alarm.cancel()
            _kill(process)
            process.wait()


def _containment(line: bytes, errors: IO[bytes]) -> Containment:
    """What holds the programs of a worker that is ready.

    Raises:
        RuntimeError: it is not; the message says why.
    """
    reply = json.loads(line) if line else {}
    if "ready" in reply:
        return Containment(**reply["ready"])
    if "refused" in reply:
        raise RuntimeError(
            f"programs cannot be run safely here ({reply['refused']}): install Python where every "
            "user may read it, run as a user other than root, or allow namespaces"
        )
    errors.seek(0)
    lines = errors.read().decode(errors="replace").strip().splitlines()
    raise RuntimeError(f"the sandbox did not start: {lines[-1] if lines else 'it was killed'}")


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _stdout(process: subprocess.Popen[bytes]) -> IO[bytes]:
    if process.stdout is None:
        raise RuntimeError("the sandbox has no pipe for its output")
    return process.stdout
