"""Of `rlcm train check-probe`: what it finds wrong, and how the engine reads a probe."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch
from rich.console import Console
from typer.testing import CliRunner

from rlcm_serve.engine.launch import EngineSettings
from rlcm_serve.engine.model_files import EMBEDDED_MODEL
from rlcm_serve.engine.worker.probe import Probe
from rlcm_serve.errors import ModelRefused
from rlcm_serve.profiles.profile import Profile
from tests.rlcm_serve.engine.lora import write_adapter
from training.commands import app
from training.probe.check import ProbeCheck, check_probe
from training.probe.reference import reference_inputs


def check(readings: tuple[float, ...], expected: tuple[float, ...] | None = None) -> ProbeCheck:
    return ProbeCheck(tuple(range(len(readings))), readings, expected, tolerance=1e-4)


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (check((0.5, math.nan)), "a reading is nan"),
        (check((0.5, 1.5)), "a reading is 1.5"),
        (check((0.0, 1.0, 1e-9)), "every reading is 0 or 1"),
        (check((0.5, 0.7), (0.5, 0.71)), r"differ by 0\.01, more than 0\.0001"),
        (check((0.5, 0.7), (0.5, math.nan)), "differ by nan"),
    ],
)
def test_what_is_wrong_is_said(found: ProbeCheck, why: str) -> None:
    with pytest.raises(AssertionError, match=why):
        assert not found.faults, found.faults


@pytest.mark.parametrize("found", [check((0.0, 0.4)), check((0.5,), (0.50004,))])
def test_what_works_is_not_blamed(found: ProbeCheck) -> None:
    assert not found.faults


def test_the_command_shows_the_readings_and_ends_with_a_status(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tutor.toml").write_text('system = "You read dials."')
    found = [check((0.25, 0.5), (0.25, 0.5)), check((0.25, 0.5), (0.25, 0.75))]
    asked: list[EngineSettings] = []

    def answer(settings: EngineSettings, *_: object, compare: bool) -> ProbeCheck:
        asked.append(settings)
        assert compare
        return found.pop(0)

    monkeypatch.setattr("training.probe.check.check_probe", answer)
    command = [
        "check-probe",
        "mine",
        "--model",
        "embedded",
        "--profile",
        "tutor.toml",
        "--engine-log",
        "e.log",
        "--",
        "--max-num-seqs",
        "4",
    ]
    works = CliRunner().invoke(app, command)
    assert works.exit_code == 0
    assert "engine 0.250000   transformers 0.250000" in works.output
    assert "the probe works with embedded; largest difference 0.0e+00" in works.output
    assert asked[0].probe == Path("mine")
    assert asked[0].profile == "tutor"
    assert asked[0].vllm_arguments == ("--max-num-seqs", "4")
    fails = CliRunner().invoke(app, command)
    assert fails.exit_code == 1
    assert "wrong: the engine and transformers differ by 0.25" in fails.output


def test_a_reading_that_is_no_number_is_null_in_json(monkeypatch: pytest.MonkeyPatch) -> None:
    found = check((0.5, math.nan), (0.5, math.inf))
    monkeypatch.setattr("training.probe.check.check_probe", lambda *_, **__: found)
    command = ["check-probe", "mine", "--model", "embedded", "--no-reference", "--json"]
    shown = CliRunner().invoke(app, command)
    facts = json.loads(shown.output, parse_constant=pytest.fail)
    assert (facts["readings"], facts["expected"]) == ([0.5, None], [0.5, None])
    assert "a reading is nan" in facts["faults"][0]
    assert shown.exit_code == 1


def test_a_probe_for_another_model_is_refused_before_the_engine_starts(tmp_path: Path) -> None:
    other = Probe(torch.ones(2, 7), torch.ones(2), torch.ones(1, 2), torch.ones(1))
    other.save(tmp_path, 16)
    with pytest.raises(ModelRefused, match="reads states of size 7, but this model's hidden size"):
        check_probe(EngineSettings(probe=tmp_path), "1 + 1?", Console(quiet=True))


@pytest.mark.engine
def test_the_engine_reads_a_probe_of_ones_own_as_transformers_do(tmp_path: Path) -> None:
    torch.manual_seed(0)
    own = Probe(0.2 * torch.randn(8, 160), torch.zeros(8), torch.randn(1, 8), torch.zeros(1))
    own.save(tmp_path, 24)
    found = check_probe(EngineSettings(probe=tmp_path), "What is 17 + 25?", Console(quiet=True))
    assert not found.faults
    assert found.cuts[:-1] == tuple(range(24, found.cuts[-1], 24))
    assert max(found.readings) - min(found.readings) > 1e-3


@pytest.mark.engine
def test_under_a_profile_both_read_its_prompt_through_its_adapter(tmp_path: Path) -> None:
    torch.manual_seed(0)
    own = Probe(0.2 * torch.randn(8, 160), torch.zeros(8), torch.randn(1, 8), torch.zeros(1))
    own.save(tmp_path / "probe", 24)
    adapter = write_adapter(tmp_path / "adapter")
    tutor = Profile(name="tutor", system="You read dials.", adapter=adapter)
    settings = EngineSettings(probe=tmp_path / "probe", profiles=(tutor,))
    found = check_probe(settings, "What is 17 + 25?", Console(quiet=True))
    assert not found.faults
    plain = reference_inputs(EMBEDDED_MODEL, (1, 2), (3, 4), ())[0]
    adapted = reference_inputs(EMBEDDED_MODEL, (1, 2), (3, 4), (), adapter)[0]
    assert not torch.allclose(plain, adapted, atol=1e-2), "the adapter changes the states"
