"""Exit control for vLLM's V2 model runner (CUDA's default).

Written against the same `ExitControl` as V1. Lengths come from the host's own counts, so a step
without a checkpoint costs one small copy from the device (the tokens just fed, to see a thought
close); a step with one, a second. Until `make test-gpu` has passed on a GPU, CUDA starts with the
V1 runner.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from vllm.v1.worker.gpu.sample.logits_processor import (
    LogitsContext,
    LogitsProcessor,
    LogitsProcRequestState,
)

from rlcm_serve.engine.control import ControlSpec, ExitControl
from rlcm_serve.engine.readings import Readings

if TYPE_CHECKING:
    from vllm import SamplingParams
    from vllm.config import VllmConfig


class _Tracked:
    """A controlled request, by its slot in the model runner."""

    def __init__(self, control: ExitControl) -> None:
        self.control = control
        self.row = -1
        self.states_NH: torch.Tensor | None = None

    def leave_batch(self) -> None:
        """Keeps its own row of the states alone: it may return, but may also have finished."""
        if self.states_NH is not None:
            self.states_NH, self.row = self.states_NH[self.row : self.row + 1].clone(), 0


class ExitProcessorV2(LogitsProcessor):
    """Reads the probe at each request's checkpoints and forces a stop id when the rule fires."""

    @classmethod
    def validate_params(cls, sampling_params: SamplingParams) -> None:
        """Refuses a malformed control at admission (ValueError)."""
        ControlSpec.from_extra_args(sampling_params.extra_args)

    def __init__(self, vllm_config: VllmConfig, req_states: LogitsProcRequestState) -> None:
        # Imported here: the front end loads this class too, and must not load a model's module.
        from rlcm_serve.engine.probed_model import LATEST

        self._latest = LATEST
        self._prompt_len = req_states.prompt_len
        self._prefill_len = req_states.prefill_len
        self._tracked: dict[int, _Tracked] = {}
        self._by_slot: dict[int, _Tracked] = {}
        self._present: set[int] = set()  # slots of the model runner that the last batch held

    def add_request(self, req_idx: int, sampling_params: SamplingParams) -> bool:
        """Whether the request that enters slot `req_idx` of the model runner is controlled."""
        if req_idx in self._tracked:
            self._tracked[req_idx].leave_batch()
        spec = ControlSpec.from_extra_args(sampling_params.extra_args)
        if spec is None:
            self._tracked.pop(req_idx, None)
            return False
        known = self._by_slot.get(spec.slot)
        if known is None or known.control.spec.ticket != spec.ticket:
            known = _Tracked(ExitControl(spec, Readings(spec.table, spec.slot, spec.ticket)))
            self._by_slot[spec.slot] = known
        self._tracked[req_idx] = known
        return True

    def apply(self, logits: torch.Tensor, ctx: LogitsContext) -> torch.Tensor:
        """Takes the readings that are due at this step; where one stops a request, forces it."""
        slots = [int(slot) for slot in ctx.idx_mapping_np]
        self._note_leavers(set(slots))
        if not any(slot in self._tracked for slot in slots):
            return logits
        fed = ctx.input_ids.tolist()
        due: list[tuple[int, ExitControl, int]] = []
        for row, slot in enumerate(slots):
            tracked = self._tracked.get(slot)
            length = int(ctx.seq_lens_upper_bound_np[row])
            if tracked is None or not tracked.control.thinking:
                continue
            if length < int(self._prefill_len.np[slot]):
                continue  # a chunk of a prefill: what it samples is thrown away
            control, tokens = tracked.control, length - int(self._prompt_len.np[slot])
            if tokens and control.is_end(fed[row]):
                kept = self._latest.confidence([tracked.row], tracked.states_NH)
                control.end(tokens - 1, *kept)
                tracked.states_NH = None
                continue
            if control.reads_at(tokens):
                due.append((row, control, tokens))
            tracked.row, tracked.states_NH = row, self._latest.hidden_NH
        if due:
            confidences = self._latest.confidence([row for row, _, _ in due])
            for (row, control, tokens), confidence in zip(due, confidences, strict=True):
                stop = control.read(tokens, confidence)
                if stop is not None:
                    logits[row] = float("-inf")
                    logits[row, stop] = 0.0
        return logits

    def _note_leavers(self, present: set[int]) -> None:
        for slot in self._present - present:
            if slot in self._tracked:
                self._tracked[slot].leave_batch()
        self._present = present
