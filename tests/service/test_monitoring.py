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

from calibration import ExitPolicy
from tests.rlcm_serve.scripted_engine import certificate
from tests.served import free_port

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PATIENCE = 120.0
"""Seconds; this machine may be busy."""
WRONG = 30


@contextmanager
def service(state: Path, port: int, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process with a scripted engine, killed with -9 at the end."""
    command = [sys.executable, "-m", "tests.service.scripted_rlcm", "serve"]
    command += ["--state", str(state), "--port", str(port), "--audit-share", "1", *arguments]
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


def test_after_an_alarm_the_policy_of_a_smaller_level_serves_on_without_a_guarantee(
    tmp_path: Path,
) -> None:
    """Early exits are at the first reading for alpha .2, at the second for .1."""
    thresholds = {0.05: 0.975, 0.1: 0.9, 0.2: 0.5}
    policies = {alpha: ExitPolicy(lambda_high=high) for alpha, high in thresholds.items()}
    made = certificate(policies)
    made.save(tmp_path / "levels.json")
    arguments = "--certificate", str(tmp_path / "levels.json"), "--risk-alarm", "smaller-level"
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with httpx.Client(base_url=url, timeout=PATIENCE) as client:

        def ask(number: int, alpha: float = 0.2) -> dict[str, Any]:
            body = {"problem": f"Question {number}?", "alpha": alpha}
            response = client.post("/solve", json=body)
            assert response.status_code == 200, response.text
            answered: dict[str, Any] = response.json()
            return answered

        def early(alpha: float) -> dict[str, Any]:
            """The first of these questions that ends early with an answer."""
            found = (ask(number, alpha) for number in range(1000, 1030))
            return next(one for one in found if one["exit"] == "high")

        with service(tmp_path, port, *arguments):
            until(lambda: client.get("/readyz").status_code == 200)
            given = [ask(number) for number in range(WRONG)]
            tokens = {one["usage"]["reasoning_tokens"] for one in given if one["exit"] == "high"}
            labels = [{"id": one["id"], "right": False} for one in given]
            assert client.post("/feedback", json={"answers": labels}).status_code == 200
            until(lambda: "withdrawn" in {one["what"] for one in events(client)})
            until(lambda: ask(1000)["no_guarantee_code"] == "withdrawn")
        with service(tmp_path, port, *arguments):  # stays so after kill -9
            until(lambda: client.get("/readyz").status_code == 200)
            by_alpha = {alpha: early(alpha) for alpha in (0.1, 0.2, 0.3)}
            smallest = ask(2000, 0.05)
            shown = client.get("/monitoring").json()
    assert {one["guarantee"] for one in by_alpha.values()} == {None}
    (first,) = tokens
    spent = {a: one["usage"]["reasoning_tokens"] // first for a, one in by_alpha.items()}
    assert spent == {0.1: 2, 0.2: 2, 0.3: 2}
    reason = by_alpha[0.2]["no_guarantee_reason"]
    assert reason.startswith("risk alarm at alpha 0.2: ")
    assert reason.endswith("with the policy of alpha 0.1 until a fresh certificate is active")
    assert "with the policy of alpha 0.05" in smallest["no_guarantee_reason"]
    actions = {one["what"]: one["action"] for one in shown["events"]}
    assert actions["risk_alarm"] == actions["withdrawn"] == "smaller-level"
    (watched,) = shown["certificates"]
    assert watched["guarantee"] == "withdrawn"
    assert "levels below alpha 0.2" in watched["why"]
