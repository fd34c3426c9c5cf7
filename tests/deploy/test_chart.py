"""The Helm chart, rendered by Helm and held against Kubernetes' own schemas; no cluster runs it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from rlcm_serve.api.server.http_server import LAST_WORDS
from rlcm_serve.settings import Settings

pytestmark = pytest.mark.charts

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy/helm/rlcm-serve"
TOOLS = ROOT / ".charts"
HELM = TOOLS / "helm/helm"
VERSIONS = ("1.30", "1.34", "1.37")
PLAIN = ("database.secret=pg",)
FULL = (
    *PLAIN,
    *(
        "database.key=address",
        "model.claim=models",
        "evidence.claim=proofs",
        "model.name=qwen",
        "hosts={rlcm.example.com}",
    ),
    *("args={--max-n,8}", "vllmArgs={--tensor-parallel-size,2}", "gpus=2", "metrics.open=false"),
    *(
        "metrics.podMonitor=true",
        "metrics.secret=scraper",
        "autoscaling.enabled=true",
        "drainSeconds=90",
    ),
    *("resources.limits.memory=64Gi", "podLabels.team=maths", "nodeSelector.gpu=h200"),
)


def helm(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    assert HELM.exists(), "`make charts` installs Helm"
    return subprocess.run([HELM, *arguments], capture_output=True, text=True, timeout=60)


def rendered(*values: str) -> dict[str, Any]:
    """What the chart makes with these values, by kind."""
    ran = helm("template", "mine", CHART, *(part for one in values for part in ("--set", one)))
    assert ran.returncode == 0, ran.stderr
    return {one["kind"]: one for one in yaml.safe_load_all(ran.stdout) if one}


def container(deployment: dict[str, Any]) -> dict[str, Any]:
    (only,) = deployment["spec"]["template"]["spec"]["containers"]
    return only


def notes(*values: str) -> str:
    """What Helm shows after an install."""
    chosen = (part for one in (*PLAIN, *values) for part in ("--set", one))
    ran = helm("install", "mine", CHART, "--dry-run=client", *chosen)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def overrides(*values: str) -> dict[str, Any]:
    """The pod that the notes make the first key in, but for its image."""
    (found,) = re.findall(r"--overrides='(.*)' -- keys new", notes(*values))
    return json.loads(found)["spec"]


@pytest.mark.parametrize("values", [PLAIN, FULL])
def test_helm_finds_no_fault(values: tuple[str, ...]) -> None:
    ran = helm("lint", "--strict", CHART, *(part for one in values for part in ("--set", one)))
    assert ran.returncode == 0, ran.stdout


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("values", [PLAIN, FULL])
def test_kubernetes_knows_every_field(
    values: tuple[str, ...], version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path, str(TOOLS)])
    from kubernetes_validate import validate

    made = rendered(*values)
    made.pop("PodMonitor", None)  # of the Prometheus operator, not of Kubernetes
    assert {"Deployment", "Service", "PodDisruptionBudget"} <= set(made)
    for one in made.values():
        validate(one, version, strict=True)


def test_a_field_that_kubernetes_does_not_know_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path, str(TOOLS)])
    from kubernetes_validate import ValidationError, validate

    deployment = rendered(*PLAIN)["Deployment"]
    deployment["spec"]["replica"] = 2
    with pytest.raises(ValidationError, match="replica"):
        validate(deployment, VERSIONS[0], strict=True)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ((), "set database.secret to a Secret"),
        ((*PLAIN, "replica=3"), "'replica' not allowed"),
        ((*PLAIN, "replicas=0"), "/replicas"),
        ((*PLAIN, "metrics.podMonitor=true", "metrics.open=false"), "needs a key for /metrics"),
        ((*PLAIN, "autoscaling.enabled=true", "autoscaling.minReplicas=9"), "at least as many"),
    ],
)
def test_values_that_cannot_work_are_refused(values: tuple[str, ...], said: str) -> None:
    ran = helm("template", CHART, *(part for one in values for part in ("--set", one)))
    assert ran.returncode != 0
    assert said in ran.stderr


def test_every_variable_is_a_setting_and_the_values_reach_them() -> None:
    serve = container(rendered(*FULL)["Deployment"])
    variables = {one["name"]: one.get("value") for one in serve["env"]}
    settings = {f"RLCM_{name.upper()}" for name in Settings.model_fields}
    assert set(variables) <= settings
    assert variables["RLCM_MODEL"] == "/models/qwen"
    assert (variables["RLCM_EVIDENCE"], variables["RLCM_EVIDENCE_FOLDER"]) == ("true", "/evidence")
    assert variables["RLCM_SERVED_MODEL_NAMES"] == "qwen"
    assert variables["RLCM_ALLOWED_HOSTS"] == "rlcm.example.com"
    assert variables["RLCM_METRICS_OPEN"] == "false"
    assert serve["args"] == ["serve", "--max-n", "8", "--", "--tensor-parallel-size", "2"]
    assert serve["resources"]["limits"] == {"memory": "64Gi", "nvidia.com/gpu": 2}
    (address,) = [one for one in serve["env"] if one["name"] == "RLCM_DATABASE"]
    assert address["valueFrom"]["secretKeyRef"] == {"name": "pg", "key": "address"}


def test_a_pod_is_given_the_time_to_finish() -> None:
    pod = rendered(*FULL)["Deployment"]["spec"]["template"]["spec"]
    (serve,) = pod["containers"]
    pause = serve["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert pod["terminationGracePeriodSeconds"] >= 90 + pause + LAST_WORDS + 5


def test_a_rollout_may_take_as_long_as_a_start() -> None:
    deployment = rendered(*FULL, "startSeconds=3000")["Deployment"]
    assert deployment["spec"]["progressDeadlineSeconds"] > 3000


def test_the_pod_monitor_has_the_key() -> None:
    (endpoint,) = rendered(*FULL)["PodMonitor"]["spec"]["podMetricsEndpoints"]
    assert endpoint["authorization"] == {"credentials": {"name": "scraper", "key": "key"}}
    (endpoint,) = rendered(*PLAIN, "metrics.podMonitor=true")["PodMonitor"]["spec"][
        "podMetricsEndpoints"
    ]
    assert "authorization" not in endpoint


def test_numbers_among_the_arguments_have_no_exponent(tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text("vllmArgs: [--max-model-len, 1048576]\nargs: [--key-share, 0.5]\n")
    ran = helm("template", CHART, "--set", PLAIN[0], "--values", values)
    made = {one["kind"]: one for one in yaml.safe_load_all(ran.stdout) if one}
    asked = ["serve", "--key-share", "0.5", "--", "--max-model-len", "1048576"]
    assert container(made["Deployment"])["args"] == asked


def test_no_service_of_the_namespace_adds_variables() -> None:
    """A Service named rlcm makes RLCM_SERVICE_HOST, an unknown setting: no replica would start."""
    assert rendered(*PLAIN)["Deployment"]["spec"]["template"]["spec"]["enableServiceLinks"] is False
    assert overrides()["enableServiceLinks"] is False


def test_the_first_key_is_made_where_the_replicas_run() -> None:
    pod = rendered(*FULL)["Deployment"]["spec"]["template"]["spec"]
    made = overrides("nodeSelector.gpu=h200", "imagePullSecrets[0].name=pull")
    (own,), (serve,) = made["containers"], pod["containers"]
    assert own == {"name": "first-key", "securityContext": serve["securityContext"]}
    assert made["securityContext"] == pod["securityContext"]
    assert made["nodeSelector"] == {"gpu": "h200"}
    assert made["imagePullSecrets"] == [{"name": "pull"}]


def test_the_alerts_find_the_job_of_the_pod_monitor() -> None:
    made = rendered(*FULL)
    labels = made["Deployment"]["spec"]["template"]["metadata"]["labels"]
    job = labels[made["PodMonitor"]["spec"]["jobLabel"]]
    alerts = (ROOT / "deploy/prometheus/alerts.yml").read_text(encoding="utf-8")
    assert set(re.findall(r'job="(.*?)"', alerts)) == {job}


def test_probes_ask_routes_that_exist() -> None:
    serve = container(rendered(*PLAIN)["Deployment"])
    asked = {name: serve[f"{name}Probe"]["httpGet"]["path"] for name in ("liveness", "readiness")}
    assert asked == {"liveness": "/health", "readiness": "/readyz"}


def test_it_scales_by_a_metric_that_the_service_has() -> None:
    made = rendered(*FULL)
    (metric,) = made["HorizontalPodAutoscaler"]["spec"]["metrics"]
    listed = (ROOT / "docs/reference/metrics.md").read_text(encoding="utf-8")
    assert f"`{metric['pods']['metric']['name']}`" in listed
    assert "replicas" not in made["Deployment"]["spec"], "the autoscaler's"


def test_the_examples_for_routers_select_the_pods_of_the_chart() -> None:
    labels = rendered(*PLAIN)["Deployment"]["spec"]["template"]["metadata"]["labels"]
    wanted = {
        "app.kubernetes.io/name": labels["app.kubernetes.io/name"],
        "app.kubernetes.io/instance": "rlcm",
    }
    read = {
        file.name: list(yaml.safe_load_all(file.read_text(encoding="utf-8")))
        for file in (ROOT / "deploy/kubernetes").glob("*.yaml")
    }
    pool = next(one for one in read["inference-pool.yaml"] if one["kind"] == "InferencePool")
    assert pool["spec"]["selector"]["matchLabels"] == wanted
    (llm_d,) = read["llm-d-values.yaml"]
    assert llm_d["inferencePool"]["modelServers"]["matchLabels"] == wanted
    (router,) = read["production-stack-router.yaml"]
    selector = ",".join(f"{name}={value}" for name, value in wanted.items())
    assert f"--k8s-label-selector={selector}" in container(router)["args"]
    port = container(rendered(*PLAIN)["Deployment"])["ports"][0]["containerPort"]
    assert pool["spec"]["targetPorts"] == [{"number": port}]


def test_the_chart_has_the_version_of_the_package() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert (chart["version"], chart["appVersion"]) == (project["version"],) * 2


def test_the_notes_say_how_to_make_the_first_key() -> None:
    (command,) = re.findall(r"-- (keys new .*)", notes())
    assert command == "keys new --name first --scope admin --scope solve"
