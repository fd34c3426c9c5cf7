"""Labels for a real process, by the commands; and what it remembers after kill -9."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from studies.serving.beside_vllm import free_port

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PATIENCE = 120.0
"""Seconds; this machine may be busy."""
WRONG = 30


@contextmanager
def service(state: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """A process with a scripted engine, killed with -9 at the end."""
    command = [sys.executable, "-m", "tests.service.scripted_rlcm", "serve"]
    command += ["--state", str(state), "--port", str(port), "--audit-share", "1"]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "RLCM_LOG_FORMAT": "json"}
    with (state / "log").open("ab") as log:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stderr=log, stdout=log)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


def until(found: Callable[[], Any]) -> Any:
    """What `found` gives once it gives something."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            if value := found():
                return value
        except httpx.HTTPError:
            pass
        time.sleep(0.1)
    raise AssertionError("it did not happen in time")


def events(client: httpx.Client) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.get("/monitoring").json()["events"]
    return found


def rlcm(*arguments: str) -> str:
    command = [sys.executable, "-c", "from rlcm_serve.cli import main; main()", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_labels_by_command_withdraw_the_guarantee_and_a_killed_service_remembers(
    tmp_path: Path,
) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with httpx.Client(base_url=url, timeout=PATIENCE) as client:

        def ready() -> bool:
            return client.get("/readyz").status_code == 200

        def ask(number: int) -> dict[str, Any]:
            body = {"problem": f"Question {number}?", "alpha": 0.1}
            response = client.post("/solve", json=body)
            assert response.status_code == 200, response.text
            answered: dict[str, Any] = response.json()
            return answered

        with service(tmp_path, port):
            until(ready)
            given = [ask(number) for number in range(WRONG)]
            waiting = json.loads(rlcm("audit", "--service", url, "--json"))
            assert waiting["waiting"] == sum(one["audit"] for one in given) > 0
        labels = tmp_path / "labels.jsonl"
        lines = [{"id": one["id"], "right": False} for one in given if one["audit"]]
        labels.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        with service(tmp_path, port):
            until(ready)
            said = json.loads(rlcm("feedback", str(labels), "--service", url, "--json"))
            assert (said["labelled"], said["unknown"]) == (len(lines), [])
        with service(tmp_path, port):  # takes the lease of the killed one over
            until(ready)
            until(lambda: "withdrawn" in {one["what"] for one in events(client)})
            reason = until(lambda: ask(1000)["no_guarantee_reason"])
            assert reason.startswith("risk alarm at alpha 0.1")
            again = rlcm("feedback", str(labels), "--service", url)
            assert f"{len(lines)} unchanged" in again
        with service(tmp_path, port):
            until(ready)
            assert ask(2000)["no_guarantee_reason"].startswith("risk alarm at alpha 0.1")
            test = client.get("/monitoring").json()["certificates"][0]["levels"][0]["test"]
            assert test["labels"] == len(lines)
