"""The direction of imports: studies -> training -> rlcm_serve -> calibration, never back.

Every import statement counts, also a lazy one inside a function and one under TYPE_CHECKING.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("calibration", "rlcm_serve", "training", "studies")

MAY_NOT_IMPORT = {
    "calibration": {"rlcm_serve", "training", "studies"},
    "rlcm_serve": {"training", "studies"},
    "training": {"studies"},
    "studies": set(),
}
CALIBRATION_MAY_IMPORT = {
    "calibration",
    "jinja2",
    "markupsafe",
    "matplotlib",
    "numpy",
    "pyarrow",
    "scipy",
}
ONLY_IN = {
    "vllm": ("rlcm_serve.engine", "studies.serving"),
    "ray": ("rlcm_serve.ray", "studies.serving", "training.verl.run"),
    "verl": ("training.verl",),
    "transfer_queue": ("training.verl",),
    "numba": ("rlcm_serve.engine.worker.figures.few_logits",),
    "fastapi": ("rlcm_serve.api",),
    "starlette": ("rlcm_serve.api", "rlcm_serve.ray.proxy"),
    "sse_starlette": ("rlcm_serve.api",),
    "pydantic": ("rlcm_serve.api", "rlcm_serve.settings"),
    "pydantic_settings": ("rlcm_serve.settings",),
    "sqlalchemy": ("rlcm_serve.store",),
    "cryptography": ("rlcm_serve.signing", "rlcm_serve.evidence"),
    "prometheus_client": ("rlcm_serve.telemetry", "studies.serving"),
    "opentelemetry": ("rlcm_serve.telemetry",),
    "statsmodels": ("studies.paper",),
}


class Import(NamedTuple):
    line: int
    target: str


def imports(source: str, module: str, is_package: bool = False) -> Iterator[Import]:
    """All modules that `source`, the text of `module`, imports, as absolute dotted names."""
    package = module.split(".") if is_package else module.split(".")[:-1]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(node.lineno, alias.name)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *(node.module or "").split(".")]).strip(".")
            yield Import(node.lineno, base)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            name = node.args[0] if node.args else None
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                yield Import(node.lineno, name.value)


def violation(module: str, target: str) -> str | None:
    """Which rule the import of `target` in `module` breaks, if any."""
    package, imported = module.partition(".")[0], target.partition(".")[0]
    if imported in MAY_NOT_IMPORT[package]:
        return f"{package} must not import {imported}"
    if (
        package == "calibration"
        and imported not in CALIBRATION_MAY_IMPORT
        and imported not in sys.stdlib_module_names
    ):
        return f"calibration knows numbers only, not {imported}"
    homes = ONLY_IN.get(imported)
    if homes and not any(f"{module}.".startswith(f"{home}.") for home in homes):
        return f"{imported} is imported only in {', '.join(homes)}"
    return None


def violations(source: str, module: str, is_package: bool = False) -> list[str]:
    return [
        f"{module}:{found.line}: {broken}"
        for found in imports(source, module, is_package)
        if (broken := violation(module, found.target))
    ]


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_point_one_way(package: str) -> None:
    files = sorted((ROOT / package).rglob("*.py"))
    assert files, f"no modules found in {package}"
    broken = []
    for path in files:
        parts = path.relative_to(ROOT).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        module = ".".join(parts[:-1] if is_package else parts)
        broken += violations(path.read_text(encoding="utf-8"), module, is_package)
    assert not broken, "\n".join(broken)


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("calibration.simulation.replay", "import rlcm_serve"),
        ("calibration.simulation.replay", "from training.tasks import dial"),
        ("calibration.metrics", "import torch"),
        ("calibration.metrics", "def lazy():\n    from transformers import AutoModel"),
        ("rlcm_serve.cli", "from training.commands import app"),
        ("rlcm_serve.cli", "import importlib\nimportlib.import_module('training.commands')"),
        ("rlcm_serve.solving.solver", "from vllm.v1.engine import async_llm"),
        (
            "rlcm_serve.solving.solver",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import vllm",
        ),
        ("rlcm_serve.engine_pool", "import vllm"),
        ("rlcm_serve.commands.ray", "def lazy():\n    from ray import serve"),
        ("rlcm_serve.core", "from pydantic import BaseModel"),
        ("rlcm_serve.engine.contract", "import fastapi"),
        ("training.forced_answers", "import vllm"),
        ("training.commands", "def lazy():\n    from studies.paper.runs import paper_runs"),
    ],
)
def test_a_wrong_import_is_found(module: str, source: str) -> None:
    assert violations(source, module)


@pytest.mark.parametrize(
    ("module", "source"),
    [
        (
            "calibration.simulation.replay",
            "import math\nimport numpy as np\nfrom . import exit_rule",
        ),
        ("rlcm_serve.engine.worker", "import vllm\nfrom calibration.policy.exit_rule import step"),
        ("rlcm_serve.api.routes", "from fastapi import APIRouter\nfrom ..solver import solve"),
        ("rlcm_serve.ray.cluster", "import ray\nfrom ray import serve"),
        ("training.probe", "import torch\nfrom rlcm_serve.engine import base"),
        ("studies.paper.stages", "from training.rl.problems import load_problems"),
    ],
)
def test_a_right_import_passes(module: str, source: str) -> None:
    assert violations(source, module) == []


def test_relative_imports_are_resolved() -> None:
    source = "from ..core import Answer\nfrom . import base\nfrom .probe import Probe"
    names = ["rlcm_serve.core", "rlcm_serve.engine", "rlcm_serve.engine.probe"]
    assert [found.target for found in imports(source, "rlcm_serve.engine.vllm_v1")] == names
    inside = imports("from .base import Engine", "rlcm_serve.engine", is_package=True)
    assert [found.target for found in inside] == ["rlcm_serve.engine.base"]
