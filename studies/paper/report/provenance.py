"""The settings of the runs beside the paper's, and a list of all runs."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from calibration.report_kit.wording import UNDEFINED
from studies.paper.primary.problems import PROBE
from studies.paper.report.markdown import NOT_RUN, Block, folded, table
from studies.paper.report.results_index import ResultsIndex, benchmark_of
from studies.paper.result import Result, Stage
from studies.paper.stages import OWN_PROBLEMS, PROBE_PROBLEMS

_Value = Callable[[Result], object]
"""Reads a setting of a run; None if the run lacks it."""


OTHER_BASE = {"model": "Qwen3-4B-Instruct-2507", "steps": "600 (the authors' code: 240)"}
"""What the paper has elsewhere with another base model (App. C.1)."""


def setting(index: ResultsIndex, elsewhere: Mapping[str, str] = MappingProxyType({})) -> Block:
    """Every setting that the paper states, with the paper's and our value.

    Args:
        index: of the results.
        elsewhere: the paper's values where they are not those of its main experiments.
    """
    intro = (
        "Read from the results; if runs differ, all values are listed. The paper's settings come "
        "from its App. B."
    )
    rows = [[name, _values(index, of), elsewhere.get(name, paper)] for name, of, paper in _SETTINGS]
    return Block("setting", (intro, table(["", "here", "the paper"], rows, names=3)))


def runs(index: ResultsIndex) -> Block:
    """A row for each run, complete or not, and the commands."""
    missing = index.missing
    state = (
        f"Not run yet: {', '.join(missing)}."
        if missing
        else f"All {len(index.results)} runs are in."
    )
    head = ["run", "method", "λ", "seed", "training, s", "probe, s", "evaluation, s", "commit"]
    rows = table(head, _runs(index), names=2)
    state += (
        " Training seconds are the sum over steps. Probe and evaluation seconds are wall-clock "
        "time with the start of the engine. The machine was busy with other work, so these are "
        "costs, not benchmarks."
    )
    commands = table(["run", "commands"], _commands(index), names=2)
    return Block("runs", (state, rows, folded("Commands of every run", commands)))


def _values(index: ResultsIndex, of: _Value) -> str:
    """The distinct values of a setting over all runs that have it, in order."""
    found = (of(result) for result in index.results.values())
    said = dict.fromkeys(str(value) for value in found if value is not None)
    return " or ".join(sorted(said, key=lambda value: (len(value), value))) or UNDEFINED


def _trained(*path: str) -> _Value:
    """Reads a training setting, given its tables and its name."""

    def of(result: Result) -> object:
        value: object = result.settings
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        return f"{value:g}" if isinstance(value, float) else value

    return of


def _option(stage: str, option: str) -> _Value:
    """Reads an option from a stage's command."""

    def of(result: Result) -> object:
        made: Stage | None = getattr(result, stage)
        words = shlex.split(made.command) if made else []
        return words[words.index(option) + 1] if option in words else None

    return of


def _batch(result: Result) -> object:
    if not result.settings:
        return None
    rollouts = result.settings["rollouts"]
    return f"{rollouts['prompts']} prompts x {rollouts['per_prompt']} rollouts"


def _rate(result: Result) -> object:
    if not result.settings:
        return None
    policy = result.settings["policy"]
    return f"{policy['learning_rate']:g}, {policy['schedule']}"


def _data(result: Result) -> object:
    benchmark = benchmark_of(result)
    return f"{benchmark.title}, {benchmark.n_problems} problems"


def _probe_problems(result: Result) -> object:
    if result.probe is None:
        return None
    return PROBE_PROBLEMS if OWN_PROBLEMS in result.probe.command else PROBE


_SETTINGS: tuple[tuple[str, _Value, str], ...] = (
    ("model", _trained("model"), "DeepSeek-R1-Distill-Qwen-7B"),
    ("problems of training", _trained("data", "source"), "GRPO-LEAD"),
    ("steps", _trained("steps"), "600"),
    ("batch", _batch, "32, with 6 rollouts"),
    ("learning rate", _rate, "1e-06"),
    ("temperature of training", _trained("rollouts", "temperature"), "0.8"),
    ("most tokens of a rollout", _trained("rollouts", "max_tokens"), "8k"),
    ("tokens from one budget to the next", _trained("budgets", "interval"), "500 (probes of Base "
     "and GRPO; RLCM: not given)"),
    ("K, forced answers at a budget", _trained("budgets", "samples"), "4"),
    ("probe, steps of its own in each step", _trained("probe", "updates"), "not given"),
    ("probe, learning rate", _trained("probe", "learning_rate"), "not given"),
    ("post-hoc probe, problems", _probe_problems, "80"),
    ("post-hoc probe, rollouts of each", _option("probe", "--rollouts"), "8"),
    ("post-hoc probe, K", _option("probe", "--samples"), "4"),
    ("evaluation on", _data, "five of mathematics, three of other kinds"),
    ("evaluation, temperature", _option("evaluation", "--temperature"), "0.6"),
    ("evaluation, most tokens", _option("evaluation", "--max-tokens"), "8k"),
    ("evaluation, rollouts per problem", _option("evaluation", "--rollouts"), "32 (AIME), else 4"),
    ("evaluation, forced answers at a budget", _option("evaluation", "--answers"), "not given"),
)  # fmt: skip


def _runs(index: ResultsIndex) -> Iterator[list[str]]:
    for run in index.planned:
        strength = f"{run.strength:g}" if run.has_strength else ""
        of = [run.name, run.title, strength, str(run.seed)]
        result = index.results.get(run.name)
        if result is None:
            yield [*of, *[NOT_RUN] * 3, ""]
        else:
            stages = (result.training, result.probe, result.evaluation)
            seconds = [f"{stage.seconds:,.0f}" if stage else UNDEFINED for stage in stages]
            commits = dict.fromkeys(_short(stage) for stage in stages if stage)
            yield [*of, *seconds, " ".join(commits)]


def _commands(index: ResultsIndex) -> Iterator[list[str]]:
    for run in index.planned:
        if result := index.results.get(run.name):
            stages = (result.training, result.probe, result.evaluation)
            said = "<br>".join(f"`{stage.command}`" for stage in stages if stage)
            yield [run.name, said]


def _short(stage: Stage) -> str:
    """A shortened commit. It keeps `+`, which marks uncommitted changes."""
    if stage.commit is None:
        return "no checkout"
    return stage.commit[:7] + ("+" if stage.commit.endswith("+") else "")
