"""Runs programs that nobody has read, each test in a process with limits and without rights.

What holds wherever namespaces may be made (as root, or where users may make them): the program has
no network; it sees Python and the system's libraries, which it cannot change, and a /tmp of its own
that ends with it; it sees no process but its own, and each of them ends with the test. It runs as
a user that owns nothing (if root starts it), without capabilities, and can gain none. CPU and wall
time, address space, resident memory of all its processes, size of a file, number of processes and
open files are limited for each test.

Where they may not (a container's default profile often forbids it), the limits hold, root is left,
and what it started is found and killed; but it can read what that user can, `socket` is refused to
Python alone, and files it writes outside its folder stay. `Sandbox.is_apart` says which.

What holds nowhere: it shares the kernel. A flaw in that is not guarded against; for programs that
are written to break out, run the evaluation inside a virtual machine.
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

_WORKER = Path(__file__).with_name("sandbox_worker.py")
_START = 30.0  # seconds in which a worker has to be ready, on a busy machine

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one test: seconds, bytes and counts.

    `memory` bounds the address space of each process, and what all of them hold together; `output`
    every file that is written, standard output among them; `disk` the whole of /tmp.
    """

    cpu: int = 6
    wall: float = 12.0
    memory: int = 2 * 2**30
    output: int = 16 * 2**20
    disk: int = 64 * 2**20
    processes: int = 16


@dataclass(frozen=True, slots=True)
class Outcome:
    """Whether a program ended by itself and without an error, and then what it put out."""

    ended: bool
    output: str


class Sandbox:
    """Starts programs; may be used from several threads.

    Attributes:
        is_apart: whether programs run in namespaces of their own; None before the first one.
    """

    def __init__(self, limits: Limits | None = None, namespaces: bool = True) -> None:
        self.limits = limits or Limits()
        self.is_apart: bool | None = None if namespaces else False
        self._lock = threading.Lock()

    def run(
        self, code: str, inputs: Sequence[str], function: str | None = None
    ) -> Generator[Outcome, None, None]:
        """The outcome of each input, in order, as they come; close the iterator to end early.

        It has to be read in one thread, whose end is the program's end too.

        Args:
            code: of the program.
            inputs: for each test, what the program reads.
            function: name of one to call, a method of `Solution` if there is that class, with an
                argument (JSON) a line of the input; its result is put out as JSON. None runs the
                whole program on the input.

        Raises:
            RuntimeError: there is no running programs here, and why.
        """
        with self._lock:
            if self.is_apart is None:
                self.is_apart = self._try_namespaces()
        yield from self._outcomes(code, inputs, function, self.is_apart)

    def _try_namespaces(self) -> bool:
        try:
            return [*self._outcomes("print(1)", [""], None, True)] == [Outcome(True, "1\n")]
        except RuntimeError as error:
            _log.warning(
                "programs run without namespaces of their own (%s): they can read files of this "
                "user, and only Python's own sockets are refused to them",
                error,
            )
            return False

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
            with _worker(job, patience) as (replies, complaints):
                _check_ready(replies.readline(), complaints)
                for _ in inputs:
                    line = replies.readline()
                    yield Outcome(**json.loads(line)) if line else Outcome(False, "")


@contextmanager
def _worker(job: dict[str, Any], patience: float) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """A worker at this job: its replies, and what it complains of. At the end it is killed."""
    with tempfile.TemporaryFile() as file, tempfile.TemporaryFile() as complaints:
        file.write(json.dumps(job).encode())
        file.seek(0)
        # The same hashes in every run, so that a verdict cannot hang on the order of a set.
        environment = {"PATH": os.defpath, "LANG": "C.UTF-8", "PYTHONHASHSEED": "0"}
        process = subprocess.Popen(
            [sys.executable, "-P", "-s", "-W", "ignore", str(_WORKER), str(file.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=complaints,
            pass_fds=[file.fileno()],
            env=environment | {"OPENBLAS_NUM_THREADS": "1"},
            start_new_session=True,
        )
        alarm = threading.Timer(patience, _kill, [process])
        alarm.start()
        try:
            with closing(_stdout(process)) as replies:
                yield replies, complaints
        finally:
            alarm.cancel()
            _kill(process)
            process.wait()


def _check_ready(line: bytes, complaints: IO[bytes]) -> None:
    """Returns if the worker said that it is ready.

    Raises:
        RuntimeError: it did not.
    """
    said = json.loads(line) if line else {}
    if said.get("ready"):
        return
    if "refused" in said:
        raise RuntimeError(
            f"programs cannot be run safely here ({said['refused']}): install Python where every "
            "user may read it, run as a user other than root, or allow namespaces"
        )
    complaints.seek(0)
    lines = complaints.read().decode(errors="replace").strip().splitlines()
    raise RuntimeError(f"the sandbox did not start: {lines[-1] if lines else 'it was ended'}")


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _stdout(process: subprocess.Popen[bytes]) -> IO[bytes]:
    if process.stdout is None:
        raise RuntimeError("the sandbox was started without a pipe")
    return process.stdout
