"""The ladder of rooms: a room imports only rooms above it in this list, never below.

A room is a folder, or a module at a package's root. `__init__` of `calibration` and of `rlcm_serve`
list the public API and may import any room of their package.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

LADDERS = {
    "calibration": (
        "errors",
        "files",
        "canonical",
        "policy",
        "traces",
        "metrics",
        "simulation",
        "testing",
        "monitoring",
        "report_kit",
        "certificate",
        "report",
    ),
    "rlcm_serve": (
        "errors",
        "own_files",
        "terminal",
        "signing",
        "suggestions",
        "json_lines",
        "home",
        "wrong_values",
        "core",
        "profiles",
        "events",
        "admission",
        "familiarity",
        "page",
        "engine.worker",
        "engine.thinking",
        "engine.prompts",
        "answers.extraction",
        "engine",
        "answers",
        "recording",
        "settings",
        "aggregation",
        "solving",
        "evidence",
        "monitoring",
        "store",
        "monitoring.running",
        "telemetry",
        "evaluation",
        "jobs",
        "api",
        "ray",
        "commands",
        "cli",
    ),
    "training": (
        "errors",
        "json_values",
        "folders",
        "cards",
        "provenance",
        "tasks",
        "benchmarks",
        "rl.tables",
        "sft_data",
        "sft",
        "probe",
        "familiarity",
        "rl.rewards",
        "rl.settings",
        "rl.trainer",
        "rl",
        "publishing",
        "verl",
        "commands",
    ),
}
MOST_MODULES = 14
"""In one folder. A folder with more is two rooms."""


def room_of(module: str) -> str | None:
    """The room of a module, by the longest name that fits; None for a package's public API."""
    package, _, rest = module.partition(".")
    rooms = [room for room in LADDERS[package] if f"{rest}.".startswith(f"{room}.")]
    if not rest or rest == "__init__":
        return None
    assert rooms, f"{module} is in no room: give it a place in the ladder"
    return max(rooms, key=len)


def targets(source: str, package: str) -> Iterator[tuple[int, str]]:
    """Line and full name of everything that `source` imports from its own package."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            is_root = node.module == package
            names = [f"{node.module}.{a.name}" for a in node.names] if is_root else [node.module]
        else:
            continue
        yield from ((node.lineno, name) for name in names if name.startswith(f"{package}."))


def upward(source: str, module: str) -> list[str]:
    """The imports of a module from rooms that stand below its own in the list."""
    package, room = module.partition(".")[0], room_of(module)
    if room is None:
        return []
    ladder, found = LADDERS[package], []
    for line, name in targets(source, package):
        try:
            imported = room_of(name)
        except AssertionError:  # a name of the public API, such as `from calibration import step`
            continue
        if imported is not None and ladder.index(imported) > ladder.index(room):
            found.append(f"{module}:{line} ({room}) imports {name} ({imported})")
    return found


@pytest.mark.parametrize("package", LADDERS)
def test_no_room_imports_one_that_stands_on_it(package: str) -> None:
    found = []
    for path in sorted((ROOT / package).rglob("*.py")):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        found += upward(path.read_text("utf-8"), module)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("package", LADDERS)
def test_every_room_exists(package: str) -> None:
    for room in LADDERS[package]:
        place = ROOT / package / room.replace(".", "/")
        assert place.is_dir() or place.with_suffix(".py").is_file(), f"{package}.{room} is gone"


def test_an_import_that_runs_back_up_is_found() -> None:
    source = "from calibration.report.write import write_report"
    assert upward(source, "calibration.policy.exit_rule")
    assert upward("from rlcm_serve import cli", "rlcm_serve.solving.solver")
    assert not upward("from calibration.policy.voting import Vote", "calibration.traces.checks")
    assert not upward("from calibration import step", "calibration.policy.exit_rule")


def folders() -> list[Path]:
    found = {path.parent for package in LADDERS for path in (ROOT / package).rglob("*.py")}
    return sorted(found)


@pytest.mark.parametrize("folder", folders(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_folder_says_what_lives_there_and_is_no_heap(folder: Path) -> None:
    said = ast.get_docstring(ast.parse((folder / "__init__.py").read_text("utf-8")))
    assert said, f"{folder.relative_to(ROOT)}/__init__.py: say in one sentence what lives there"
    modules = [path for path in folder.glob("*.py") if path.name != "__init__.py"]
    assert len(modules) <= MOST_MODULES, f"{folder.relative_to(ROOT)}: {len(modules)} modules"
