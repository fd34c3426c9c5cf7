import json
from pathlib import Path

import pytest
import torch
from rich.console import Console
from typer.testing import CliRunner

from rlcm_serve.engine.contract import EngineIdentity
from rlcm_serve.engine.launch import EngineSettings
from rlcm_serve.engine.worker.probe import Probe, ProbeConfig
from rlcm_serve.recording.rollouts import RecordedReading, RecordedRollout
from tests.rlcm_serve.scripted_engine import IDENTITY
from training.commands import app

pytestmark = pytest.mark.slow


class Recorded:
    """Stands for recording: 20 problems, right whenever the cut's token is an even one."""

    def __init__(self) -> None:
        self.settings: list[EngineSettings] = []
        self.journals: list[Path] = []

    async def __call__(
        self,
        settings: EngineSettings,
        data: Path,
        journal: Path,
        rollouts: int,
        answers: int,
        console: Console,
    ) -> tuple[EngineIdentity, list[RecordedRollout]]:
        self.settings.append(settings)
        self.journals.append(journal)
        draw = torch.Generator().manual_seed(0)
        recordings = []
        for number in range(20 * rollouts):
            tokens = tuple(torch.randint(96, (64,), generator=draw).tolist())
            readings = tuple(
                RecordedReading(
                    cut, float("nan"), ("1",) * answers, (tokens[cut - 1] % 2 == 0,) * answers, 3
                )
                for cut in range(8, 65, 8)
            )
            name = f"p{number % 20}"
            recordings.append(
                RecordedRollout(name, number // 20, None, (1, 2, 3), tokens, True, readings)
            )
        return IDENTITY, recordings


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Recorded:
    recorded = Recorded()
    monkeypatch.setattr("rlcm_serve.recording.offline.record_problems", recorded)
    return recorded


def test_a_probe_is_recorded_fitted_and_written_with_its_card(
    recorded: Recorded, model_folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "probe"
    command = f"probe --model {model_folder} --data d.jsonl --out {out} --interval 8"
    done = CliRunner().invoke(app, [*command.split(), "--rollouts", "3", "--width", "16"])
    assert done.exit_code == 0, done.output
    assert ProbeConfig.load(out) == ProbeConfig(hidden_size=32, width=16, checkpoint_interval=8)
    assert Probe.load(out).confidence(torch.zeros(2, 32)).shape == (2,)
    facts = json.loads((out / "metrics.json").read_text())
    assert facts["validation"]["problems"] == 4
    assert facts["validation"]["points"] == 4 * 3 * 8
    assert "3 rollouts per problem, 4 forced answers" in (out / "README.md").read_text()
    (settings,), (journal,) = recorded.settings, recorded.journals
    assert not settings.needs_probe
    assert (settings.interval, settings.max_tokens) == (8, None)
    assert journal == tmp_path / "probe.recordings.jsonl"
