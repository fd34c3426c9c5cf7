"""When a run of the primary comparison counts as done."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from studies.paper.primary.design import CONFIG, run_named
from studies.paper.primary.problems import write_problems
from studies.paper.primary.running import PrimaryStudy, Running
from studies.paper.primary.smoke import smoke_study
from tests.studies.paper.primary.made_primary import made
from training.errors import TrainingRefused
from training.rl.settings import RunSettings

RUN = run_named("rlcm-3")


@pytest.fixture
def study(tmp_path: Path) -> PrimaryStudy:
    config = tmp_path / "primary.toml"
    config.write_text(CONFIG.read_text())
    write_problems(tmp_path / "problems")
    return PrimaryStudy(config, tmp_path / "problems", tmp_path / "out", tmp_path / "results")


def test_a_result_of_the_same_design_is_done(study: PrimaryStudy) -> None:
    assert not study.is_done(RUN)
    replace(made("rlcm", 3, 1.0), design=study.design).write(study.results)
    assert study.is_done(RUN)


@pytest.mark.parametrize("changed", ["primary.toml", "problems/test.jsonl"])
def test_other_settings_or_problems_do_not_take_over_a_result(
    study: PrimaryStudy, tmp_path: Path, changed: str
) -> None:
    replace(made("rlcm", 3, 1.0), design=study.design).write(study.results)
    folder = Running(study, RUN).folder
    path = tmp_path / changed
    path.write_text(path.read_text() + "\n")
    with pytest.raises(TrainingRefused, match=r"rlcm-3\.json was made under another design"):
        study.is_done(RUN)
    assert Running(study, RUN).folder != folder


def test_a_smoke_run_is_short_and_no_run_of_the_study(study: PrimaryStudy, tmp_path: Path) -> None:
    smoke = smoke_study(tmp_path / "smoke")
    settings = RunSettings.load(smoke.config)
    assert (settings.steps, settings.rollouts.max_tokens) == (1, 64)
    assert smoke.design != study.design
