"""A step of the trainer between sampling and the policy's update, through a real TransferQueue."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
import torch
import transfer_queue as queue
from tensordict import TensorDict
from transfer_queue import KVBatchMeta
from verl.utils.tensordict_utils import list_of_dict_to_tensordict
from verl.utils.transferqueue_utils import _meta_to_realdata

from tests.training.verl.conftest import config_of, inputs_of
from tests.training.verl.on_cpu import cpu_engine, with_settings
from training.errors import TrainingRefused
from training.rl.inputs import RunInputs
from training.rl.rewards.rewards import GradedRollout
from training.rl.settings import ProbeSettings
from training.verl.engine import STATES
from training.verl.graded import to_info
from training.verl.recipe import FORCED
from training.verl.trainer import RLCMTrainer

pytestmark = pytest.mark.verl


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)
    try:
        queue.init()
        yield
        queue.close()
    finally:
        ray.shutdown()


class Workers:
    """A double of veRL's worker group: one worker, in this process, on the CPU."""

    def __init__(self, inputs: RunInputs) -> None:
        self._engine = cpu_engine(inputs)

    def compute_log_prob(self, batch: KVBatchMeta) -> KVBatchMeta:
        """Reads the batch from the queue, makes a pass, and puts the outputs back."""
        data = with_settings(_meta_to_realdata(batch), {"use_remove_padding": False})
        with_settings(data, {"pad_token_id": 0})
        arguments, kept = self._engine.prepare_model_inputs(data)
        with torch.no_grad():
            output = self._engine.module(**arguments, use_cache=False)
            found = self._engine.prepare_model_outputs(output, kept, data, None)
        fields = TensorDict(found, batch_size=len(batch))
        return queue.kv_batch_put(keys=batch.keys, partition_id=batch.partition_id, fields=fields)


def trainer_of(folder: Path, **changes: Any) -> RLCMTrainer:
    inputs = inputs_of(folder, **changes)
    trainer = RLCMTrainer(config_of(inputs, folder / "run"))
    trainer.actor_rollout_wg = Workers(inputs)
    trainer.tokenizer = inputs.tokenizer
    trainer.global_steps = 1
    return trainer


BUDGETS = list(range(2, 18, 2))
TARGETS = [(0.0,) * 4 + (1.0,) * 4, (0.0,) * 4 + (0.5,) * 4, (1.0,) * 8, (0.0,) * 8]
RIGHT = [True, False, True, False]


def submitted(name: str, filling: int = 0) -> KVBatchMeta:
    """Four graded rollouts of two prompts in the queue, as agent loop and reward worker left them.

    Args:
        name: of the batch; keys in the queue are unique.
        filling: rows that veRL adds so that all its workers have equally many.
    """
    generator = torch.Generator().manual_seed(3)
    rows, tags, keys = [], [], []
    for number in range(4 + filling):
        is_real = number < 4
        prompt = torch.randint(5, 60, (4 + number % 2,), generator=generator)
        response = torch.randint(5, 60, (20 + number,) if is_real else (1,), generator=generator)
        graded = GradedRollout(RIGHT[number % 4], target_B=TARGETS[number % 4])
        scores = torch.zeros(len(response))
        scores[-1] = 1.0 if graded.is_right and is_real else -1.0
        whole = torch.cat([prompt, response])
        rows.append(
            {
                "uid": f"{name}{number // 2}",
                "prompts": prompt,
                "responses": response,
                "input_ids": whole,
                "position_ids": torch.arange(len(whole)),
                "response_mask": torch.ones_like(response) * is_real,
                "loss_mask": torch.ones_like(response) * is_real,
                "rollout_log_probs": torch.zeros(len(response)) - 1.0,
                "rm_scores": scores * is_real,
                "extra_fields": {
                    FORCED: {"length": len(response) - 2, "budgets": BUDGETS, "forced": []},
                    "reward_extra_info": to_info(graded),
                },
            }
        )
        tags.append({"is_padding": True} if not is_real else {"status": "success"})
        keys.append(f"{name}{number // 2}_{number % 2}_0")
    queue.kv_batch_put(
        keys=keys, partition_id="train", fields=list_of_dict_to_tensordict(rows), tags=tags
    )
    batch = KVBatchMeta(partition_id="train", keys=keys, tags=tags)
    batch.extra_info["temperature"] = 0.8
    return batch


def stepped(trainer: RLCMTrainer, batch: KVBatchMeta) -> tuple[Any, dict[str, Any]]:
    """The batch's rewards and advantages after veRL's part of the step, and the metrics."""
    metrics: dict[str, Any] = {}
    batch = trainer._compute_old_log_prob(batch, metrics)
    batch = trainer._compute_advantage(batch, metrics)
    found = queue.kv_batch_get(
        keys=batch.keys,
        partition_id=batch.partition_id,
        select_fields=["rm_scores", "advantages", "old_log_probs"],
    )
    return found, metrics


def test_rewards_read_the_probe_at_the_states_of_the_same_pass(
    cluster: None, tmp_path: Path
) -> None:
    trainer = trainer_of(tmp_path, probe=ProbeSettings(width=8), strength=0.5)
    found, metrics = stepped(trainer, submitted("a"))
    rewards = [float(own.sum()) for own in found["rm_scores"].unbind()]
    assert all(not own[:-1].any() for own in found["rm_scores"].unbind())
    parts = [
        2 * (reward - (1 if right else -1)) for reward, right in zip(rewards, RIGHT, strict=True)
    ]
    assert all(0 < abs(part) < 1 for part in parts)
    assert parts[2] > 0 > parts[3]  # budgets of one side alone: the mean of C_b, or minus it
    first = [own[0].item() for own in found["advantages"].unbind()]
    assert first[0] > 0 > first[1]
    assert first[2] > 0 > first[3]
    assert metrics["rlcm/accuracy"] == 0.5
    assert metrics["rlcm/budgets/both_sides"] == 0.5
    assert 0 < metrics["rlcm/probe/bce"] < 2


def test_rows_that_fill_the_batch_are_left_out(cluster: None, tmp_path: Path) -> None:
    plain, filled = tmp_path / "plain", tmp_path / "filled"
    rewards = []
    for folder, filling in ((plain, 0), (filled, 2)):
        folder.mkdir()
        found, _ = stepped(trainer_of(folder), submitted(folder.name, filling))
        rewards.append([float(own.sum()) for own in found["rm_scores"].unbind()])
    assert rewards[1] == pytest.approx([*rewards[0], 0.0, 0.0])


def test_a_method_without_a_probe_is_verls_own_step(cluster: None, tmp_path: Path) -> None:
    trainer = trainer_of(tmp_path, method="grpo")
    batch = submitted("g")
    found, metrics = stepped(trainer, batch)
    assert [float(own.sum()) for own in found["rm_scores"].unbind()] == [1, -1, 1, -1]
    assert trainer.supervision.probe is None
    assert not any(name.startswith("rlcm/") for name in metrics)


def test_states_are_not_sent_to_the_policys_update(cluster: None, tmp_path: Path) -> None:
    trainer = trainer_of(tmp_path)
    batch = trainer._compute_old_log_prob(submitted("u"), {})
    found = queue.kv_batch_get(keys=batch.keys, partition_id="train")
    assert STATES in found.keys()  # noqa: SIM118  # a TensorDict iterates over rows
    sent: list[Any] = []

    def update_actor(batch: Any) -> Any:
        sent.append(batch.fields)
        return {"metrics": {"mfu": 0.0}}

    trainer.actor_rollout_wg.update_actor = update_actor
    trainer.distillation_config = None
    trainer._update_actor(trainer._compute_advantage(batch, {}), {})
    assert "advantages" in sent[0]
    assert STATES not in sent[0]


def test_a_run_continues_with_its_probe_or_says_what_is_missing(
    cluster: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(trainer: Any) -> None:
        trainer.global_steps = 2

    monkeypatch.setattr("verl.trainer.ppo.v1.trainer_sync.PPOTrainerSync._save_checkpoint", none)
    monkeypatch.setattr("verl.trainer.ppo.v1.trainer_sync.PPOTrainerSync._load_checkpoint", none)
    first = trainer_of(tmp_path)
    stepped(first, submitted("c"))
    first.global_steps = 2
    first._save_checkpoint()
    second = RLCMTrainer(first.config)
    second._load_checkpoint()
    assert first.supervision.probe is not None
    assert second.supervision.probe is not None
    mine, theirs = (own.supervision.probe.state_dict() for own in (first, second))
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)

    next(tmp_path.rglob("probe.pt")).unlink()
    with pytest.raises(TrainingRefused, match=r"probe.pt is missing: give another --out"):
        RLCMTrainer(first.config)._load_checkpoint()
