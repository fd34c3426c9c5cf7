"""Rules and dashboard in a real Prometheus, where it is installed (Debian's package prometheus)."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from rlcm_serve.store.caller import Scope
from rlcm_serve.store.database import Database
from rlcm_serve.store.keys import Keys
from tests.deploy.alert_series import FIRING, GONE, QUIET, REPLACED, UP
from tests.deploy.everything import exposition
from tests.deploy.test_deploy import DASHBOARD, DEPLOY, RULES, expressions
from tests.page.scripted import ScriptedProcess
from tests.served import free_port

PROGRAMS = ("promtool", "prometheus")
MISSING = [name for name in PROGRAMS if shutil.which(name) is None]
pytestmark = [
    pytest.mark.skipif(
        bool(MISSING),
        reason=f"{' and '.join(MISSING)} not on the PATH: Debian's package prometheus has both",
    ),
]
PATIENCE = 120


def promtool(*arguments: str | Path) -> str:
    done = subprocess.run(["promtool", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_promtool_accepts_configuration_and_rules() -> None:
    assert f"{len(RULES)} rules found" in promtool(
        "check", "config", DEPLOY / "prometheus/prometheus.yml"
    )


def firing(
    series: Mapping[str, str], expected: Mapping[str, int], within: str = "2h"
) -> dict[str, Any]:
    """A test that these alerts, and no others, fire in the last minutes or hours of two hours.

    Prometheus reaches the service, unless the series say otherwise.
    """
    given = UP | dict(series)
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in given.items()],
        "promql_expr_test": [
            {
                "expr": "sum by (alertname) "
                f'(max_over_time(ALERTS{{alertstate="firing"}}[{within}]))',
                "eval_time": "2h",
                "exp_samples": [
                    {"labels": f'{{alertname="{name}"}}', "value": count}
                    for name, count in expected.items()
                ],
            }
        ],
    }


def test_each_alert_fires_on_its_series_alone_and_none_on_a_service_that_is_well(
    tmp_path: Path,
) -> None:
    assert set(FIRING) == {rule["alert"] for rule in RULES}
    tests = [
        *(firing(QUIET, {}), firing(REPLACED, {}, within="10m"), firing(GONE, {"RlcmDown": 1})),
        *(firing(series, {name: 1}) for name, series in FIRING.items()),
    ]
    file = tmp_path / "tests.yml"
    rules = str(DEPLOY / "prometheus/alerts.yml")
    file.write_text(yaml.safe_dump({"rule_files": [rules], "tests": tests}), encoding="utf-8")
    promtool("test", "rules", file)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The address of a service with a scripted engine that has had traffic, and a key to read."""
    folder = tmp_path_factory.mktemp("service")
    process = ScriptedProcess(folder)
    database = Database(f"sqlite:///{folder / 'rlcm.db'}")
    key, _ = Keys(database).create("prometheus", [Scope.METRICS])
    database.close()
    process.start()
    headers = {"Authorization": f"Bearer {process.key}"}
    with httpx.Client(base_url=process.url, headers=headers, timeout=PATIENCE) as client:
        for alpha in (0.1, 0.05):
            client.post("/solve", json={"problem": "1 + 1?", "alpha": alpha, "stream": True})
        client.post("/solve", json={"problem": "1 + 1?", "alpha": 7})
    yield process.url.removeprefix("http://"), key
    process.kill()


@pytest.fixture(scope="module")
def everything() -> Iterator[str]:
    """The address of the exposition of a service to which everything has happened."""
    text = exposition().encode()

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def prometheus(
    service: tuple[str, str], everything: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[httpx.Client]:
    """A Prometheus that scrapes both every second."""
    folder = tmp_path_factory.mktemp("prometheus")
    url, key = service
    config = yaml.safe_load((DEPLOY / "prometheus/prometheus.yml").read_text(encoding="utf-8"))
    (job,) = config["scrape_configs"]
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config["rule_files"] = [str(DEPLOY / "prometheus/alerts.yml")]
    job["static_configs"] = [{"targets": [url, everything]}]
    job["authorization"] = {"credentials": key}
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config), encoding="utf-8")
    address = f"127.0.0.1:{free_port()}"
    command = ["prometheus", "--config.file=prometheus.yml", f"--web.listen-address={address}"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [*command, f"--storage.tsdb.path={folder / 'data'}"], cwd=folder, stderr=log
        )
    with httpx.Client(base_url=f"http://{address}", timeout=PATIENCE) as client:
        until(lambda: ready(client))
        until(lambda: len(asked(client, "up == 1")) == 2)
        yield client
    process.terminate()
    process.wait()


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def ready(client: httpx.Client) -> bool:
    try:
        return client.get("/-/ready").status_code == 200
    except httpx.TransportError:
        return False


def asked(client: httpx.Client, query: str) -> list[Any]:
    answer = client.get("/api/v1/query", params={"query": query}).json()
    assert answer["status"] == "success", (query, answer)
    found: list[Any] = answer["data"]["result"]
    return found


def with_variables(expression: str) -> str:
    """The expression as Grafana sends it with every instance and route chosen."""
    text = expression.replace("$__rate_interval", "1m")
    return re.sub(r"\$(instance|route|model)", ".*", text)


def test_every_query_of_the_dashboard_finds_series(prometheus: httpx.Client) -> None:
    """vLLM's own metrics come from vLLM alone: their queries are only parsed."""
    panels = {panel["title"] for panel in DASHBOARD["panels"]}
    queries = {with_variables(expression) for place, expression in expressions() if place in panels}
    ours = {query for query in queries if "vllm:" not in query}
    assert len(ours) > 60
    until(lambda: all(asked(prometheus, query) for query in ours))
    for query in queries - ours:
        asked(prometheus, query)


def test_the_variables_find_model_and_instances(
    prometheus: httpx.Client, service: tuple[str, str], everything: str
) -> None:
    queries = {one["name"]: one["query"]["query"] for one in DASHBOARD["templating"]["list"]}
    assert set(queries) == {"model", "instance", "route"}
    for name, query in queries.items():
        series, label = re.fullmatch(r"label_values\((.*), (\w+)\)", query).groups()  # type: ignore[union-attr]
        answer = prometheus.get(
            f"/api/v1/label/{label}/values", params={"match[]": with_variables(series)}
        ).json()
        assert answer["data"], name
        if name == "instance":
            assert set(answer["data"]) == {service[0], everything}


def test_the_alarm_of_a_monitor_fires_its_alert(prometheus: httpx.Client) -> None:
    """The exposition has an alarm of drift."""

    def fired() -> bool:
        found = asked(prometheus, 'ALERTS{alertstate="firing"}')
        return [one["metric"]["alertname"] for one in found] == ["RlcmDriftAlarm"]

    until(fired)
    rules = prometheus.get("/api/v1/rules").json()["data"]["groups"][0]["rules"]
    assert {rule["health"] for rule in rules} == {"ok"}, json.dumps(rules)
