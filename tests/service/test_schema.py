"""The OpenAPI document: complete, and true of the service as schemathesis finds it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from calibration import ExitPolicy
from rlcm_serve.settings import Settings
from tests.rlcm_serve.scripted_engine import Script, certificate
from tests.service.listening import listening

HERE = Path(__file__).parent
ONE = certificate({0.05: None, 0.1: ExitPolicy(lambda_high=0.9), 0.2: ExitPolicy(lambda_high=0.8)})
METHODS = ("get", "post", "put", "patch", "delete")
NEVER_ACCEPTED = {"POST /certificates"}
"""A certificate has a digest and a fingerprint, which no random body has."""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Where a service listens that asks for keys, and a key that may do everything."""
    state = tmp_path_factory.mktemp("state")
    ONE.save(state / "one.json")
    # The name in the document's examples, which schemathesis sends.
    settings = Settings(state=state, auth="on", served_model_names=["embedded"])
    script = Script(c_end=0.6)
    with listening(state, script, certificates=[state / "one.json"], settings=settings) as (
        url,
        running,
    ):
        key, _ = running.context.keys.create("schemathesis", ["solve", "admin"])
        yield url, key


@pytest.fixture(scope="module")
def document(service: tuple[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = httpx.get(f"{service[0]}/openapi.json").json()
    return found


def accepted(report: Path) -> Iterator[str]:
    """The operations of the requests in a report of schemathesis that got a 2xx."""
    for line in report.read_text().splitlines():
        recorder = json.loads(line).get("ScenarioFinished", {}).get("recorder", {})
        for id_, answered in recorder.get("interactions", {}).items():
            if answered["response"] and answered["response"]["status_code"] < 300:
                case = recorder["cases"][id_]["value"]
                yield f"{case['method']} {case['path']}"


@pytest.mark.slow
def test_schemathesis_finds_nothing(
    service: tuple[str, str], document: dict[str, Any], tmp_path: Path
) -> None:
    """No request shows a fault, and of every operation with a body some are accepted."""
    url, key = service
    report = tmp_path / "report.ndjson"
    command = [Path(sys.executable).with_name("schemathesis"), "--config-file"]
    to_report = ["--report", "ndjson", "--report-ndjson-path", report]
    run = subprocess.run(
        [*command, HERE / "schemathesis.toml", "run", f"{url}/openapi.json", *to_report],
        cwd=HERE.parent.parent,
        env=os.environ | {"RLCM_TEST_KEY": key},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert run.returncode == 0, run.stdout[-20_000:] + run.stderr[-2000:]
    assert "No issues found" in run.stdout
    with_body = {name for name, one in operations(document) if "requestBody" in one}
    assert with_body - set(accepted(report)) == NEVER_ACCEPTED


def nodes(node: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """All objects of the document; examples are none of its own."""
    if isinstance(node, dict):
        yield path, node
        for name, child in node.items():
            if name not in ("example", "examples"):
                yield from nodes(child, f"{path}/{name}")
    elif isinstance(node, list):
        for number, child in enumerate(node):
            yield from nodes(child, f"{path}/{number}")


def test_every_field_is_described_with_an_example(document: dict[str, Any]) -> None:
    fields = {
        f"{path}/{name}": field
        for path, node in nodes(document)
        if node.get("type") == "object" and isinstance(node.get("properties"), dict)
        for name, field in node["properties"].items()
    }
    assert len(fields) > 100, "the walk finds the fields"
    silent = [
        path
        for path, field in fields.items()
        if not (field.get("description") or "$ref" in field)  # no second time what the type says
        or not ("examples" in field or "const" in field)
    ]
    assert silent == []


def operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, item in document["paths"].items():
        for method in METHODS:
            if method in item:
                yield f"{method.upper()} {path}", item[method]


def test_every_parameter_is_described_with_an_example(document: dict[str, Any]) -> None:
    silent = [
        f"{name}: {parameter['name']}"
        for name, operation in operations(document)
        for parameter in operation.get("parameters", [])
        if not parameter.get("description")
        or not {"example", "examples"} & (parameter.keys() | parameter["schema"].keys())
    ]
    assert silent == []


def test_every_operation_is_described_with_its_errors(document: dict[str, Any]) -> None:
    found = dict(operations(document))
    asked = {"POST /solve", "POST /v1/chat/completions", "POST /v1/responses", "POST /aggregate"}
    assert asked <= found.keys()
    for name, operation in found.items():
        assert operation["summary"], name
        assert operation["description"], name
        assert operation["tags"], name
        errors = {status for status in operation["responses"] if not status.startswith("2")}
        if operation.get("security"):
            assert "401" in errors, name
        if "requestBody" in operation:
            assert {"413", "415"} <= errors, name
        for status in errors:
            response = operation["responses"][status]
            kinds = ["application/json"] if " /v1/" in name else ["application/problem+json"]
            assert list(response["content"]) == kinds, (name, status)
            assert response["description"], (name, status)


def test_what_takes_keys_says_so(document: dict[str, Any]) -> None:
    open_ = {name for name, operation in operations(document) if not operation.get("security")}
    assert open_ == {"GET /health", "GET /readyz", "GET /metrics"}
