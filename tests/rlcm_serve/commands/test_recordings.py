"""Of `rlcm collect`: what its options ask of the engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from calibration.traces.probe_readings import POLICY_FILE, READINGS_FILE, write_seen_problems
from rlcm_serve.engine.launch import EngineSettings
from rlcm_serve.errors import RequestRefused
from rlcm_serve.profiles.profile import Profile
from rlcm_serve.recording.problems import LabelledProblem, read_problems
from rlcm_serve.recording.trained import seen_problems
from tests.rlcm_serve.command_line import Rlcm


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[EngineSettings]:
    """The engines that would have recorded the problem in d.jsonl."""
    monkeypatch.chdir(tmp_path)
    Path("d.jsonl").write_text('{"problem": "A dial shows 3. A up 4.", "answer": "7"}\n')
    asked: list[EngineSettings] = []

    async def refuse(settings: EngineSettings, *_: object) -> None:
        asked.append(settings)
        raise RequestRefused("data", "nothing is recorded here")

    monkeypatch.setattr("rlcm_serve.recording.offline.record_problems", refuse)
    return asked


def test_how_the_engine_samples_and_runs_can_be_said(
    rlcm: Rlcm, asked: list[EngineSettings]
) -> None:
    rlcm(
        "collect --data d.jsonl --out t.parquet --temperature 0.6 --top-p 0.9 --max-tokens 64 "
        "--answer-max-tokens 8 --thinking none --engine-log e.log -- --tensor-parallel-size 2"
    )
    (settings,) = asked
    assert (settings.temperature, settings.top_p) == (0.6, 0.9)
    assert (settings.max_tokens, settings.answer_max_tokens) == (64, 8)
    assert settings.thinking == "none"
    assert settings.log == Path("e.log")
    assert settings.vllm_arguments == ("--tensor-parallel-size", "2")


def test_what_is_not_said_is_the_models(rlcm: Rlcm, asked: list[EngineSettings]) -> None:
    rlcm("collect --data d.jsonl --out t.parquet")
    (settings,) = asked
    given = (settings.temperature, settings.top_p, settings.max_tokens, settings.answer_max_tokens)
    assert given == (None, None, None, None)


def test_impossible_sampling_is_refused_before_the_engine_starts(
    rlcm: Rlcm, asked: list[EngineSettings]
) -> None:
    status, _, said = rlcm("collect --data d.jsonl --out t.parquet --top-p 0")
    assert status != 0
    assert "top_p is 0" in said
    assert not asked


def test_a_profile_is_read_before_the_engine_starts(
    rlcm: Rlcm, asked: list[EngineSettings], tmp_path: Path
) -> None:
    file = tmp_path / "brief.toml"
    file.write_text("system = 'Be brief.'\nmax_tokens = 64\n")
    rlcm(f"collect --data d.jsonl --out t.parquet --profile {file}")
    (settings,) = asked
    assert settings.profiles == (Profile("brief", system="Be brief.", max_tokens=64),)
    assert settings.profile == "brief"


@pytest.mark.parametrize(
    ("text", "options", "why"),
    [
        ("sytem = 'Be brief.'", "", "did you mean system?"),
        ("template = 'Be brief.'", "", "with {problem} 0 times"),
        ("max_tokens = 64", "--max-tokens 32", "--max-tokens is given as well"),
        ("thinking = 'none'", "--thinking none", "--thinking is given as well"),
    ],
)
def test_a_profile_that_cannot_be_meant_is_refused(
    rlcm: Rlcm, asked: list[EngineSettings], tmp_path: Path, text: str, options: str, why: str
) -> None:
    file = tmp_path / "wrong.toml"
    file.write_text(text)
    status, _, said = rlcm(f"collect --data d.jsonl --out t.parquet --profile {file} {options}")
    assert status == 1
    assert why in said
    assert not asked


def test_problems_that_trained_the_probe_are_refused_before_the_engine_starts(
    rlcm: Rlcm, asked: list[EngineSettings], tmp_path: Path
) -> None:
    write_seen_problems(tmp_path / READINGS_FILE, seen_problems(read_problems(Path("d.jsonl"))))
    status, _, said = rlcm("collect --data d.jsonl --out t.parquet --probe .")
    assert status == 1
    assert "1 of 1 problems trained the probe" in said
    assert not asked
    rlcm("collect --data d.jsonl --out t.parquet --probe . --confidence tail")
    assert len(asked) == 1, "the probe is not read"


def test_problems_that_trained_the_model_are_refused_with_any_confidence(
    rlcm: Rlcm, asked: list[EngineSettings], tmp_path: Path
) -> None:
    write_seen_problems(tmp_path / POLICY_FILE, seen_problems(read_problems(Path("d.jsonl"))))
    status, _, said = rlcm("collect --data d.jsonl --out t.parquet --model . --confidence tail")
    assert status == 1
    assert "1 of 1 problems trained the model" in said
    assert not asked


def test_near_copies_are_reported(rlcm: Rlcm, asked: list[EngineSettings], tmp_path: Path) -> None:
    seen = LabelledProblem("p", "A dial shows 5. A up 1.", "6")
    write_seen_problems(tmp_path / READINGS_FILE, seen_problems([seen]))
    _, _, said = rlcm("collect --data d.jsonl --out t.parquet --probe .")
    assert "warning: 1 of 1 problems differ from one that trained the probe" in said
    assert len(asked) == 1
