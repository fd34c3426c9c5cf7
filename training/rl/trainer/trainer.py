"""GRPO on reasoning whose confidence is rewarded: RLCM, its variants and its baselines.

A step: the engine samples rollouts, then forced answers at their budgets; TRL's no-grad pass gives
log-probabilities, and the states at the cuts on the way; the probe reads those; rewards; the
probe's own step; TRL's policy step. Everything distributed is TRL's and accelerate's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import gather_object
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR
from trl import GRPOConfig, GRPOTrainer
from trl.trainer.utils import pad

from training.errors import TrainingRefused
from training.rl.rewards.losses import confidence_regulariser, sequence_confidence
from training.rl.rewards.methods import GroupTerm, Term
from training.rl.rewards.rewards import GradedRollout
from training.rl.trainer.batch import Batch, nothing_to_supervise
from training.rl.trainer.colocated import awake, brief
from training.rl.trainer.epochs import ResumableSampler
from training.rl.trainer.forced_answers import in_batches
from training.rl.trainer.grading import RolloutGrader
from training.rl.trainer.joint_probe import PROBE_STATE, JointProbe, require_finite
from training.rl.trainer.passes import Pass, dealt_by_length, passes, trimmed, without_dropout
from training.rl.trainer.positions import count_from_the_prompt
from training.rl.trainer.recipe import Recipe
from training.rl.trainer.states import CutStates
from training.rl.trainer.step_clock import UPDATE, StepClock, overhead

Group = tuple[list[GradedRollout], int]
"""The rollouts of one problem, and the place of one of them."""


class RLCMTrainer(GRPOTrainer):
    """TRL's GRPO trainer with budgets, forced answers, a probe, and rewards that read the probe.

    Args:
        model: as for `GRPOTrainer`.
        recipe: settings, end of thinking, and grader of the run.
        args: as for `GRPOTrainer`; rewards and their weights come from the recipe.
        more: as for `GRPOTrainer`.
    """

    _tag_names = ("trl", "rlcm")
    _name = "RLCM"
    _last_loaded_step: int
    _buffered_inputs: list[dict[str, Any]]

    def __init__(self, model: Any, recipe: Recipe, args: GRPOConfig, **more: Any) -> None:
        method, strength = recipe.settings.chosen, recipe.settings.weight
        reads = recipe.settings.forces
        args.reward_weights = method.weights(strength, done=0.0, with_probe=reads)
        args.importance_sampling_level = "sequence" if method.is_sequence_level else "token"
        rewards = [_reward_function(term) for term in method.terms_read(with_probe=reads)]
        super().__init__(model, rewards, args, **more)
        self.recipe, self.settings, self.method = recipe, recipe.settings, method
        self.clock = StepClock()
        self._rollout_grader = RolloutGrader(recipe, self._tokenizer, self.clock)
        self._batch: Batch | None = None
        self._logps: Tensor | None = None
        self.probe: JointProbe | None = None
        backbone = _backbone(self.accelerator.unwrap_model(self.model))
        count_from_the_prompt(backbone)
        if self.settings.forces:
            self._cut_states = CutStates(backbone, self.settings.probe.states)
            hidden_size = self.model.config.get_text_config().hidden_size
            self.probe = JointProbe(hidden_size, self.settings.probe, args.seed)
            self.probe.to(self.accelerator.device)

    def _get_train_sampler(self, dataset: Any = None) -> ResumableSampler:
        def epoch() -> int:
            problems = len(self.train_dataset if dataset is None else dataset)
            batches = problems // (self.args.generation_batch_size // self.num_generations)
            steps: int = batches * self.num_iterations
            return int(self.state.global_step) // steps

        return ResumableSampler(super()._get_train_sampler(dataset), epoch)

    # --- rollouts, then forced answers while the prefix cache still holds the rollouts

    def _generate_single_turn(
        self,
        prompt_ids: list[list[int]],
        images: Any,
        multimodal_fields: dict[str, Any],
        num_generations: int,
        has_tool_images: bool = False,
    ) -> tuple[list[list[int]], Any]:
        self._push_weights()
        with awake(self.vllm_generation):
            with self.clock("rollouts"):
                completions, logps = super()._generate_single_turn(
                    prompt_ids, images, multimodal_fields, num_generations, has_tool_images
                )
            forces = self.settings.forces and self.model.training
            self._batch = Batch.of(prompt_ids, completions, self.recipe, forces)
            if forces:
                with self.clock("forced answers"):
                    self._batch.forced = self._force(self._batch)
        return completions, logps

    def _push_weights(self) -> None:
        """Sends the weights to the engine before TRL does, to measure the time."""
        if self.state.global_step != self._last_loaded_step:
            with self.clock("weights"):
                self.vllm_generation.sync_weights()
            self._last_loaded_step = self.state.global_step

    def _force(self, batch: Batch) -> list[list[int]]:
        """K forced answers at every budget; the answers of one budget are adjacent.

        All ranks request equally many, padding with spares, because the engine may be shared.

        Raises:
            TrainingRefused: at step 0, no rollout is long enough for a budget.
        """
        suffix = list(self.recipe.thinking.suffix)
        prefixes = [[*prefix, *suffix] for prefix in batch.prefixes()]
        most = max(gather_object([len(prefixes)]))
        if not most:
            self._refuse_long_interval(batch)
            return []
        spare = prefixes[:1] or [[*batch.prompts[0], *suffix]]
        asked = [*prefixes, *spare * (most - len(prefixes))]
        samples = self.settings.budgets.samples
        repeated = [prefix for prefix in asked for _ in range(samples)]
        return self._continue(repeated, samples)[: len(prefixes) * samples]

    def _refuse_long_interval(self, batch: Batch) -> None:
        if self.state.global_step == 0:
            longest = max(gather_object([max(batch.lengths)]))
            raise nothing_to_supervise(self.settings.budgets, longest)

    def _continue(self, prefixes: list[list[int]], samples: int) -> list[list[int]]:
        """A short continuation of each prefix; `samples` equal prefixes are adjacent."""
        found: list[list[int]] = []
        sharing = self.settings.engine.sharing(self.accelerator.num_processes)
        at_once = self.settings.budgets.at_once // sharing
        with brief(self.vllm_generation, self.settings.budgets.answer_tokens) as engine:
            for own in in_batches(prefixes, samples, at_once):
                _, sampled, _, _ = engine.generate(own, None, samples)
                found += (list(ids) for ids in sampled)
        return found

    # --- states at the cuts, read during the pass for log-probabilities

    def _get_per_token_logps_and_entropies(
        self,
        model: Any,
        input_ids: Tensor,
        attention_mask: Tensor,
        logits_to_keep: int,
        *rest: Any,
        **more: Any,
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        if torch.is_grad_enabled():
            found = super()._get_per_token_logps_and_entropies(
                model, input_ids, attention_mask, logits_to_keep, *rest, **more
            )
            self._logps = found[0]
            return found  # type: ignore[no-any-return]  # TRL comes without types
        more.pop("batch_size", None)  # of an evaluation it would be all rollouts
        size = self.args.per_device_train_batch_size
        if given := [name for name, value in more.items() if value is not None]:
            raise TrainingRefused(f"this trainer is for text alone, not for {', '.join(given)}")
        with self.clock("log-probabilities"):
            every = passes(input_ids, attention_mask, logits_to_keep, size)
            logps_RT = torch.zeros(len(input_ids), logits_to_keep, device=input_ids.device)
            for each in every:
                logps_RT[each.rows, : each.width] = self._pass(model, each)
        return logps_RT, None, None

    def _pass(self, model: Any, each: Pass) -> Tensor:
        """Log-probabilities of some rollouts. The same pass reads their states for the probe.

        Both are those that are served: without dropout.
        """
        batch, score = self._batch, super()._get_per_token_logps_and_entropies
        if self.probe is None or batch is None:
            with without_dropout(model):
                return score(model, each.ids, each.mask, each.width)[0]  # type: ignore[no-any-return]  # as above
        rows = each.rows.tolist()
        cuts = [batch.cuts(row) for row in rows]
        with self._cut_states.reading(cuts, each.width) as states, without_dropout(model):
            logps: Tensor = score(model, each.ids, each.mask, each.width)[0]
        batch.states |= dict(zip(rows, states, strict=True))
        return logps

    def _read_states(self, batch: Batch) -> None:
        """Makes a pass for the states only; TRL makes none without importance sampling."""
        ids, masks = [], []
        for rows, side in ((batch.prompts, "left"), (batch.completions, "right")):
            own = [torch.tensor(row) for row in rows]
            ids.append(pad(own, padding_side=side))
            masks.append(pad([torch.ones_like(row) for row in own], padding_side=side))
        device = self.accelerator.device
        with torch.no_grad():
            self._get_per_token_logps_and_entropies(
                self.model,
                torch.cat(ids, 1).to(device),
                torch.cat(masks, 1).to(device),
                ids[1].shape[1],
                batch_size=self.args.per_device_train_batch_size,
            )

    # --- rewards, and the probe's optimizer step

    def _calculate_rewards(
        self,
        inputs: list[dict[str, Any]],
        prompts: list[Any],
        completions: list[Any],
        completion_ids_list: list[list[int]],
    ) -> Tensor:
        batch = self._under_way()
        references = [str(row["answer"]) for row in inputs]
        batch.targets = self._rollout_grader.targets(batch.forced, references, batch.budgets_R)
        if self.settings.probe.learns_first:
            self._update_probe(batch)
        batch.graded = self._rollout_grader(
            batch.completions, references, batch.targets, self._confidences(batch)
        )
        rows = [{**row, "graded": own} for row, own in zip(inputs, batch.graded, strict=True)]
        if self.method.compares:
            groups = self._groups(batch.graded)
            rows = [{**row, "compared": group} for row, group in zip(rows, groups, strict=True)]
        if self.method.ramp is not None:
            done = self.state.global_step / self.state.max_steps
            weights = self.method.weights(self.settings.weight, done, self.settings.forces)
            self.reward_weights = torch.tensor(weights)
        for name, value in batch.curves(self.method.asks_confidence).items():
            self._log_metric(name, value)
        return super()._calculate_rewards(rows, prompts, completions, completion_ids_list)  # type: ignore[no-any-return]  # TRL comes without types

    def _groups(self, graded: list[GradedRollout]) -> list[Group]:
        """For each of this rank's rollouts: those of the same problem on all ranks, its place."""
        size = self.num_generations if self.model.training else self.num_generations_eval
        every: list[GradedRollout] = gather_object(graded)
        first = self.accelerator.process_index * len(graded)
        return [
            (every[at - at % size :][:size], at % size) for at in range(first, first + len(graded))
        ]

    def _states(self, batch: Batch, probe: JointProbe) -> list[Tensor]:
        """The states at every cut of each rollout; the first ones scale the probe."""
        if not batch.states:
            self._read_states(batch)
        states = batch.states_in_order()
        require_finite(states, self._over_ranks, self.state.global_step + 1)
        probe.ensure_scale(states, self._over_ranks)
        return states

    def _update_probe(self, batch: Batch) -> None:
        """Trains the probe on the step's cuts; not during an evaluation."""
        if self.probe is None or not self.model.training:
            return
        with self.clock("probe"):
            self._states(batch, self.probe)
            loss = self.probe.update(*batch.points(), self._over_ranks)
        if not math.isnan(loss):  # no rollout reached a cut
            self._metrics["train"]["probe/bce"].append(loss)

    def _confidences(self, batch: Batch) -> list[list[float]]:
        """The probe's confidence at every cut; empty lists without a probe."""
        if self.probe is None:
            return [[] for _ in batch.completions]
        with self.clock("probe"):
            return self.probe.readings(self._states(batch, self.probe))

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        with self.clock("other"):
            output: dict[str, Any] = super()._generate_and_score_completions(inputs)
        batch = self._under_way()
        if self.method.is_regularised:
            right = [float(own.is_right) for own in batch.graded]
            output["is_right"] = torch.tensor(right, device=self.accelerator.device)
        if not self.settings.probe.learns_first:
            self._update_probe(batch)
        self._batch = None
        return output

    def _over_ranks(self, values: Tensor) -> Tensor:
        reduced: Tensor = self.accelerator.reduce(values, "sum")
        return reduced

    def _under_way(self) -> Batch:
        if self._batch is None:
            raise RuntimeError("rewards were asked for before there were rollouts")
        return self._batch

    # --- the policy's step

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Tensor:
        inputs = trimmed(inputs)
        loss: Tensor = super()._compute_loss(model, inputs)
        if not self.method.is_regularised or self._logps is None:
            return loss
        confidence_R = sequence_confidence(self._logps, inputs["completion_mask"])
        pull = confidence_regulariser(confidence_R, inputs["is_right"])
        mode = "train" if self.model.training else "eval"
        self._metrics[mode]["confidence/sequence"].append(confidence_R.mean().item())
        self._metrics[mode]["confidence/cross_entropy"].append(pull.item())
        parts = self.current_gradient_accumulation_steps if self.model.training else 1
        return loss + self.settings.weight * pull / parts

    def _prepare_inputs(self, generation_batch: Any) -> dict[str, Any]:
        """Groups rollouts of similar length, if one optimizer step uses all of them."""
        before = self._buffered_inputs
        inputs: dict[str, Any] = super()._prepare_inputs(generation_batch)
        parts = self.args.steps_per_generation
        is_fresh = self._buffered_inputs is not before
        if is_fresh and parts == self.args.gradient_accumulation_steps:
            self._buffered_inputs = dealt_by_length(self._buffered_inputs)
            inputs = self._buffered_inputs[self._step % parts]
        return inputs

    def training_step(
        self, model: Any, inputs: dict[str, Any], num_items_in_batch: Tensor | None = None
    ) -> Tensor:
        """TRL's step; logs the seconds of each part when an optimizer step ends."""
        with self.clock(UPDATE):
            loss: Tensor = super().training_step(model, inputs, num_items_in_batch)
        self._logps = None
        if self._step % self.current_gradient_accumulation_steps == 0:
            seconds = self.clock.finish()
            for part, spent in seconds.items():
                self._metrics["train"][f"time/{part}"].append(spent)
            self._metrics["train"]["time/overhead"].append(overhead(seconds))
        return loss

    # --- evaluation on held-out problems

    def evaluate(self, *args: Any, **more: Any) -> dict[str, float]:
        """Samples and grades held-out problems, without forced answers; returns `eval_` metrics."""
        evaluation = self.settings.evaluation
        temperature = self.temperature if evaluation is None else evaluation.temperature
        with _sampling_at(temperature, self), _without_correction(self):
            metrics: dict[str, float] = super().evaluate(*args, **more)
        self.clock.finish()  # so that the next step does not count these seconds
        return metrics

    def prediction_step(
        self, model: Any, inputs: Any, prediction_loss_only: bool, ignore_keys: Any = None
    ) -> tuple[Tensor, None, None]:
        """Samples and grades. The policy's loss tells nothing there, so it is 0."""
        self._prepare_inputs(inputs)
        return torch.zeros((), device=self.accelerator.device), None, None

    # --- checkpoints

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        """Saves the probe first: a checkpoint is complete once TRL has written its last file."""
        if self.probe is not None and self.args.should_save:
            step = f"checkpoint-{self.state.global_step}"
            folder = Path(self._get_output_dir(trial=trial)) / step
            folder.mkdir(parents=True, exist_ok=True)
            torch.save(self.probe.whole_state(), folder / PROBE_STATE)
        super()._save_checkpoint(model, trial)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is None:
            return
        self._take_rate_of_schedule()
        if self.probe is not None:
            path = Path(checkpoint) / PROBE_STATE
            self.probe.restore(torch.load(path, map_location=self.accelerator.device))

    def _take_rate_of_schedule(self) -> None:
        """Sets the learning rate of the next step, which more steps may have raised.

        The optimizer's state has the one of the schedule that the checkpoint was written under.
        """
        schedule = self.lr_scheduler
        if not isinstance(schedule, LambdaLR):
            return
        factors = [factor(schedule.last_epoch) for factor in schedule.lr_lambdas]
        rates = [base * own for base, own in zip(schedule.base_lrs, factors, strict=True)]
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
        schedule._last_lr = rates


def _reward_function(term: Term | GroupTerm) -> Any:
    """The term as a reward function in TRL's form."""

    def reward(
        graded: list[GradedRollout], compared: Sequence[Group] = (), **_: Any
    ) -> list[float]:
        if isinstance(term, GroupTerm):
            return [term.of(rollouts)[place] for rollouts, place in compared]
        return [term.of(own) for own in graded]

    reward.__name__ = term.name
    return reward


def _backbone(model: Any) -> nn.Module:
    """The module whose output the head reads, with or without adapters."""
    whole = model.get_base_model() if hasattr(model, "get_base_model") else model
    backbone: nn.Module = whole.base_model
    return backbone


@contextmanager
def _sampling_at(temperature: float, trainer: RLCMTrainer) -> Iterator[None]:
    """Samples at another temperature for a while."""
    engine, usual = trainer.vllm_generation, trainer.temperature
    engine.temperature = temperature
    try:
        yield
    finally:
        engine.temperature = usual


@contextmanager
def _without_correction(trainer: RLCMTrainer) -> Iterator[None]:
    """Spares the policy's own log-probabilities for a while: an evaluation weights nothing."""
    usual = trainer.vllm_importance_sampling_correction
    trainer.vllm_importance_sampling_correction = False
    try:
        yield
    finally:
        trainer.vllm_importance_sampling_correction = usual
