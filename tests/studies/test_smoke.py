"""Every study starts, and goes through the same code as for its published figures."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = (
    "evaluation.aggregation",
    "gpu",
    "gpu.machine",
    "evaluation.evaluation_speed",
    "evaluation.grading_pairs",
    "evaluation.familiarity_study",
    "evaluation.grading_study",
    "serving.evidence_cost",
    "serving.fleet",
    "serving.first_light",
    "serving.monitoring_cost",
    "serving.statistics_cost",
    "serving.store_cost",
    "statistics.asked_again",
    "statistics.betting_power",
    "statistics.calibration_speed",
    "statistics.fewer_labels",
    "statistics.kinds",
    "statistics.mapie_comparison",
    "statistics.monitoring",
    "statistics.power_study",
    "statistics.power_tables",
    "statistics.vote_stop_study",
    "paper report",
)
ON_AN_ENGINE = (
    "gpu.training_speed",
    "serving.beside_vllm",
    "serving.live_risk",
    "serving.load",
    "serving.channels",
    "serving.overhead",
    "serving.service_overhead",
    "serving.siege crowd",
    "serving.siege fuzz",
    "serving.siege kill",
    "serving.siege soak",
    "paper run",
    "paper all",
    "paper.primary run",
    "paper.within run",
)
ON_RAY = ("serving.ray_overhead",)
"""Need Ray: `make test-ray`."""
ON_V2 = ("serving.speculation",)
"""Need vLLM's V2 model runner: `make test-v2`."""


@pytest.mark.parametrize(
    "script",
    [
        *(pytest.param(script, marks=pytest.mark.studies) for script in SCRIPTS + ON_AN_ENGINE),
        *(pytest.param(script, marks=pytest.mark.ray) for script in ON_RAY),
        *(pytest.param(script, marks=pytest.mark.v2) for script in ON_V2),
    ],
)
def test_a_study_runs_and_leaves_the_repository_as_it_was(script: str) -> None:
    before = changes()
    command = [sys.executable, "-m", *f"studies.{script} --smoke".split()]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    assert done.stdout.strip()
    assert changes() == before


def test_every_script_is_here() -> None:
    scripts = {
        ".".join(path.relative_to(ROOT / "studies").with_suffix("").parts)
        for path in (ROOT / "studies").rglob("*.py")
        if "\nif __name__ ==" in path.read_text()
    }
    tested = {script.split()[0] for script in (*SCRIPTS, *ON_AN_ENGINE, *ON_RAY, *ON_V2)}
    assert {name.removesuffix(".__main__") for name in scripts} == tested


def changes() -> str:
    """What git sees as changed or new."""
    command = ["git", "status", "--porcelain"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
