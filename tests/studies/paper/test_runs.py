from collections import Counter

import pytest

from studies.paper.runs import (
    ABLATED,
    BRIER_WEIGHTS,
    REGULARISERS,
    ROLLOUTS,
    SEEDS,
    STRENGTHS,
    VOTING_ROLLOUTS,
    PaperRun,
    paper_runs,
    run_named,
)
from training.errors import TrainingRefused
from training.rl.rewards.methods import METHODS


def test_every_run_is_there_once_under_a_name_of_its_own() -> None:
    runs = paper_runs()
    assert len({run.name for run in runs}) == len(set(runs)) == len(runs)
    assert {run.method for run in runs} == {"base", *METHODS}


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
