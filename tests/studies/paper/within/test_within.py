"""The pilot of ideas on made results."""

from __future__ import annotations

import pytest

from studies.paper.primary.design import PILOT_SEEDS, POSTHOC, RICHER, SEEDS
from studies.paper.primary.result import PrimaryResult
from studies.paper.primary.secondary import TRAINED, panel_figures
from studies.paper.within.design import BEST, IDEAS, OWN_METHODS, PILOT_METHODS, run_named, runs
from studies.paper.within.tables import own_text, pilot_text, to_confirm
from tests.studies.paper.primary.made_primary import made
from training.errors import TrainingRefused
from training.rl.rewards.methods import METHODS

FEW = 30
"""Resamples."""


def results(tells: dict[str, float], seeds: tuple[int, ...]) -> dict[str, PrimaryResult]:
    """Results of these methods, by how much their confidence tells."""
    probes = (POSTHOC, RICHER)
    found = [
        made(method, seed, own, probes=probes) for method, own in tells.items() for seed in seeds
    ]
    return {one.name: one for one in found}


def test_runs_are_known_methods_on_the_pilots_seeds_and_the_best_one_has_its_own() -> None:
    names = [run.name for run in runs()]
    assert names[:2] == ["rlcm-ranking-100", "rlcm-between-100"]
    assert names[12:] == [f"{BEST}-{seed}" for seed in SEEDS]
    assert {run.method for run in runs()} == set(IDEAS) < set(METHODS)
    assert run_named("rlcm-between-102").seed == 102
    with pytest.raises(TrainingRefused, match="'rlcm-9' is no run"):
        run_named("rlcm-9")


def test_the_pilot_names_the_idea_that_tells_most() -> None:
    tells = dict.fromkeys(PILOT_METHODS, 1.0) | {"rlcm-between": 2.5}
    found = results(tells, PILOT_SEEDS)
    text = pilot_text(found, FEW)
    assert "To be confirmed: rlcm-between." in text
    assert "No verdict" in text
    del found["grpo-101"]
    assert "17 of 18 runs are there; missing: grpo-101." in pilot_text(found, FEW)


def test_nothing_is_chosen_if_a_run_collapsed() -> None:
    found = results(dict.fromkeys(PILOT_METHODS, 1.0), PILOT_SEEDS)
    found["rlcm-rising-102"] = made("rlcm-rising", 102, 1.0, probes=(POSTHOC, RICHER), skill=-9.0)
    text = pilot_text(found, FEW)
    assert "Nothing is chosen: 0 problems are mixed in every run, and 30 are needed." in text
    assert "No idea" not in text


def test_no_idea_is_confirmed_that_tells_less_than_rlcm() -> None:
    found = results(dict.fromkeys(PILOT_METHODS, 1.0) | {"rlcm": 3.0}, PILOT_SEEDS)
    assert to_confirm(panel_figures(found, PILOT_SEEDS, TRAINED, FEW, PILOT_METHODS)) is None


def test_the_best_idea_is_judged_against_rlcm_once_all_its_seeds_are_there() -> None:
    found = results(dict.fromkeys(OWN_METHODS, 1.0) | {BEST: 2.5}, SEEDS)
    text = own_text(found, FEW)
    (within, accuracy) = (line for line in text.splitlines() if line.startswith(f"| {BEST} |"))
    assert "| AUROC within a question | +" in within
    assert "| better |" in within
    assert "| accuracy |" in accuracy
    assert f"To be confirmed: {BEST}." in text
    del found[f"{BEST}-9"]
    early = own_text(found, FEW)
    assert early.startswith(f"29 of 30 runs are there; missing: {BEST}-9. `make paper-primary`")
    assert "|" not in early, "no figure before the last seed"


@pytest.mark.parametrize(("tells", "skill"), [(1.0, 0.0), (2.5, -0.4)])
def test_the_best_idea_stays_a_result_if_it_tells_no_more_or_is_less_often_right(
    tells: float, skill: float
) -> None:
    found = results(dict.fromkeys(OWN_METHODS, 1.0), SEEDS)
    for seed in SEEDS:
        one = made(BEST, seed, tells, probes=(POSTHOC, RICHER), skill=skill)
        found[one.name] = one
    assert f"{BEST} stays a result." in own_text(found, FEW)
