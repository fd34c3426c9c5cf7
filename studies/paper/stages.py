"""One run of the paper: trains, fits a probe if one is missing, evaluates, stores the result.

Each stage is an ordinary `rlcm` command, which continues after an interruption. Completed stages
are skipped.
"""

from __future__ import annotations

import json
import math
import os
import random
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from filelock import lock_descriptor

from calibration.files import write_text
from rlcm_serve.engine.model_files import resolve_model
from rlcm_serve.engine.worker.probe import PROBE_FOLDER
from rlcm_serve.evaluation.datasets.loading import load
from rlcm_serve.evaluation.grading import grader_named
from rlcm_serve.evaluation.measuring.measures import RunMeasures
from rlcm_serve.evaluation.run import Run
from rlcm_serve.evaluation.sources import Source
from studies.paper.result import CURVES, Result, Rollouts, Stage
from studies.paper.runs import BASE, PaperRun
from training.errors import TrainingRefused
from training.provenance import commit
from training.rl.export import FACTS
from training.rl.problems import load_problems
from training.rl.settings import RunSettings

PROBE_PROBLEMS, PROBE_ROLLOUTS = 80, 8
"""Problems, and rollouts of each, for a post-hoc probe (RLCM App. B)."""
TEMPERATURE = 0.6
"""Sampling temperature of the evaluation (RLCM App. B)."""
ANSWERS = 1
"""Forced answers at every reading of the evaluation."""


@dataclass(frozen=True, slots=True)
class Study:
    """The settings that all runs share.

    Attributes:
        config: TOML file of the training settings.
        benchmark: benchmark of the evaluation.
        out: folder of the runs.
        results: folder of the results.
        threads: CPU threads of each process.
    """

    config: Path
    benchmark: str
    out: Path
    results: Path
    threads: int

    def settings(self, run: PaperRun) -> RunSettings:
        """The training settings of a run."""
        method = None if run.method == BASE else run.method
        return RunSettings.load(self.config, method=method, strength=run.strength, seed=run.seed)

    def is_done(self, run: PaperRun) -> bool:
        """Whether the run's result exists."""
        return (self.results / f"{run.name}.json").exists()


@dataclass(frozen=True, slots=True)
class Running:
    """One run in progress.

    Attributes:
        study: the settings that all runs share.
        run: the run.
    """

    study: Study
    run: PaperRun

    @property
    def folder(self) -> Path:
        """Folder of the model."""
        return self.study.out / self.run.name

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
        with self._alone():
            training = self._train(settings)
            probe = self._fit_probe(settings)
            evaluation = self._evaluate(settings)
            return self._result(training, probe, evaluation).write(self.study.results)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Holds a lock that stages inherit, as a stage may outlive this process."""
        self.study.out.mkdir(parents=True, exist_ok=True)
        held = f"{self.run.name} is under way in another process: wait until it ends, or stop it"
        with self._lock.open("w") as file:
            if not lock_descriptor(file.fileno(), blocking=False):
                raise TrainingRefused(held)
            os.set_inheritable(file.fileno(), True)
            yield

    @property
    def _lock(self) -> Path:
        return self.study.out / f"{self.run.name}.lock"

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
            self._rlcm("training", arguments)
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
        arguments += ["--max-tokens", settings.rollouts.max_tokens]
        return self._stage("probe", arguments)

    def _probe_problems(self, settings: RunSettings) -> Path:
        """A file with some of the training problems; the sample depends on the seed."""
        path = self.folder / "probe-problems.jsonl"
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
        arguments: list[object] = ["eval", "--data", self.study.benchmark, "--model", self.folder]
        arguments += ["--rollouts", self.run.rollouts, "--answers", ANSWERS]
        arguments += ["--budgets", settings.budgets.interval, "--temperature", TEMPERATURE]
        arguments += ["--max-tokens", settings.rollouts.max_tokens]
        arguments += ["--confidence", self._source(), "--sources", self._source()]
        if self._request(settings):
            arguments += ["--request", self._request(settings)]
        arguments += ["--out", self.evaluated]
        return self._stage("evaluation", arguments)

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
        (benchmark,) = evaluated.measures.benchmarks
        name = benchmark.name
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
            measures=of_one_source(evaluated.measures),
            rollouts=Rollouts.of(
                evaluated.scored(name, evaluated.source),
                evaluated.problem_ids(name),
                load(self.study.benchmark).parts,
            ),
        )

    def _stage(self, name: str, arguments: Sequence[object]) -> Stage:
        """Runs a stage unless it is complete; returns its command, commit and seconds.

        Raises:
            TrainingRefused: the stage was completed or started with another command.
        """
        path, typed = self.folder / f"{name}.stage.json", _typed(arguments)
        note: dict[str, Any] = {"command": typed}
        if path.exists():
            note = json.loads(path.read_text())
        if note["command"] != typed:
            raise TrainingRefused(
                f"{self.folder} holds the {name} of another command ({note['command']}): remove "
                "the folder to do it anew"
            )
        if not note.get("done"):
            with _noted(path, note):
                self._rlcm(name, arguments)
        return Stage(typed, note["commit"], round(note["seconds"], 1))

    def _rlcm(self, name: str, arguments: Sequence[object]) -> None:
        log = self.folder.with_name(f"{self.run.name}.{name}.log")
        program = Path(sys.executable).with_name("rlcm")
        with log.open("a") as output:
            done = subprocess.run(
                [str(program), *map(str, arguments)],
                stdout=output,
                stderr=subprocess.STDOUT,
                close_fds=False,  # the lock stays held while it runs
            )
        if done.returncode:
            raise TrainingRefused(
                f"{_typed(arguments)} ended with {done.returncode}: {log} says why"
            )


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
                frontiers=tuple(each for each in benchmark.frontiers if each.source == own),
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


def _typed(arguments: Sequence[object]) -> str:
    return shlex.join(["rlcm", *map(str, arguments)])


@contextmanager
def _noted(path: Path, note: dict[str, Any]) -> Iterator[None]:
    """Stores a stage's commit, its seconds over all sessions, and at the end its completion.

    The seconds of a killed session are lost.
    """
    before = note.get("seconds", 0.0)
    note |= {"commit": commit(), "seconds": before, "done": False}
    _write(path, note)
    began = time.monotonic()
    try:
        yield
        note["done"] = True
    finally:
        note["seconds"] = before + time.monotonic() - began
        _write(path, note)


def _write(path: Path, note: dict[str, Any]) -> None:
    write_text(path, json.dumps(note) + "\n")
