"""What an operator reads in the log when vLLM's process is killed under a question."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.served import SECONDS_TO_READY, Served, serving, wait_for
from tests.service.clients import LONG, until

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("log")) as running:
        yield running


def lines(service: Served) -> list[dict[str, Any]]:
    """The log on stderr; every line of it is JSON."""
    return [json.loads(line) for line in service.log.read_text().splitlines()]


def test_the_log_of_a_killed_engine_says_what_happened(
    service: Served, threads: ThreadPoolExecutor
) -> None:
    core, before = service.engine_core(), len(lines(service))
    names: list[str] = []
    asked = threads.submit(lambda: names.extend(name for name, _ in service.stream(**LONG)))
    until(lambda: "checkpoint" in names)

    core.kill()

    asked.result(timeout=60)
    assert names[-1] == "error"
    until(lambda: service.metric("rlcm_engine_restarts_total") == 1, SECONDS_TO_READY)
    wait_for(service.client, "/readyz", SECONDS_TO_READY)
    since = lines(service)[before:]

    (died,) = [line for line in since if line["level"] == "error"]
    assert died["message"].startswith(f"the engine died: EngineCore (process {core.pid}) was ")
    assert "ended by SIGKILL" in died["message"]
    assert "vLLM logged no error: its last line is '" in died["message"]
    assert f" pid={service.process.pid}) " not in died["message"], "the service's own line"

    (access,) = [line for line in since if line["logger"] == "rlcm_serve.access"]
    assert (access["level"], access["status"]) == ("warning", 200)
    assert (access["outcome"], access["error"]) == ("failed", "engine-dead")

    stages = [line["message"] for line in since if line["logger"] == "rlcm_serve"]
    assert stages[0].startswith("restarting the engine: attempt 1 of 10 begins in ")
    assert all(stage.startswith("restarting the engine: ") for stage in stages[:-1])
    assert stages[-1] == "ready"
    assert service.output.read_text() == "", "stdout is for results"
