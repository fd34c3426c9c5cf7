"""One run of the primary comparison: trains, makes the probes, tests, stores the result.

Every stage continues after an interruption, and completed ones are skipped.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibration.files import write_text
from calibration.traces.traces import Traces, read_traces, write_table
from rlcm_serve.engine.worker.probe import PROBE_FOLDER, STATE_AND_TOKENS
from rlcm_serve.evaluation.regrading import read_table
from rlcm_serve.evaluation.rereading import reread
from rlcm_serve.recording.kept_inputs import kept_beside, read_kept_inputs
from studies.paper.commands import Stages
from studies.paper.primary import design
from studies.paper.primary.certified_tokens import certified_tokens
from studies.paper.primary.design import JOINT, POSTHOC, RICHER, PrimaryRun
from studies.paper.primary.measures import Measured
from studies.paper.primary.problems import FILES
from studies.paper.primary.result import COMMAND, PrimaryResult
from studies.paper.result import Stage
from studies.paper.result_files import design_digest, is_made
from training.probe.data import load_probe_data
from training.probe.fit import ProbeTraining, fit_probe
from training.rl.folder import FACTS
from training.rl.settings import RunSettings


@dataclass(frozen=True, slots=True)
class PrimaryStudy:
    """What all runs share.

    Attributes:
        config: TOML file of the training.
        problems: folder of the problems.
        out: folder of the runs.
        results: folder of the results.
        rollouts: of each test problem.
    """

    config: Path
    problems: Path
    out: Path
    results: Path
    rollouts: int = design.ROLLOUTS

    @property
    def design(self) -> str:
        """Digest of the training's settings, of the problems, and of how runs are tested."""
        tested = (design.TEMPERATURE, design.PROBE_ROLLOUTS, design.PROBE_ANSWERS, self.rollouts)
        files = (self.config, *(self.problems / f"{name}.jsonl" for name in FILES))
        return design_digest(tested, (path.read_bytes() for path in files))

    @property
    def runs(self) -> Path:
        """Folder of the runs below that of the design: another design starts anew."""
        return self.out / self.design

    def is_done(self, run: PrimaryRun) -> bool:
        """Whether the run's result exists.

        Raises:
            TrainingRefused: it exists, and is of another design.
        """
        path = self.results / f"{run.name}.json"
        return is_made(path, self.design, COMMAND)


@dataclass(frozen=True, slots=True)
class Running:
    """One run in progress."""

    study: PrimaryStudy
    run: PrimaryRun

    @property
    def name(self) -> str:
        """Of the run."""
        return self.run.name

    @property
    def folder(self) -> Path:
        """Folder of the model."""
        return self.study.runs / self.run.name

    def finish(self) -> Path:
        """Completes the missing stages; returns the path of the result.

        Raises:
            TrainingRefused: a stage fails; its log has the reason.
        """
        stages = Stages(self.folder)
        with stages.alone():
            settings = RunSettings.load(self._config())
            training = self._train(stages)
            probe = stages.stage("probe", self._probe_arguments(settings))
            test = stages.stage("test", self._test_arguments(settings))
            began = time.monotonic()
            measured = self._measured(settings.budgets.interval)
            seconds = training.seconds + probe.seconds + test.seconds + time.monotonic() - began
            facts = json.loads((self.folder / FACTS).read_text())
            return PrimaryResult(
                name=self.run.name,
                method=self.run.method,
                seed=self.run.seed,
                design=self.study.design,
                seconds=round(seconds, 1),
                training=training,
                probe=probe,
                test=test,
                settings=facts["settings"],
                accuracy=tuple(round(float(step["accuracy"]), 4) for step in facts["curves"]),
                measured=measured,
            ).write(self.study.results)

    def _config(self) -> Path:
        """The study's settings with the problems to train on."""
        path = self.folder.with_name(f"{self.run.name}.toml")
        source = json.dumps(str(self.study.problems / "train.jsonl"))
        text = f"{self.study.config.read_text()}\n[data]\nsource = {source}\n"
        if not path.exists() or path.read_text() != text:
            write_text(path, text)
        return path

    def _train(self, stages: Stages) -> Stage:
        if not (self.folder / FACTS).exists():
            arguments: list[object] = ["train", "rl", "--config", self._config()]
            arguments += ["--method", self.run.method, "--seed", self.run.seed, "--threads", 1]
            stages.rlcm("training", [*arguments, "--out", self.folder])
        facts = json.loads((self.folder / FACTS).read_text())
        return Stage(facts["command"], facts["commit"], facts["seconds"])

    def _probe_arguments(self, settings: RunSettings) -> list[object]:
        arguments: list[object] = ["train", "probe", "--model", self.folder]
        arguments += ["--data", self.study.problems / "probe.jsonl", "--inputs", "state"]
        arguments += ["--rollouts", design.PROBE_ROLLOUTS, "--samples", design.PROBE_ANSWERS]
        arguments += ["--out", self.folder / POSTHOC, "--work", self._journal]
        return [*arguments, *_sampling(settings)]

    def _test_arguments(self, settings: RunSettings) -> list[object]:
        arguments: list[object] = ["collect", "--model", self.folder]
        arguments += ["--data", self.study.problems / "test.jsonl", "--keep-inputs"]
        arguments += ["--rollouts", self.study.rollouts, "--probe", self.folder / POSTHOC]
        return [*arguments, *_sampling(settings), "--out", self._traces]

    @property
    def _journal(self) -> Path:
        return self.folder / "probe.recordings.jsonl"

    @property
    def _traces(self) -> Path:
        return self.folder / "test.parquet"

    def _measured(self, interval: int) -> Measured:
        traces = read_traces(self._traces)
        confidences = {POSTHOC: traces, RICHER: self._reread(RICHER, self._richer(interval))}
        if (self.folder / PROBE_FOLDER).exists():
            confidences[JOINT] = self._reread(JOINT, self.folder / PROBE_FOLDER)
        tokens_P, full_tokens_P = certified_tokens(traces)
        at_end = (np.arange(traces.n_rollouts), traces.final_R)
        return Measured(
            problems=traces.problem_ids,
            right_PK=_by_problem(traces.correct_RC[at_end].astype(int), traces.n_problems),
            confidence_PK={
                name: _by_problem(np.round(own.confidence_RC[at_end], 4), traces.n_problems)
                for name, own in confidences.items()
            },
            tokens_P=tuple(np.round(tokens_P, 2).tolist()),
            full_tokens_P=tuple(np.round(full_tokens_P, 2).tolist()),
        )

    def _richer(self, interval: int) -> Path:
        """Fits the probe that reads states and tokens, on the recordings of the other one."""
        folder = self.folder / RICHER
        if not (folder / "config.json").exists():
            data = load_probe_data(self._journal)
            probe, _ = fit_probe(data, ProbeTraining(inputs=STATE_AND_TOKENS))
            probe.save(folder, interval)
        return folder

    def _reread(self, name: str, probe: Path) -> Traces:
        """The test as another probe reads it."""
        path = self.folder / f"test.{name}.parquet"
        table = reread(read_table(self._traces), read_kept_inputs(kept_beside(self._traces)), probe)
        write_table(path, table, str(self._traces))
        return read_traces(path)


def _by_problem(value_R: NDArray[Any], n_problems: int) -> tuple[tuple[Any, ...], ...]:
    """Values of rollouts, which are sorted by problem, equally many of each."""
    return tuple(map(tuple, value_R.reshape(n_problems, -1).tolist()))


def _sampling(settings: RunSettings) -> list[object]:
    """The same for the probe's rollouts and for the test."""
    return [
        *("--interval", settings.budgets.interval),
        *("--max-tokens", settings.rollouts.max_tokens),
        *("--temperature", design.TEMPERATURE),
    ]
