"""One run of the paper: trains, fits a probe if one is missing, evaluates, stores the result.

Each stage is an ordinary `rlcm` command, which continues after an interruption. Completed stages
are skipped.
"""

from __future__ import annotations

import json
import math
import random
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from rlcm_serve.engine.model_files import resolve_model
from rlcm_serve.engine.worker.probe import PROBE_FOLDER
from rlcm_serve.evaluation.datasets.loading import load
from rlcm_serve.evaluation.grading import grader_named
from rlcm_serve.evaluation.measuring.measures import RunMeasures
from rlcm_serve.evaluation.measuring.risk_control import fit_sources
from rlcm_serve.evaluation.run import Run
from rlcm_serve.evaluation.sources import Source
from studies.paper.commands import Stages
from studies.paper.result import COMMAND, CURVES, Result, Rollouts, Stage
from studies.paper.result_files import is_made
from studies.paper.runs import BASE, PaperRun
from training.rl.folder import FACTS
from training.rl.problems import load_problems
from training.rl.settings import RunSettings

PROBE_PROBLEMS, PROBE_ROLLOUTS = 80, 8
"""Problems, and rollouts of each, for a post-hoc probe (RLCM App. B)."""
TEMPERATURE = 0.6
"""Sampling temperature of the evaluation (RLCM App. B)."""
OWN_PROBLEMS = "probe-problems.jsonl"
"""File of these problems in the model's folder."""
POSTHOC = "posthoc"
"""Folder of a study's own probe in the model's folder."""
ANSWERS = 1
"""Forced answers at every reading of the evaluation."""


@dataclass(frozen=True, slots=True)
class Study:
    """The settings that all runs share.

    Attributes:
        config: TOML file of the training settings.
        benchmark: benchmark of the evaluation.
        out_of_domain: another one, of kinds that training does not see; "" without one. It is
            evaluated with the first one, and only its final answers are kept.
        regret: accepted rates of lost right answers for which exits are also certified.
        out: folder of the runs.
        results: folder of the results.
        threads: CPU threads of each process.
        temperature: of the evaluation.
        rollouts: of each problem at evaluation; None: as each run says.
        probe_problems: JSON Lines. With it, one probe per run is made afterwards for every method
            that a probe reads, on these problems, on states alone, at the evaluation's temperature.
        same: folder of another study's runs that train and probe as this one does. A run whose
            policy and probe are there is only evaluated.
        design: digest of settings and problems; results of another one are refused.
    """

    config: Path
    benchmark: str
    out: Path
    results: Path
    threads: int
    temperature: float = TEMPERATURE
    rollouts: int | None = None
    probe_problems: Path | None = None
    out_of_domain: str = ""
    regret: tuple[float, ...] = ()
    same: Path | None = None
    design: str = ""

    def settings(self, run: PaperRun) -> RunSettings:
        """The training settings of a run."""
        method = None if run.method == BASE else run.method
        strength = run.strength if run.has_strength else None
        return RunSettings.load(self.config, method=method, strength=strength, seed=run.seed)

    def is_done(self, run: PaperRun) -> bool:
        """Whether the run's result exists.

        Raises:
            TrainingRefused: it exists, and is of another design.
        """
        return is_made(self.results / f"{run.name}.json", self.design, COMMAND)


@dataclass(frozen=True)  # no slots, so that it keeps its folder
class Running:
    """One run in progress.

    Attributes:
        study: the settings that all runs share.
        run: the run.
    """

    study: Study
    run: PaperRun

    @property
    def name(self) -> str:
        """Of the run."""
        return self.run.name

    @cached_property
    def folder(self) -> Path:
        """Folder of the model: decided once, as the other study may be running."""
        return self._made_elsewhere or self.study.out / self.run.name

    @cached_property
    def _made_elsewhere(self) -> Path | None:
        """Folder of the same policy and probe in the other study, if both are there."""
        if self.study.same is None or not self.run.has_own_strength:
            return None
        folder = self.study.same / f"{self.run.method}-{self.run.seed}"
        return folder if Stages(folder).completed("probe") else None

    @property
    def stages(self) -> Stages:
        """The run's commands."""
        return Stages(self.folder)

    @property
    def evaluated(self) -> Path:
        """Folder of the evaluation."""
        return self.folder / "eval"

    def finish(self) -> Path:
        """Completes the missing stages; returns the path of the result.

        Raises:
            TrainingRefused: a stage fails; its log has the reason.
        """
        settings = self.study.settings(self.run)
        with self.stages.alone():
            training = self._train(settings)
            probe = self._fit_probe(settings)
            evaluation = self._evaluate(settings)
            return self._result(training, probe, evaluation).write(self.study.results)

    def _train(self, settings: RunSettings) -> Stage | None:
        """Trains the policy; the base model is only copied, so that it gets its own probe."""
        if self.run.trains is None:
            if not self.folder.exists():
                self._copy_base(settings)
            return None
        if not (self.folder / FACTS).exists():
            arguments: list[object] = ["train", "rl", "--config", self.study.config]
            arguments += ["--method", self.run.method, "--seed", self.run.seed]
            if self.run.has_strength:
                arguments += ["--strength", self.run.strength]
            arguments += ["--threads", self.study.threads, "--out", self.folder]
            self.stages.rlcm("training", arguments)
        facts = json.loads((self.folder / FACTS).read_text())
        return Stage(facts["command"], facts["commit"], facts["seconds"])

    def _copy_base(self, settings: RunSettings) -> None:
        unfinished = self.folder.with_suffix(".part")
        shutil.rmtree(unfinished, ignore_errors=True)
        shutil.copytree(
            resolve_model(settings.model),
            unfinished,
            ignore=shutil.ignore_patterns(PROBE_FOLDER, "certificates"),
        )
        unfinished.replace(self.folder)

    def _fit_probe(self, settings: RunSettings) -> Stage | None:
        """Fits a probe if the evaluation needs one and training made none (RLCM App. B)."""
        trains = self.run.trains
        if self.study.probe_problems is not None:
            return self._fit_same_probe(settings, self.study.probe_problems)
        if trains and (settings.forces or trains.confidence is not Source.PROBE):
            return None
        arguments: list[object] = ["train", "probe", "--model", self.folder]
        arguments += [
            "--data",
            self._probe_problems(settings),
            "--interval",
            settings.budgets.interval,
        ]
        arguments += ["--rollouts", PROBE_ROLLOUTS, "--samples", settings.budgets.samples]
        arguments += ["--max-tokens", settings.rollouts.max_tokens, "--inputs", "state"]
        return self.stages.stage("probe", arguments)

    def _fit_same_probe(self, settings: RunSettings, problems: Path) -> Stage | None:
        """The probe that is the same for every method that a probe reads."""
        if self._source() is not Source.PROBE:
            return None
        if self._made_elsewhere:
            return self.stages.completed("probe")
        arguments: list[object] = ["train", "probe", "--model", self.folder, "--data", problems]
        arguments += ["--inputs", "state", "--interval", settings.budgets.interval]
        arguments += ["--rollouts", PROBE_ROLLOUTS, "--samples", settings.budgets.samples]
        arguments += ["--max-tokens", settings.rollouts.max_tokens]
        arguments += ["--temperature", self.study.temperature, "--out", self.folder / POSTHOC]
        return self.stages.stage("probe", arguments)

    def _probe_problems(self, settings: RunSettings) -> Path:
        """A file with some of the training problems; the sample depends on the seed."""
        path = self.folder / OWN_PROBLEMS
        with grader_named("math") as grader:
            problems = load_problems(settings.data, grader, settings.seed)
        sampled = random.Random(settings.seed).sample(
            list(zip(problems.problems, problems.rows(settings.data, False), strict=True)),
            k=PROBE_PROBLEMS,
        )
        lines = [
            json.dumps({"id": own.id, "problem": row["prompt"][0]["content"], "answer": own.answer})
            for own, row in sampled
        ]
        path.write_text("\n".join(lines) + "\n")
        return path

    def _evaluate(self, settings: RunSettings) -> Stage:
        arguments: list[object] = ["eval", "--data", self.study.benchmark]
        if self.study.out_of_domain:
            arguments += ["--data", self.study.out_of_domain]
        arguments += ["--model", self.folder]
        rollouts = self.study.rollouts or self.run.rollouts
        arguments += ["--rollouts", rollouts, "--answers", ANSWERS]
        arguments += ["--budgets", settings.budgets.interval]
        arguments += ["--temperature", self.study.temperature]
        arguments += ["--max-tokens", settings.rollouts.max_tokens]
        arguments += ["--confidence", self._source(), "--sources", self._source()]
        if self._request(settings):
            arguments += ["--request", self._request(settings)]
        if self.study.probe_problems is not None and self._source() is Source.PROBE:
            arguments += ["--probe", self.folder / POSTHOC]
        arguments += ["--out", self.evaluated]
        return self.stages.stage("evaluation", arguments)

    def _source(self) -> Source:
        return Source.PROBE if self.run.trains is None else self.run.trains.confidence

    def _request(self, settings: RunSettings) -> str:
        asks = self.run.trains is not None and self.run.trains.asks_confidence
        return settings.data.confidence_request if asks else ""

    def _result(self, training: Stage | None, probe: Stage | None, evaluation: Stage) -> Result:
        facts: dict[str, Any] = {"settings": {}, "curves": []}
        if training is not None:
            facts = json.loads((self.folder / FACTS).read_text())
        evaluated = Run.load(str(self.evaluated))
        benchmark, *others = evaluated.measures.benchmarks
        if self.study.regret:
            recorded = evaluated.recorded(benchmark.name)
            certified = tuple(fit_sources(recorded, self.study.regret, ("regret",)))
            benchmark = replace(benchmark, controlled=(*benchmark.controlled, *certified))
        return Result(
            name=self.run.name,
            method=self.run.method,
            title=self.run.title,
            strength=self.run.strength,
            seed=self.run.seed,
            source=evaluated.source,
            training=training,
            probe=probe,
            evaluation=evaluation,
            settings=facts["settings"],
            curves=_curves(facts["curves"]),
            measures=of_one_source(replace(evaluated.measures, benchmarks=(benchmark,))),
            rollouts=_rollouts(evaluated, benchmark.name, self.study.benchmark),
            out_of_domain=next(
                (_rollouts(evaluated, one.name, self.study.out_of_domain) for one in others), None
            ),
            phrases=tuple(found for found in benchmark.indicators if found.per_rollout.value),
            design=self.study.design,
        )


def _rollouts(evaluated: Run, name: str, spec: str) -> Rollouts:
    """The final answers on an evaluated benchmark; `spec` is what it was loaded from."""
    scored = evaluated.scored(name, evaluated.source)
    return Rollouts.of(scored, evaluated.problem_ids(name), load(spec).parts)


def of_one_source(measures: RunMeasures) -> RunMeasures:
    """The measures without other sources of confidence and without single phrases."""
    kept = []
    for benchmark in measures.benchmarks:
        own = measures.source
        kept.append(
            replace(
                benchmark,
                sources=tuple(each for each in benchmark.sources if each.source == own),
                controlled=tuple(each for each in benchmark.controlled if each.source == own),
                frontiers=tuple(each for each in benchmark.plain_frontiers if each.source == own),
                indicators=(),
            )
        )
    return replace(measures, benchmarks=tuple(kept))


def _curves(steps: Sequence[dict[str, Any]]) -> dict[str, tuple[float, ...]]:
    """The curves of `CURVES` that are finite numbers at every step."""
    return {
        name: tuple(float(f"{step[name]:.5g}") for step in steps)
        for name in CURVES
        if steps and all(_is_number(step.get(name)) for step in steps)
    }


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)
