"""Exit control for vLLM's V1 model runner, which vLLM chooses on a CPU."""

from __future__ import annotations

import torch
from vllm import SamplingParams
from vllm.config import VllmConfig
from vllm.v1.sample.logits_processor import BatchUpdate, LogitsProcessor
from vllm.v1.sample.logits_processor.builtin import process_dict_updates

from rlcm_serve.engine.worker.exit_control import ControlSpec
from rlcm_serve.engine.worker.probed_model import LATEST
from rlcm_serve.engine.worker.tracking import Step, Tracked, Tracker

Followed = tuple[Tracked, list[int]]
"""A controlled request and vLLM's own list of its output, which grows as tokens are sampled."""


class ExitProcessor(LogitsProcessor):
    """Takes readings at each request's checkpoints, and forces a stop id when the rule fires."""

    @classmethod
    def validate_params(cls, sampling_params: SamplingParams) -> None:
        """Refuses malformed instructions at admission (ValueError)."""
        ControlSpec.from_extra_args(sampling_params.extra_args)

    def __init__(self, vllm_config: VllmConfig, device: torch.device, is_pin_memory: bool) -> None:
        self._rows: dict[int, Followed] = {}
        self._tracker = Tracker()

    def is_argmax_invariant(self) -> bool:
        """False, because the processor may force a stop id."""
        return False

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        """Tracks requests as they join, leave or move within the batch."""
        if batch_update is None:
            return
        before = {tracked for tracked, _ in self._rows.values()}
        process_dict_updates(self._rows, batch_update, self._follow)
        for tracked in before.difference(tracked for tracked, _ in self._rows.values()):
            tracked.leave_batch()

    def _follow(
        self, params: SamplingParams, prompt: list[int] | None, output: list[int]
    ) -> Followed | None:
        spec = ControlSpec.from_extra_args(params.extra_args)
        return None if spec is None else (self._tracker.follow(spec), output)

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        """Takes the readings due in this step, and forces the stop ids that follow from them."""
        step = Step(LATEST)
        for row, (tracked, output) in self._rows.items():
            step.visit(tracked, row, len(output), output[-1] if output else None)
        step.force_stops(logits)
        return logits
