"""The parts of the adapter that need no veRL."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from pyarrow import parquet

from tests.training.verl.conftest import SMALL
from training.errors import TrainingRefused
from training.rl.folder import check_folder
from training.rl.inputs import RunInputs
from training.rl.rewards.rewards import GradedRollout
from training.rl.settings import (
    LoraSettings,
    PolicySettings,
    ProbeSettings,
    RunSettings,
)
from training.rl.trainer.batch import Batch
from training.verl.folder import write_folder
from training.verl.graded import from_info, to_info
from training.verl.overrides import CHECKPOINTS, Cluster, check_for_verl, hydra_overrides
from training.verl.supervision import Supervision

CONFIGS = Path(__file__).parents[3] / "configs"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (replace(SMALL, method="c2gspg"), "method 'c2gspg' adds a term to the loss"),
        (replace(SMALL, method="rlcm-ranking"), "'rlcm-ranking' compares the rollouts"),
        (replace(SMALL, lora=LoraSettings()), r"\[lora\] is set"),
        (replace(SMALL, trainer={"top_k": 5}), r"\[trainer\] sets fields of TRL"),
        (replace(SMALL, policy=PolicySettings(schedule="linear")), "schedule .* is 'linear'"),
        (replace(SMALL, policy=PolicySettings(bf16=False)), r"bf16 in \[policy\] is false"),
    ],
)
def test_what_the_adapter_does_not_do_is_refused(settings: RunSettings, message: str) -> None:
    with pytest.raises(TrainingRefused, match=f"{message}.* train on one node"):
        check_for_verl(settings)


@pytest.mark.parametrize("name", ["r1-distill-qwen-7b.toml", "qwen3-4b-instruct.toml"])
def test_the_files_of_runs_on_gpus_can_be_used(name: str) -> None:
    settings = RunSettings.load(CONFIGS / name)
    assert settings.engine.mode == "server", "the setting that veRL's own servers ignore"
    check_for_verl(settings)


def test_the_folder_holds_what_the_processes_of_a_run_read(
    inputs: RunInputs, tmp_path: Path
) -> None:
    write_folder(inputs, tmp_path)
    write_folder(inputs, tmp_path)
    rows = parquet.read_table(tmp_path / "problems.parquet").to_pylist()
    assert [row["reward_model"]["ground_truth"] for row in rows] == [
        own.answer for own in inputs.problems.problems
    ]
    (tmp_path / CHECKPOINTS / "global_step_1").mkdir(parents=True)
    with pytest.raises(TrainingRefused, match=r"strength was None and is 0\.3"):
        check_folder(replace(inputs.settings, strength=0.3), tmp_path)


def test_the_policys_step_is_that_of_the_other_trainer(inputs: RunInputs) -> None:
    authors = replace(inputs.settings, policy=PolicySettings(loss="dapo", warmup_steps=10))
    found = hydra_overrides(replace(inputs, settings=authors), Path("/run"), Cluster(2, 4))
    wanted = {
        "trainer.nnodes=2",
        "trainer.n_gpus_per_node=4",
        "actor_rollout_ref.actor.loss_agg_mode=token-mean",
        "actor_rollout_ref.actor.optim.lr_warmup_steps=10",
        "algorithm.rollout_correction.rollout_is=token",
        "+rlcm.run='/run'",
    }
    assert wanted <= set(found)


def test_held_out_rollouts_are_sampled_with_the_runs_top_p(inputs: RunInputs) -> None:
    settings = replace(inputs.settings, rollouts=replace(inputs.settings.rollouts, top_p=0.9))
    found = hydra_overrides(replace(inputs, settings=settings), Path("/run"), Cluster())
    rollout = "actor_rollout_ref.rollout"
    assert {f"{rollout}.top_p=0.9", f"{rollout}.val_kwargs.top_p=0.9"} <= set(found)


def validated(infos: list[dict[str, float | str]]) -> dict[str, float]:
    """A double of veRL's `process_validation_metrics`: the means of all but texts and None."""
    columns = {name: [own[name] for own in infos if own[name] is not None] for name in infos[0]}
    return {
        name: float(np.mean(np.array(values)))
        for name, values in columns.items()
        if values and not isinstance(values[0], str)
    }


def test_a_graded_rollout_comes_through_verl_and_its_validation() -> None:
    held_out = GradedRollout(is_right=True)
    in_training = GradedRollout(False, True, 0.25, target_B=(0.5, 1.0))
    infos = [to_info(held_out), to_info(in_training)]
    assert validated(infos) == {"acc": 0.5}
    assert [from_info(own) for own in infos] == [held_out, in_training]


def step() -> Batch:
    """16 rollouts with two budgets each, whose states lie along the target."""
    targets: list[tuple[float, ...]] = [(0.0, float(row % 2 == 0)) for row in range(16)]
    budgets: list[tuple[int, ...]] = [(3, 6) for _ in targets]
    states = {
        row: torch.tensor([*own, 0.5])[:, None].repeat(1, 4) + row % 2 / 10
        for row, own in enumerate(targets)
    }
    graded = [GradedRollout(own[-1] == 1, target_B=own) for own in targets]
    none: list[list[int]] = [[] for _ in targets]
    return Batch(none, none, 16 * [9], budgets, [], targets, states, graded)


def test_the_reward_is_the_methods_over_the_probes_readings() -> None:
    settings = replace(SMALL, strength=0.5, probe=ProbeSettings(width=4))
    supervision, batch = Supervision(settings), step()
    rewards, curves = supervision.rewards(batch, 1)
    expected = []
    for own in batch.graded:
        low, high = own.confidence_B
        margin = high - low if own.is_right else -(low + high) / 2
        expected.append((1 if own.is_right else -1) + 0.5 * margin)
    assert rewards == pytest.approx(expected)
    assert curves["accuracy"] == 0.5
    assert curves["probe/target"] == 0.25


def test_first_rollouts_without_a_budget_end_the_run() -> None:
    batch = step()
    batch.budgets, batch.targets = [() for _ in range(16)], [() for _ in range(16)]
    with pytest.raises(TrainingRefused, match="the longest of the first rollouts has 9 tokens"):
        Supervision(SMALL).rewards(batch, 1)


def test_states_that_are_no_numbers_end_the_run_before_the_probe_learns() -> None:
    supervision, batch = Supervision(SMALL), step()
    supervision.rewards(step(), 1)
    batch.states[1][0, 0] = torch.nan
    with pytest.raises(TrainingRefused, match="states of 1 rollouts in step 2 are NaN or infinite"):
        supervision.rewards(batch, 2)
    assert supervision.probe is not None
    assert all(own.isfinite().all() for own in supervision.probe.parameters())


@pytest.mark.parametrize("learns_first", [True, False])
def test_the_probe_learns_before_or_after_rewards_read_it(learns_first: bool) -> None:
    probe = ProbeSettings(width=4, learns_first=learns_first, learning_rate=0.1, updates=20)
    supervision, untrained = Supervision(replace(SMALL, probe=probe)), step()
    supervision.rewards(untrained, 1)
    again = Supervision(replace(SMALL, probe=replace(probe, updates=1, learning_rate=1e-9)))
    first = step()
    again.rewards(first, 1)
    same = untrained.graded[0].confidence_B == pytest.approx(first.graded[0].confidence_B, abs=1e-4)
    assert same is not learns_first
