"""veRL's synchronous trainer with states at the cuts, rewards that read a probe, and the probe."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transfer_queue as queue
from tensordict import TensorDict
from torch import Tensor
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync

from training.errors import TrainingRefused
from training.rl.trainer.batch import Batch
from training.rl.trainer.joint_probe import PROBE_STATE
from training.verl.engine import AVERAGED, CUTS, STATES
from training.verl.graded import from_info
from training.verl.recipe import FORCED, recipe_of
from training.verl.supervision import Supervision


class RLCMTrainer(PPOTrainerSync):
    """Adds RLCM's part to two steps of veRL's: log-probabilities, and advantages.

    For methods without a probe it is veRL's trainer.
    """

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.settings = recipe_of(config).settings
        self.supervision = Supervision(self.settings)

    def _compute_old_log_prob(self, batch: Any, metrics: dict[str, Any]) -> Any:
        """Also gets the states at the cuts, in the same pass."""
        if self.settings.forces:
            cuts = [torch.tensor(_cuts(own)) for own in _extra_fields(batch)]
            batch = _put(batch, {CUTS: _nested(cuts)})
            batch.extra_info[AVERAGED] = self.settings.probe.states
        return super()._compute_old_log_prob(batch, metrics)

    def _compute_advantage(self, batch: Any, metrics: dict[str, Any]) -> Any:
        """Replaces the rewards by those that read the probe, and trains the probe."""
        if self.settings.forces:
            batch = self._reward(batch, metrics)
        return super()._compute_advantage(batch, metrics)

    def _reward(self, batch: Any, metrics: dict[str, Any]) -> Any:
        data = queue.kv_batch_get(
            keys=batch.keys,
            partition_id=batch.partition_id,
            select_fields=[STATES, "response_mask"],
        )
        rows = [at for at, own in enumerate(_extra_fields(batch)) if own is not None]
        rollouts = _collected(_extra_fields(batch), data[STATES].unbind())
        rewards, curves = self.supervision.rewards(rollouts, self.global_steps)
        metrics |= {f"rlcm/{name}": value for name, value in curves.items()}
        scores = [torch.zeros(len(own)) for own in data["response_mask"].unbind()]
        for row, reward in zip(rows, rewards, strict=True):
            scores[row][-1] = reward
        return _put(
            batch, {"rm_scores": torch.nested.as_nested_tensor(scores, layout=torch.jagged)}
        )

    def _update_actor(self, batch: Any, metrics: dict[str, Any]) -> Any:
        """The policy's step needs no states: they stay in the queue."""
        if batch.fields is not None:
            batch.fields = [name for name in batch.fields if name not in (CUTS, STATES)]
        return super()._update_actor(batch, metrics)

    def _save_checkpoint(self) -> None:
        """Saves the probe first: a checkpoint counts once veRL has noted it as the latest."""
        if self.supervision.probe is not None:
            folder = self._checkpoint()
            folder.mkdir(parents=True, exist_ok=True)
            torch.save(self.supervision.probe.whole_state(), folder / PROBE_STATE)
        super()._save_checkpoint()

    def _load_checkpoint(self) -> None:
        """Loads veRL's checkpoint and the probe beside it.

        Raises:
            TrainingRefused: the checkpoint has no probe, or one that cannot continue.
        """
        super()._load_checkpoint()
        if self.global_steps and self.settings.forces:
            path = self._checkpoint() / PROBE_STATE
            if not path.exists():
                raise TrainingRefused(f"{path} is missing: give another --out to start again")
            self.supervision.restore(torch.load(path, map_location="cpu"))

    def _checkpoint(self) -> Path:
        return Path(self.config.trainer.default_local_dir) / f"global_step_{self.global_steps}"


def _extra_fields(batch: Any) -> list[dict[str, Any] | None]:
    """The extra fields of each row of a batch; None for rows that veRL added to fill it up."""
    data = _get(batch, "extra_fields")
    return [
        None if tag.get("is_padding") else own
        for own, tag in zip(list(data["extra_fields"]), batch.tags, strict=True)
    ]


def _cuts(extra_fields: dict[str, Any] | None) -> list[int]:
    """The budgets of a rollout, then the end of its reasoning; a filling row has one token."""
    if extra_fields is None:
        return [1]
    forced = extra_fields[FORCED]
    return [*forced["budgets"], forced["length"]]


def _collected(extra_fields: list[dict[str, Any] | None], states: Any) -> Batch:
    """The rollouts of a step, without the rows that fill the batch up."""
    real = [own for own in extra_fields if own is not None]
    flat = [own for own, extra in zip(states, extra_fields, strict=True) if extra is not None]
    graded = [from_info(own["reward_extra_info"]) for own in real]
    return Batch(
        prompts=[[] for _ in real],
        completions=[[] for _ in real],
        lengths=[own[FORCED]["length"] for own in real],
        budgets=[tuple(own[FORCED]["budgets"]) for own in real],
        targets=[own.target_B for own in graded],
        states={at: own.reshape(len(_cuts(real[at])), -1) for at, own in enumerate(flat)},
        graded=graded,
    )


def _nested(rows: list[Tensor]) -> Tensor:
    """Rows of different lengths as one tensor of the queue."""
    return torch.nested.as_nested_tensor(rows, layout=torch.jagged)


def _get(batch: Any, *fields: str) -> Any:
    """These fields of a batch, from the queue."""
    return queue.kv_batch_get(
        keys=batch.keys, partition_id=batch.partition_id, select_fields=list(fields)
    )


def _put(batch: Any, fields: dict[str, Any]) -> Any:
    """Adds fields to a batch in the queue; the batch then has them too."""
    table = TensorDict(fields, batch_size=len(batch))
    put = queue.kv_batch_put(keys=batch.keys, partition_id=batch.partition_id, fields=table)
    put.extra_info = dict(batch.extra_info)
    return put
