"""The public names exist, and importing a package loads nothing heavy."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType

import pytest

import calibration
import rlcm_serve


@pytest.mark.parametrize("name", rlcm_serve.__all__)
def test_every_public_name_of_the_service_is_there(name: str) -> None:
    assert getattr(rlcm_serve, name).__name__ == name


@pytest.mark.parametrize("package", [calibration, rlcm_serve], ids=lambda package: package.__name__)
def test_the_list_is_complete(package: ModuleType) -> None:
    assert sorted(package.__all__) == sorted(package._HOME_OF)


@pytest.mark.parametrize("name", calibration.__all__)
def test_every_public_name_of_calibration_is_there(name: str) -> None:
    assert getattr(calibration, name) is not None


@pytest.mark.parametrize("package", [calibration, rlcm_serve], ids=lambda package: package.__name__)
def test_unknown_names_are_refused(package: ModuleType) -> None:
    with pytest.raises(AttributeError, match="nothing"):
        _ = package.nothing


def test_the_exit_rule_loads_neither_scipy_nor_pyarrow() -> None:
    heavy = "{'scipy', 'pyarrow', 'matplotlib'}"
    check = f"import sys; from calibration import step; print({heavy} & set(sys.modules))"
    command = [sys.executable, "-P", "-c", check]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "set()"


def test_importing_the_package_loads_no_torch_and_no_vllm() -> None:
    check = "import sys, rlcm_serve, rlcm_serve.cli; print({'torch', 'vllm'} & set(sys.modules))"
    command = [sys.executable, "-P", "-c", check]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "set()"
