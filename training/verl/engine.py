"""veRL's FSDP engine, which also returns the policy's states at the cuts of each rollout.

veRL imports this module in every worker (`model.external_lib`). Engines are looked up by device and
vendor before they are looked up by device alone, so this one takes the place of veRL's own.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from verl.utils import tensordict_utils
from verl.workers.engine import EngineRegistry
from verl.workers.engine.fsdp.transformer_impl import FSDPEngineWithLMHead

from training.rl.trainer.states import states_before

CUTS = "cuts"
"""Field of a batch: for each rollout, the completion's tokens before each cut."""
STATES = "states"
"""Field of a batch: for each rollout, the states at its cuts, one after the other."""
AVERAGED = "averaged_states"
"""Entry of a batch: how many of the last states before a cut are averaged."""


@EngineRegistry.register(
    model_type="language_model", backend=["fsdp", "fsdp2"], device="cuda", vendor=["nvidia", "amd"]
)
class StatesEngine(FSDPEngineWithLMHead):
    """Reads states in the pass for log-probabilities, if the batch has cuts. None has a graph."""

    _hidden: Tensor | None = None

    def _build_module(self) -> Any:
        module: Any = super()._build_module()
        module.base_model.register_forward_hook(self._keep)
        return module

    def _keep(self, backbone: nn.Module, inputs: Any, output: Any) -> None:
        """Keeps the final states of a pass without gradients."""
        if not torch.is_grad_enabled():
            self._hidden = output.last_hidden_state

    def prepare_model_outputs(
        self, output: Any, output_args: dict[str, Any], micro_batch: Any, logits_processor_func: Any
    ) -> dict[str, Any]:
        """veRL's outputs, and the states as float32, flat, one row of the nested tensor each."""
        found: dict[str, Any] = super().prepare_model_outputs(
            output, output_args, micro_batch, logits_processor_func
        )
        hidden, self._hidden = self._hidden, None
        if hidden is not None and CUTS in micro_batch.keys():  # noqa: SIM118  # a TensorDict iterates over rows
            rows = self._rows(hidden, micro_batch, output_args)
            found[STATES] = torch.nested.as_nested_tensor(
                [own.flatten() for own in rows], layout=torch.jagged
            )
        return found

    def _rows(self, hidden: Tensor, micro_batch: Any, output_args: dict[str, Any]) -> list[Tensor]:
        """The states at the cuts of each rollout, shape (cuts, hidden)."""
        every = micro_batch["input_ids"].offsets()
        if tensordict_utils.get_non_tensor_data(micro_batch, "use_remove_padding", True):
            packed_TH = self._gather_and_unpad_packed(hidden[0], output_args["pad_size"])
            sequences = torch.split(packed_TH, every.diff().tolist())
        else:
            sequences = hidden.unbind()
        averaged = tensordict_utils.get_non_tensor_data(micro_batch, AVERAGED, 1)
        prompts = [len(own) for own in micro_batch["prompts"].unbind()]
        return [
            states_before(own_TH, cuts_B + prompt, averaged)
            for own_TH, cuts_B, prompt in zip(
                sequences, micro_batch[CUTS].unbind(), prompts, strict=True
            )
        ]
