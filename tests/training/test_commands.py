import json
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import Result
from rich.console import Console
from typer.testing import CliRunner

from rlcm_serve.engine.contract import EngineIdentity
from rlcm_serve.engine.launch import EngineSettings
from rlcm_serve.engine.worker.probe import STATE_ALONE, STATE_AND_TOKENS, Probe, ProbeConfig
from rlcm_serve.engine.worker.statistics import STATISTICS
from rlcm_serve.recording.inputs import InputsFile, ProbeRollout, inputs_beside
from rlcm_serve.recording.problems import read_problems
from rlcm_serve.recording.rollouts import RecordedReading
from tests.rlcm_serve.scripted_engine import IDENTITY
from training.commands import app
from training.errors import TrainingRefused
from training.sft import SftConfig

pytestmark = pytest.mark.slow


HIDDEN = 32


class Recorded:
    """Stands for recording: right wherever the state's first number is positive, or `never`."""

    def __init__(self) -> None:
        self.settings: list[EngineSettings] = []
        self.journals: list[Path] = []
        self.never = False

    async def __call__(
        self,
        settings: EngineSettings,
        data: Path,
        journal: Path,
        rollouts: int,
        answers: int,
        console: Console,
    ) -> tuple[EngineIdentity, list[ProbeRollout]]:
        self.settings.append(settings)
        self.journals.append(journal)
        draw = np.random.default_rng(0)
        recordings = []
        with InputsFile(inputs_beside(journal), []) as inputs:
            for problem, number in product(read_problems(data), range(rollouts)):
                rows_RD = draw.normal(size=(8, HIDDEN + len(STATISTICS))).astype(np.float32)
                readings = tuple(
                    RecordedReading(
                        8 * (at + 1),
                        float("nan"),
                        ("1",) * answers,
                        (bool(row_D[0] > 0) and not self.never,) * answers,
                        3,
                    )
                    for at, row_D in enumerate(rows_RD)
                )
                first = inputs.append(rows_RD)
                recordings.append(
                    ProbeRollout(
                        problem.id,
                        number,
                        None,
                        (1,),
                        (2,),
                        True,
                        readings,
                        first_input=first,
                        n_inputs=len(rows_RD.T),
                    )
                )
        budget = replace(IDENTITY.budget, thinking=64)
        interval = settings.interval or 500
        return replace(IDENTITY, checkpoint_interval=interval, budget=budget), recordings


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Recorded:
    recorded = Recorded()
    monkeypatch.setattr("training.probe.train.record_inputs", recorded)
    return recorded


def problems(folder: Path, count: int) -> Path:
    rows = [{"problem": f"What is {i} + 1?", "answer": str(i + 1)} for i in range(count)]
    data = folder / "data.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return data


NO_TOKENS = torch.zeros(2, len(STATISTICS))


def train(model: Path, data: Path, out: Path, *options: str) -> Result:
    command = f"probe --model {model} --data {data} --out {out} --interval 8 --width 16"
    return CliRunner().invoke(app, [*command.split(), *options])


def test_a_probe_is_recorded_fitted_and_written_with_its_card(
    recorded: Recorded, model_folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "probe"
    done = train(model_folder, problems(tmp_path, 20), out, "--rollouts", "3")
    assert done.exit_code == 0, done.output
    assert ProbeConfig.load(out) == ProbeConfig(32, 3 * 16, 8, STATE_AND_TOKENS)
    assert Probe.load(out).confidence(torch.zeros(2, 32), NO_TOKENS).shape == (2,)
    facts = json.loads((out / "metrics.json").read_text())
    assert facts["validation"]["problems"] == 4
    assert facts["validation"]["points"] == 4 * 3 * 8
    assert "3 rollouts per problem, 4 forced answers" in (out / "README.md").read_text()
    (settings,), (journal,) = recorded.settings, recorded.journals
    assert not settings.needs_probe
    assert (settings.interval, settings.max_tokens) == (8, None)
    assert journal == tmp_path / "probe.recordings.jsonl"


def test_how_the_engine_samples_and_runs_can_be_said(
    recorded: Recorded, model_folder: Path, tmp_path: Path
) -> None:
    options = "--thinking none --temperature 0.6 --top-p 0.9 --max-tokens 64 --answer-max-tokens 8"
    options += " --engine-log e.log -- --tensor-parallel-size 2 --quantization fp8"
    done = train(model_folder, problems(tmp_path, 5), tmp_path / "probe", *options.split())
    assert done.exit_code == 0, done.output
    (settings,) = recorded.settings
    assert (settings.temperature, settings.top_p, settings.thinking) == (0.6, 0.9, "none")
    assert (settings.max_tokens, settings.answer_max_tokens) == (64, 8)
    assert settings.log == Path("e.log")
    assert settings.vllm_arguments == ("--tensor-parallel-size", "2", "--quantization", "fp8")


def test_a_probe_outlives_metrics_that_cannot_be_computed(
    recorded: Recorded, model_folder: Path, tmp_path: Path
) -> None:
    recorded.never = True  # 12 problems, none right
    out = tmp_path / "probe"
    done = train(model_folder, problems(tmp_path, 12), out, "--rollouts", "1")
    assert done.exit_code == 0, done.output
    assert "auroc cannot be computed: all 16 targets are below 1/2" in done.output
    assert Probe.load(out).confidence(torch.zeros(2, 32), NO_TOKENS)[0].item() < 0.5
    assert json.loads((out / "metrics.json").read_text())["validation"]["auroc"] is None
    assert "cannot be computed" in (out / "README.md").read_text()


def test_a_probe_may_have_the_papers_form(
    recorded: Recorded, model_folder: Path, tmp_path: Path
) -> None:
    data, out = problems(tmp_path, 5), tmp_path / "probe"
    done = train(model_folder, data, out, "--inputs", "state", "--heads", "1")
    assert done.exit_code == 0, done.output
    assert ProbeConfig.load(out).inputs == STATE_ALONE
    assert Probe.load(out).hidden_weight.shape == (16, 32)
    done = train(model_folder, data, out, "--inputs", "layers")
    assert done.exit_code == 2
    assert "'layers' is not what a probe can read" in done.output


def test_too_few_problems_are_refused_before_anything_is_recorded(
    recorded: Recorded, model_folder: Path, tmp_path: Path
) -> None:
    done = train(model_folder, problems(tmp_path, 2), tmp_path / "probe")
    assert isinstance(done.exception, TrainingRefused)
    assert "2 problems" in str(done.exception)
    assert not recorded.settings


def test_a_folder_that_cannot_be_written_is_refused_before_anything_is_recorded(
    recorded: Recorded, model_folder: Path, tmp_path: Path
) -> None:
    data = problems(tmp_path, 5)
    for out in (data, data / "probe"):
        done = train(model_folder, data, out, "--work", str(tmp_path / "work.jsonl"))
        assert isinstance(done.exception, TrainingRefused)
        assert f"{data} is a file" in str(done.exception)
    assert not recorded.settings


def test_sft_takes_another_shape_from_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[SftConfig] = []

    def train(config: SftConfig, out: Path) -> float:
        asked.append(config)
        return 60.0

    monkeypatch.setattr("training.sft.train", train)
    shape = "configs/warm-starts/embedded-instruct.toml"
    for more in ([], ["--config", shape], ["--config", shape, "--steps", "7", "--seed", "3"]):
        done = CliRunner().invoke(app, ["sft", "--out", str(tmp_path), *more])
        assert done.exit_code == 0, done.output
    plain, other, changed = asked
    assert plain == SftConfig()
    assert (other.layers, other.hidden_size, other.thinking) == (2, 192, False)
    assert changed == replace(other, steps=7, seed=3)
    (tmp_path / "two.toml").write_text("threads = 2\n")
    CliRunner().invoke(app, ["sft", "--out", str(tmp_path), "--config", str(tmp_path / "two.toml")])
    assert asked[-1].threads == 2
    (tmp_path / "odd.toml").write_text("layer = 3\n")
    refused = CliRunner().invoke(
        app, ["sft", "--out", str(tmp_path), "--config", str(tmp_path / "odd.toml")]
    )
    assert isinstance(refused.exception, TrainingRefused)
    assert "there is no setting 'layer'" in str(refused.exception)


def test_what_would_do_nothing_or_cannot_be_written_is_refused(tmp_path: Path) -> None:
    def refusal(*command: str) -> str:
        refused = CliRunner().invoke(app, list(command))
        assert isinstance(refused.exception, TrainingRefused)
        return str(refused.exception)

    run, out = ["rl", "--config", "configs/embedded.toml", "--out", str(tmp_path)], tmp_path / "f"
    said = refusal(*run, "--method", "grpo", "--strength", "0.5")
    assert said.startswith("strength is 0.5, but grpo has no term that it weighs: leave it out")
    out.touch()
    assert "is a file: give a folder" in refusal("export", str(tmp_path), "--out", str(out))
