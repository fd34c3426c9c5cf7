"""The besieged service: `rlcm serve` with keys on, in a process of its own, on loopback."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import httpx
import psutil

from rlcm_serve.store.caller import Scope
from rlcm_serve.store.database import Database
from rlcm_serve.store.keys import Keys
from studies.serving.ports import free_port

SECONDS_TO_READY = 300
"""40 on an idle machine; this one may be busy."""
SCOPES = {
    "solve": [Scope.SOLVE],
    "other": [Scope.SOLVE],
    "metrics": [Scope.METRICS],
    "label": [Scope.LABEL],
    "admin": [Scope.SOLVE, Scope.ADMIN],
    "revoked": [Scope.SOLVE, Scope.ADMIN],
}
PROGRAM = (sys.executable, "-c", "from rlcm_serve.cli import main; main()")
ENGINE, COMPARES, FITS = "EngineCore", "answers/worker.py", "rlcm_serve.jobs.fit_worker"
"""What names the processes of a service: their name, or a part of their command line."""


@dataclass
class Siege:
    """A service that can be killed and started again on the same port and state.

    Attributes:
        keys: the key of each role in `SCOPES`.
        program: what runs as `rlcm`.
    """

    folder: Path
    port: int
    arguments: tuple[str, ...]
    keys: dict[str, str]
    program: tuple[str, ...] = PROGRAM
    process: subprocess.Popen[bytes] = field(init=False)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> Path:
        return self.folder / "service.log"

    @property
    def state(self) -> Path:
        return self.folder / "state"

    def bearer(self, role: str = "solve") -> dict[str, str]:
        """The header with this role's key."""
        return {"Authorization": f"Bearer {self.keys[role]}"}

    def start(self) -> None:
        """Starts the service; does not wait."""
        command = [*self.program, "serve", "--port", str(self.port), "--auth", "on"]
        command += ["--state", str(self.state), "--engine-log", str(self.folder / "engine.log")]
        with self.log.open("ab") as log:
            self.process = _started([*command, *self.arguments], log)

    def await_ready(self, seconds: float = SECONDS_TO_READY) -> None:
        """Waits until the service answers questions.

        Raises:
            SystemExit: it ended, or was not ready in time; the message has the end of its log.
        """
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and self.process.poll() is None:
            with suppress(httpx.HTTPError):
                if httpx.get(f"{self.url}/readyz", timeout=10).is_success:
                    return
            time.sleep(0.2)
        raise SystemExit(
            f"the service ended, or was not ready in {seconds:g} s: {self._log_tail()}"
        )

    def family(self, kind: str = "") -> list[psutil.Process]:
        """Its child processes of this kind; of every kind by default."""
        try:
            children = psutil.Process(self.process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []
        return [one for one in children if kind in _words(one)]

    def errors(self) -> list[str]:
        """The lines of level `error` in its log."""
        lines = self.log.read_text(errors="replace").splitlines()
        return [line for line in lines if '"level": "error"' in line]

    def stop(self) -> None:
        """Kills the service; its children notice and end."""
        children = self.family()
        self.process.kill()
        self.process.wait()
        _, alive = psutil.wait_procs(children, timeout=30)
        for one in alive:
            with suppress(psutil.NoSuchProcess):
                one.kill()

    def _log_tail(self) -> str:
        return self.log.read_text(errors="replace")[-2000:]


def _started(command: list[str], log: BinaryIO) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, stderr=log)


def _words(process: psutil.Process) -> str:
    with suppress(psutil.NoSuchProcess):
        return " ".join([process.name(), *process.cmdline()])
    return ""


@contextmanager
def besieged(*arguments: str) -> Iterator[Siege]:
    """A service that is ready; it ends with the block, and so does its state.

    Args:
        arguments: further arguments of `rlcm serve`.
    """
    with tempfile.TemporaryDirectory() as folder:
        siege = Siege(Path(folder), free_port(), ("--log-format", "json", *arguments), {})
        siege.keys.update(_make_keys(siege.state))
        siege.start()
        try:
            siege.await_ready()
            yield siege
        finally:
            siege.stop()


def _make_keys(state: Path) -> dict[str, str]:
    database = Database(f"sqlite:///{state / 'rlcm.db'}")
    keys = Keys(database)
    made = {role: keys.create(role, scopes) for role, scopes in SCOPES.items()}
    keys.revoke(made["revoked"][1].id)
    database.close()
    return {role: key for role, (key, _) in made.items()}
