"""Results of the paper's runs, drawn from a small seeded world instead of trainings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from rlcm_serve.evaluation.measuring.markers import Category
from rlcm_serve.evaluation.measuring.measures import BenchmarkMeasures, RunMeasures
from rlcm_serve.evaluation.sources import Source
from studies.paper.result import Result, Rollouts, Stage
from studies.paper.runs import BASE, PaperRun, paper_runs, repeated_runs
from studies.paper.stages import of_one_source
from tests.rlcm_serve.evaluation.measured import World, draw, measure

N_PROBLEMS = 24
FAMILIES = ("dial", "tale", "total")
STEPS = 30
_SKILL = {BASE: 0.3, "grpo": 1.1, "rlcm": 1.2}


def made_results(
    runs: Iterable[PaperRun] | None = None, n_problems: int = N_PROBLEMS
) -> list[Result]:
    """Results of these runs, or of all runs; the same on every call."""
    return [made_result(run, n_problems) for run in (paper_runs() if runs is None else runs)]


def made_result(run: PaperRun, n_problems: int = N_PROBLEMS) -> Result:
    """One run's result, in the form that training, probe and evaluation produce."""
    source = Source.PROBE if run.trains is None else run.trains.confidence
    seed = [each.name for each in dict.fromkeys((*paper_runs(), *repeated_runs()))].index(run.name)
    world = draw(seed, n_problems, run.rollouts, _SKILL.get(run.method, 0.9), (source,))
    problems = tuple(f"p{at:03}" for at in range(n_problems))
    parts = {name: f"{FAMILIES[at % 3]}, level {at % 6 + 1}" for at, name in enumerate(problems)}
    trained = run.trains is not None
    has_own_probe = trained and source is Source.PROBE and run.method != "grpo"
    return Result(
        name=run.name,
        method=run.method,
        title=run.title,
        strength=run.strength,
        seed=run.seed,
        source=source,
        training=_stage(f"rlcm train rl --method {run.method}", 400.5) if trained else None,
        probe=None
        if has_own_probe or source is not Source.PROBE
        else _stage("rlcm train probe --rollouts 8 --samples 4", 50.0),
        evaluation=_stage(f"rlcm eval --rollouts {run.rollouts} --temperature 0.6", 100.0),
        settings=_settings(run) if trained else {},
        curves=_curves(seed, has_own_probe) if trained else {},
        measures=_measures(run.name, source, world),
        rollouts=Rollouts.of(world_scored(world, source), problems, parts),
        phrases=tuple(
            found for found in measure("embedded", world).indicators if found.per_rollout.value
        ),
    )


def with_domains(result: Result) -> Result:
    """The same result as the study with three seeds has it: problems of `tale` stand apart."""
    own = result.rollouts

    def some(is_unseen: bool) -> Rollouts:
        at = [n for n, part in enumerate(own.parts) if part.startswith("tale") == is_unseen]
        return Rollouts(
            problems=tuple(own.problems[n] for n in at),
            parts=tuple(own.parts[n] for n in at),
            confidence=tuple(own.confidence[n] for n in at),
            right=tuple(own.right[n] for n in at),
            answer_class=tuple(own.answer_class[n] for n in at),
        )

    return replace(result, rollouts=some(False), out_of_domain=some(True))


def world_scored(world: World, source: Source) -> Any:
    """The rollouts of a world."""
    from calibration.metrics.scores import ScoredRollouts

    return ScoredRollouts(world.problem_R, world.right_R, world.confidence_R(source), world.class_R)


def _measures(name: str, source: Source, world: World) -> RunMeasures:
    measured = measure("embedded", world)
    benchmark = replace(
        measured, title="Embedded families", budgets=measured.budgets[:10], parts=()
    )
    return of_one_source(
        RunMeasures(name, source, {}, {"embedded": 16}, "2026-11-21", "0.1.0", (benchmark,))
    )


def silent(result: Result) -> Result:
    """The same result, with texts that contain no phrase of doubt."""
    from calibration.metrics.estimates import Estimate

    def without(benchmark: BenchmarkMeasures) -> BenchmarkMeasures:
        none = Estimate(0.0, 0.0, 0.0)
        categories = tuple(
            replace(marker, per_rollout=none, per_1000_tokens=none)
            for marker in benchmark.categories
        )
        assert len(categories) == len(Category)
        return replace(benchmark, categories=categories)

    benchmarks = tuple(map(without, result.measures.benchmarks))
    return replace(result, measures=replace(result.measures, benchmarks=benchmarks))


def _stage(command: str, seconds: float) -> Stage:
    return Stage(command, "0123456789abcdef0123456789abcdef01234567+", seconds)


def _settings(run: PaperRun) -> dict[str, Any]:
    return {
        "model": "embedded-sft",
        "method": run.method,
        "steps": STEPS,
        "data": {"source": "embedded"},
        "rollouts": {"prompts": 8, "per_prompt": 6, "temperature": 0.8, "max_tokens": 512},
        "budgets": {"interval": 32, "samples": 4},
        "probe": {"updates": 4, "learning_rate": 0.001},
        "policy": {"learning_rate": 0.001, "schedule": "linear"},
    }


def _curves(seed: int, has_probe: bool) -> dict[str, tuple[float, ...]]:
    rng = np.random.default_rng(seed)
    rise = np.linspace(0.5, 0.85, STEPS) + 0.05 * rng.standard_normal(STEPS)
    curves = {
        "accuracy": rise,
        "completions/mean_length": 400 - 200 * rise,
        "sampling/sampling_logp_difference/max": np.full(STEPS, 2e-5),
        "step_time": np.full(STEPS, 13.0),
        "time/overhead": np.full(STEPS, 1.3 if has_probe else 1.0),
    }
    if has_probe:
        curves |= {"probe/bce": 1 - rise, "budgets/both_sides": 0.4 + 0.2 * rise}
    return {name: tuple(values.round(5).tolist()) for name, values in curves.items()}
