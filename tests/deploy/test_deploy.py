"""What can be checked of deploy/ without Docker, Prometheus and Grafana."""

import importlib.util
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from rlcm_serve.settings import Settings
from tests.deploy.everything import exposition

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
DASHBOARD = json.loads((DEPLOY / "grafana/dashboards/rlcm-serve.json").read_text(encoding="utf-8"))

OF_PROMETHEUS = {"job", "instance", "namespace"}
"""Labels that Prometheus adds to every series; the last one in Kubernetes."""
METRIC = re.compile(r"\b(?:(?:rlcm|process)_|vllm:)[a-z0-9_]+|\bup\b")
SELECTOR = re.compile(r"\b((?:(?:rlcm|process)_|vllm:)[a-z0-9_]+|up)\{([^}]*)\}")
VLLM_LABELS = {"model_name", "engine"}
GROUPING = re.compile(r"\bby \(([^)]*)\)")


def parsed(name: str) -> Any:
    return yaml.safe_load((DEPLOY / name).read_text(encoding="utf-8"))


COMPOSE = parsed("compose.yaml")
RULES = [rule for group in parsed("prometheus/alerts.yml")["groups"] for rule in group["rules"]]
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


def expressions() -> Iterator[tuple[str, str]]:
    """Every PromQL expression, with where it stands."""
    for rule in RULES:
        yield rule["alert"], rule["expr"]
    for panel in PANELS:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]
    for annotation in DASHBOARD["annotations"]["list"]:
        yield annotation["name"], annotation["expr"]


def vllm_series() -> set[str]:
    """The series that vLLM defines, read from its source: its import takes ten seconds."""
    package = importlib.util.find_spec("vllm")
    assert package is not None
    assert package.origin is not None
    source = (Path(package.origin).parent / "v1/metrics/loggers.py").read_text(encoding="utf-8")
    names = re.findall(r'"(vllm:[a-z0-9_]+)"', source)
    ends = ("", "_total", "_bucket", "_sum", "_count")
    return {name + end for name in names for end in ends}


@pytest.fixture(scope="module")
def exported() -> dict[str, set[str]]:
    """The labels of every series the service exports once everything has happened."""
    labels: dict[str, set[str]] = {"up": set()} | dict.fromkeys(vllm_series(), VLLM_LABELS)
    for family in text_string_to_metric_families(exposition()):
        for sample in family.samples:
            labels.setdefault(sample.name, set()).update(sample.labels)
    return labels


@pytest.mark.parametrize(("place", "expression"), expressions())
def test_what_is_asked_for_is_exported(
    exported: dict[str, set[str]], place: str, expression: str
) -> None:
    names = set(METRIC.findall(expression))
    assert names, "an expression without a metric"
    assert names <= set(exported), place
    for name, matchers in SELECTOR.findall(expression):
        for matcher in matchers.split(", "):
            label = re.match(r"(\w+)(?:=|!=|=~|!~)\"[^\"]*\"$", matcher)
            assert label is not None, matcher
            assert label[1] in exported[name] | OF_PROMETHEUS, matcher
    known = {"le"}.union(OF_PROMETHEUS, *(exported[name] for name in names))
    for grouped in GROUPING.findall(expression):
        assert set(grouped.split(", ")) <= known, grouped


@pytest.mark.parametrize(("place", "expression"), expressions())
def test_expressions_are_well_formed_as_far_as_brackets_tell(place: str, expression: str) -> None:
    unquoted = re.sub(r'"[^"]*"', '""', expression)
    open_brackets: list[str] = []
    for character in unquoted:
        if character in "([{":
            open_brackets.append({"(": ")", "[": "]", "{": "}"}[character])
        elif character in ")]}":
            assert open_brackets, place
            assert open_brackets.pop() == character, place
    assert not open_brackets, place


@pytest.mark.parametrize(("place", "expression"), expressions())
def test_histograms_are_asked_for_what_came_within_a_time(place: str, expression: str) -> None:
    for name in set(METRIC.findall(expression)):
        if name.endswith(("_bucket", "_sum", "_count")):
            over_time = rf"(?:rate|increase)\({name}(?:{{[^}}]*}})?\["
            assert re.search(over_time, expression), place
    if "histogram_quantile" in expression:
        assert "by (le)" in expression, place


def test_every_family_of_the_service_has_a_panel(exported: dict[str, set[str]]) -> None:
    asked = [target["expr"] for panel in PANELS for target in panel["targets"]]
    shown = {name for expression in asked for name in METRIC.findall(expression)}
    families = {re.sub(r"_(bucket|sum|count)$", "", name) for name in exported}
    families_shown = {re.sub(r"_(bucket|sum|count)$", "", name) for name in shown}
    assert {name for name in families if name.startswith("rlcm_")} <= families_shown


def test_the_documentation_lists_every_family(exported: dict[str, set[str]]) -> None:
    text = (ROOT / "docs/reference/metrics.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"`(rlcm_[a-z_]+)`", text))
    families = {re.sub(r"_(bucket|sum|count)$", "", name) for name in exported}
    assert {name for name in families if name.startswith("rlcm_")} == listed


def test_panels_are_named_and_do_not_overlap() -> None:
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    titles = [panel["title"] for panel in PANELS]
    assert all(titles)
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert place["x"] + place["w"] <= 24
        assert not cells & taken, panel["title"]
        taken |= cells


def test_panels_and_provisioning_mean_the_same_data_source() -> None:
    (source,) = parsed("grafana/provisioning/datasources/prometheus.yml")["datasources"]
    used = {target["datasource"]["uid"] for panel in PANELS for target in panel["targets"]} | {
        panel["datasource"]["uid"] for panel in PANELS
    }
    assert used == {source["uid"]}
    assert source["url"] == "http://prometheus:9090"


def test_alerts_say_how_bad_it_is_and_what_it_means() -> None:
    names = [rule["alert"] for rule in RULES]
    assert len(set(names)) == len(names)
    for rule in RULES:
        assert rule["labels"]["severity"] in ("page", "ticket")
        assert rule["annotations"]["summary"].endswith(".")


def test_every_alert_has_a_runbook_and_every_runbook_an_alert() -> None:
    page = "docs/guides/runbooks.md"
    text = (ROOT / page).read_text(encoding="utf-8")
    named = {rule["alert"]: rule["annotations"]["runbook"] for rule in RULES}
    assert named == {
        name: f"{page}#{name.lower()}" for name in re.findall(r"^### (\w+)$", text, re.M)
    }


def test_every_panel_shows_the_instances_that_are_chosen() -> None:
    for panel in PANELS:
        for target in panel["targets"]:
            expression = target["expr"]
            chosen = re.findall(r'{instance=~"\$instance"', expression)
            assert len(chosen) == len(METRIC.findall(expression)), panel["title"]


def test_prometheus_reads_the_rules_and_scrapes_the_service() -> None:
    config = parsed("prometheus/prometheus.yml")
    assert [DEPLOY / "prometheus" / name for name in config["rule_files"]] == [
        DEPLOY / "prometheus/alerts.yml"
    ]
    (scrape,) = config["scrape_configs"]
    assert scrape["job_name"] == "rlcm-serve"
    ((target,),) = [found["targets"] for found in scrape["static_configs"]]
    service, port = target.split(":")
    assert COMPOSE["services"][service]["environment"]["RLCM_PORT"] == port


def test_what_is_mounted_exists_and_every_volume_is_declared() -> None:
    named = set()
    for service in COMPOSE["services"].values():
        for volume in service["volumes"]:
            source = volume.split(":")[0]
            if source.startswith("."):
                assert (DEPLOY / source).exists(), source
                assert volume.endswith(":ro"), volume
            else:
                named.add(source)
    assert named == set(COMPOSE["volumes"])


def test_the_dashboards_folder_is_the_one_grafana_reads() -> None:
    (provider,) = parsed("grafana/provisioning/dashboards/rlcm-serve.yml")["providers"]
    grafana = COMPOSE["services"]["grafana"]
    mounts = {inside: source for source, inside, *_ in (v.split(":") for v in grafana["volumes"])}
    assert mounts[provider["options"]["path"]] == "./grafana/dashboards"
    home = grafana["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert (DEPLOY / "grafana/dashboards" / Path(home).name).exists()


def test_images_are_pinned_and_ports_are_on_loopback() -> None:
    for name, service in COMPOSE["services"].items():
        assert "build" in service or re.search(r":v?\d+\.\d+\.\d+$", service["image"]), name
        assert all(port.startswith("127.0.0.1:") for port in service["ports"]), name


def test_the_image_is_built_from_a_target_of_the_dockerfile() -> None:
    build = COMPOSE["services"]["rlcm"]["build"]
    dockerfile = (DEPLOY / build["context"] / "Dockerfile").read_text(encoding="utf-8")
    assert f" AS {build['target']}\n" in dockerfile
    # Options of `serve` behind the image's name replace CMD, and the port must stay reachable.
    assert "RLCM_HOST=0.0.0.0" in dockerfile
    assert 'CMD ["serve"]' in dockerfile
    for argument in build["args"]:
        assert f"ARG {argument}=" in dockerfile
    user = re.search(r"useradd --create-home --uid \d+ (\w+)", dockerfile)
    assert user is not None
    # A named volume takes over the owner of the folder it first lies on.
    assert f"home:/home/{user[1]}" in COMPOSE["services"]["rlcm"]["volumes"]


def test_the_service_is_given_settings_that_it_knows() -> None:
    given = COMPOSE["services"]["rlcm"]["environment"]
    names = {name.removeprefix("RLCM_").lower() for name in given}
    assert names <= set(Settings.model_fields)
    settings = Settings(host=given["RLCM_HOST"], port=int(given["RLCM_PORT"]))
    assert settings.keys_needed
    grace = int(COMPOSE["services"]["rlcm"]["stop_grace_period"].removesuffix("s"))
    assert grace > settings.drain_s


def thresholds(title: str) -> list[float]:
    """The values at which the first such panel changes its colour; those of single series too."""
    panel = next(panel for panel in PANELS if panel["title"] == title)
    config = panel["fieldConfig"]
    found = [config["defaults"].get("thresholds", {"steps": []})]
    for override in config["overrides"]:
        found += [each["value"] for each in override["properties"] if each["id"] == "thresholds"]
    return [step["value"] for one in found for step in one["steps"] if step["value"] is not None]


def test_panels_turn_red_where_an_alert_would() -> None:
    """The same numbers as in the rules."""
    rules = {rule["alert"]: rule["expr"] for rule in RULES}
    assert rules["RlcmEngineDown"] == "rlcm_engine_up == 0"
    assert thresholds("Engine") == [1]
    assert rules["RlcmNothingPromised"].startswith("rlcm_certificates == 0")
    assert thresholds("Active certificates") == [1]
    assert rules["RlcmRiskAlarm"].endswith("== 1")
    assert thresholds("Alarms") == [1]
    assert rules["RlcmMonitoringStands"].endswith("> 300")
    assert thresholds("Age of the oldest waiting answer, and of the last look") == [300]


def test_lines_of_reference_are_dashed() -> None:
    """Calibration's figures, limits and thresholds, beside what is measured."""
    for panel in PANELS:
        names = [target.get("legendFormat", "") for target in panel["targets"]]
        reference = [
            name for name in names if re.search("promised|calibration|threshold|limit", name)
        ]
        if panel["type"] == "timeseries" and reference:
            matchers = [
                override["matcher"]["options"] for override in panel["fieldConfig"]["overrides"]
            ]
            assert "/promised|calibration|threshold|limit/" in matchers, panel["title"]
