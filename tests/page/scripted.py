"""The whole app around a scripted engine, in a separate process that can be killed.

`python -m tests.page.scripted FOLDER PORT` serves. The engine is slow enough to be watched, and
what it writes is what a page must not believe: markup.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx

from calibration import REGRET, Certificate, ExitPolicy, Kind
from calibration.certificate.wording import covers, does_not_cover
from rlcm_serve.api.server.http_server import HttpServer, listen
from rlcm_serve.core import Delta
from rlcm_serve.settings import Settings
from rlcm_serve.store.caller import Scope
from rlcm_serve.store.database import Database
from rlcm_serve.store.keys import Keys
from tests.rlcm_serve.api.serving import Running
from tests.rlcm_serve.scripted_engine import Script, ScriptedEngine, certificate
from tests.served import free_port, wait_for

SECONDS_PER_CHECKPOINT = 0.4
MARKUP = (
    '<img src="page/none.png" onerror="document.title=1"> <b>bold</b> <script>alert(1)</script> '
    r"\[ \href{javascript:alert(1)}{x^2} \] $\frac{1}{2} + \text{<i>i</i>}$ & "
)
KINDS = ("algebra", "geometry", "logic")
ANSWER = '<a href="#/operate">7</a>'


class SlowEngine(ScriptedEngine):
    """Writes `MARKUP` at every checkpoint, slowly."""

    async def think(self, *given: Any, **named: Any) -> Any:
        async for event in super().think(*given, **named):
            if isinstance(event, Delta) and not event.is_answer:
                await asyncio.sleep(SECONDS_PER_CHECKPOINT)
                event = replace(event, text=MARKUP if event.text else "")
            yield event


class ScriptedProcess:
    """A service in a separate process; a restart keeps its address and its key."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = free_port()
        self.url = f"http://127.0.0.1:{self._port}"
        database = Database(_database(folder))
        self.key, _ = Keys(database).create("a visitor", [Scope.SOLVE])
        database.close()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts the service and waits until it is ready."""
        command = [sys.executable, "-m", "tests.page.scripted", str(self._folder), str(self._port)]
        with (self._folder / "service.log").open("ab") as log:
            self._process = subprocess.Popen(command, stderr=log)
        with httpx.Client(base_url=self.url) as client:
            wait_for(client, "/readyz", 120)

    def kill(self) -> None:
        """Kills the service without a graceful shutdown."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


def _database(folder: Path) -> str:
    return f"sqlite:///{folder / 'rlcm.db'}"


def _scripts() -> Sequence[Script]:
    rising = Script(confidences=(0.3, 0.4, 0.6, 0.97), ends_at=None, forced=f"{ANSWER}}}")
    ending = Script(confidences=(0.3, 0.5), ends_at=90, c_end=0.8, own=rf"\boxed{{{ANSWER}}}")
    return [rising, ending]


def _of_kinds() -> list[Certificate]:
    """Certificates for another risk, which tell kinds of questions apart."""
    made = certificate({0.1: ExitPolicy(lambda_high=0.9, answer_on_low=True)}, risk="regret")
    kinds = [Kind("topic", name, KINDS, (), delta=0.4) for name in (None, *KINDS)]
    return [
        replace(
            made,
            kind=kind,
            covers=covers(REGRET, kind.delta, made.promise, made.p_value, of_kind=kind),
            does_not_cover=does_not_cover(REGRET, of_kind=kind),
        )
        for kind in kinds
    ]


def main(folder: Path, port: int) -> None:
    """Serves, with keys, until it is killed."""
    made = [certificate({0.05: None, 0.1: ExitPolicy(lambda_high=0.9)}), *_of_kinds()]
    files = [folder / f"certificate-{number}.json" for number in range(len(made))]
    for one, file in zip(made, files, strict=True):
        one.save(file)
    settings = Settings(state=folder, auth="on")
    running = Running(SlowEngine(*_scripts()), folder, files, settings)
    running.engine.started.set()

    def build(fail: Any) -> Any:
        return running.app

    HttpServer(build, _at_once).run(listen("127.0.0.1", port))


async def _at_once() -> None:
    """Ends at once: there are no requests to wait for."""


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
