"""Exit control for vLLM's V2 model runner (CUDA's default).

Uses the same `ExitControl` as V1. Lengths come from the host's own counts. So a step without a
checkpoint costs one small copy from the device, of the tokens just fed, to notice a closing token.
A step with a checkpoint costs a second copy. Where tokens are tracked, every step costs one more
copy, of three numbers per request. Until `make test-gpu` has passed on a GPU, CUDA uses the V1
runner.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from vllm.v1.worker.gpu.sample.logits_processor import (
    LogitsContext,
    LogitsProcessor,
    LogitsProcRequestState,
)

from rlcm_serve.engine.worker.exit_control import ControlSpec
from rlcm_serve.engine.worker.tracking import Step, Tracked, Tracker

if TYPE_CHECKING:
    from vllm import SamplingParams
    from vllm.config import VllmConfig


class ExitProcessorV2(LogitsProcessor):
    """Takes readings at each request's checkpoints, and forces a stop id when the rule fires."""

    @classmethod
    def validate_params(cls, sampling_params: SamplingParams) -> None:
        """Refuses malformed instructions at admission (ValueError)."""
        ControlSpec.from_extra_args(sampling_params.extra_args)

    def __init__(self, vllm_config: VllmConfig, req_states: LogitsProcRequestState) -> None:
        # Imported here: the front end loads this class too, but must not load the model.
        from rlcm_serve.engine.worker.probed_model import LATEST

        self._latest = LATEST
        self._prompt_len = req_states.prompt_len
        self._prefill_len = req_states.prefill_len
        self._tracked: dict[int, Tracked] = {}  # by slot of the model runner
        self._present: set[int] = set()  # slots in the last batch
        self._tracker = Tracker()

    def add_request(self, req_idx: int, sampling_params: SamplingParams) -> bool:
        """Whether the new request in slot `req_idx` of the model runner is under exit control."""
        if req_idx in self._tracked:
            self._tracked.pop(req_idx).leave_batch()
        spec = ControlSpec.from_extra_args(sampling_params.extra_args)
        if spec is None:
            return False
        self._tracked[req_idx] = self._tracker.follow(spec)
        return True

    def apply(self, logits: torch.Tensor, ctx: LogitsContext) -> torch.Tensor:
        """Takes the readings due in this step, and forces the stop ids that follow from them."""
        slots = [int(slot) for slot in ctx.idx_mapping_np]
        self._note_leavers(set(slots))
        if not any(slot in self._tracked for slot in slots):
            return logits
        fed = ctx.input_ids.tolist()
        step = Step(self._latest)
        for row, slot in enumerate(slots):
            tracked, length = self._tracked.get(slot), int(ctx.seq_lens_upper_bound_np[row])
            # vLLM discards the token that a chunk of a prefill samples.
            if tracked is not None and length >= int(self._prefill_len.np[slot]):
                tokens = length - int(self._prompt_len.np[slot])
                step.visit(tracked, row, tokens, fed[row] if tokens else None)
        step.force_stops(logits)
        return logits

    def _note_leavers(self, present: set[int]) -> None:
        for slot in self._present - present:
            if slot in self._tracked:
                self._tracked[slot].leave_batch()
        self._present = present
