import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from studies.paper.primary.design import TEMPERATURE, PrimaryRun
from studies.paper.primary.problems import is_out_of_domain, write_problems
from studies.paper.primary.running import PrimaryStudy, Running
from studies.paper.repeated import PRIMARY_CONFIG, repeated_study, runs_of
from studies.paper.runs import (
    ABLATED,
    AUTHORS,
    BASE,
    BRIER_WEIGHTS,
    COMPARED,
    REGULARISERS,
    ROLLOUTS,
    SEEDS,
    STRENGTHS,
    VOTING_ROLLOUTS,
    PaperRun,
    paper_runs,
    repeated_runs,
    run_named,
)
from training.errors import TrainingRefused
from training.rl.settings import RunSettings


def test_every_run_is_there_once_under_a_name_of_its_own() -> None:
    runs = paper_runs()
    assert len({run.name for run in runs}) == len(set(runs)) == len(runs)
    assert {run.method for run in runs} == {BASE, *COMPARED, *ABLATED}


def test_the_runs_are_those_of_the_papers_tables() -> None:
    counts = Counter(run.method for run in paper_runs())
    assert counts["base"] == counts["grpo"] == len(SEEDS)
    assert counts["rlcm"] == len(SEEDS) + len(STRENGTHS) - 1  # λ = 0.1 is one of the sweep
    assert counts["rlcr"] == len(BRIER_WEIGHTS)  # as is its own weight
    assert counts["c2gspg"] == len(REGULARISERS)
    assert all(counts[method] == 1 for method in ABLATED)


def test_what_the_claims_rest_on_comes_first() -> None:
    assert [run.name for run in paper_runs()[:5]] == [
        "base-0", "grpo-0", "rlcr-1-0", "c2gspg-0.01-0", "rlcm-0.1-0",
    ]  # fmt: skip


def test_names_say_what_a_run_is() -> None:
    assert PaperRun("base", 2, 0.0).name == "base-2"
    assert PaperRun("grpo", 1, 0.0).name == "grpo-1"
    assert PaperRun("rlcm", 0, 0.05).name == "rlcm-0.05-0"
    assert PaperRun("rlcr", 0, 0.0).name == "rlcr-0-0"  # weight 0 is a weight of its own
    assert run_named("final-brier-0.1-0").title == "Final-Brier"
    assert run_named("base-0").title == "Base"


@pytest.mark.parametrize("name", ["rlcm", "rlcm-0.2-0", "grpo-3", ""])
def test_an_unknown_name_is_refused_with_those_there_are(name: str) -> None:
    with pytest.raises(TrainingRefused, match="is no run of the paper: take one of base-0, "):
        run_named(name)


def test_votes_take_more_rollouts_than_the_rest() -> None:
    voting = {run.name for run in paper_runs() if run.rollouts == VOTING_ROLLOUTS}
    assert voting == {"base-0", "grpo-0", "rlcr-1-0", "c2gspg-0.01-0", "rlcm-0.1-0"}
    assert {run.rollouts for run in paper_runs() if run.name not in voting} == {ROLLOUTS}


def test_the_second_study_has_every_variant_with_every_seed() -> None:
    runs = repeated_runs()
    assert len({run.name for run in runs}) == len(runs)
    assert set(paper_runs()) < set(runs)
    seeds = Counter((run.method, run.strength) for run in runs)
    assert set(seeds.values()) == {len(SEEDS)}
    assert {run.method for run in runs} == {BASE, *COMPARED, *ABLATED, *AUTHORS}
    assert [run.seed for run in runs] == sorted(run.seed for run in runs)
    assert run_named("rlcr-0.3-2", runs).strength == 0.3


def test_methods_are_chosen_by_name_at_their_own_lambda() -> None:
    names = [run.name for run in runs_of("base, grpo,rlcm")]
    assert names[:3] == ["base-0", "grpo-0", "rlcm-0.1-0"]
    assert len(names) == 3 * len(SEEDS)
    assert runs_of(None) == repeated_runs()
    with pytest.raises(TrainingRefused, match="'rloo' has no run: --methods takes base, grpo, "):
        runs_of("grpo,rloo")


def test_only_the_same_base_model_shares_policies_with_the_primary_comparison(
    tmp_path: Path,
) -> None:
    out, primary = tmp_path / "out", tmp_path / "primary"
    study = repeated_study(out, tmp_path, primary=primary)
    write_problems(primary / "problems")
    compared = PrimaryStudy(PRIMARY_CONFIG, primary / "problems", primary, tmp_path)
    assert study.same == Running(compared, PrimaryRun("grpo", 0)).folder.parent
    assert repeated_study(out, tmp_path, "runs/other", primary).same is None


def test_results_of_another_base_model_are_of_another_design(tmp_path: Path) -> None:
    designs = {
        repeated_study(tmp_path / out, tmp_path / "results", model).design
        for out in ("one", "two")
        for model in ("embedded-sft", "runs/other")
    }
    assert len(designs) == 2
    assert "" not in designs


def test_the_second_study_trains_and_tests_as_the_primary_comparison_does(tmp_path: Path) -> None:
    study = repeated_study(tmp_path / "out", tmp_path / "results", "runs/other")
    settings = study.settings(run_named("rlcm-0.3-1", repeated_runs()))
    primary = RunSettings.load(PRIMARY_CONFIG)
    same = replace(primary, model="runs/other", method="rlcm", strength=0.3, seed=1)
    assert replace(settings, data=same.data) == same
    assert settings.data.source == str(tmp_path / "out/problems/train.jsonl")
    assert (study.temperature, study.rollouts) == (TEMPERATURE, 8)
    asked = [
        Path(file).read_text().splitlines()
        for file in (study.benchmark, study.out_of_domain, tmp_path / "out/problems/test.jsonl")
    ]
    trained, unseen, every = asked
    assert sorted(trained + unseen) == sorted(every)
    assert (len(trained), len(unseen)) == (300, 70)
    assert all(is_out_of_domain(json.loads(line)["id"]) for line in unseen)
    before = {path: path.read_bytes() for path in (tmp_path / "out").rglob("*.*")}
    repeated_study(tmp_path / "out", tmp_path / "results", "runs/other")
    assert before == {path: path.read_bytes() for path in (tmp_path / "out").rglob("*.*")}
