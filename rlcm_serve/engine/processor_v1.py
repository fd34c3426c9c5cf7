"""Exit control for vLLM's V1 model runner (CPU always, CUDA until V2 is proven)."""

from __future__ import annotations

import torch
from vllm import SamplingParams
from vllm.config import VllmConfig
from vllm.v1.sample.logits_processor import BatchUpdate, LogitsProcessor
from vllm.v1.sample.logits_processor.builtin import process_dict_updates

from rlcm_serve.engine.control import ControlSpec, ExitControl
from rlcm_serve.engine.probed_model import LATEST
from rlcm_serve.engine.readings import Readings


class _Tracked:
    """A controlled request in the batch: its running output, and where its latest state is."""

    def __init__(self, control: ExitControl, output: list[int]) -> None:
        self.control = control
        self.output = output  # vLLM's own list, which grows as tokens are sampled
        self.row = -1
        self.states_NH: torch.Tensor | None = None

    def leave_batch(self) -> None:
        """Keeps its own row of the states alone: it may return, but may also have finished."""
        if self.states_NH is not None:
            self.states_NH, self.row = self.states_NH[self.row : self.row + 1].clone(), 0


class ExitProcessor(LogitsProcessor):
    """Reads the probe at each request's checkpoints and forces a stop id when the rule fires."""

    @classmethod
    def validate_params(cls, sampling_params: SamplingParams) -> None:
        """Refuses a malformed control at admission (ValueError)."""
        ControlSpec.from_extra_args(sampling_params.extra_args)

    def __init__(self, vllm_config: VllmConfig, device: torch.device, is_pin_memory: bool) -> None:
        self._tracked: dict[int, _Tracked] = {}
        self._by_slot: dict[int, _Tracked] = {}

    def is_argmax_invariant(self) -> bool:
        """No: a stop id may be forced."""
        return False

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        """Follows requests that join, leave and change places in the batch."""
        if batch_update is None:
            return
        before = set(self._tracked.values())
        process_dict_updates(self._tracked, batch_update, self._track)
        for tracked in before.difference(self._tracked.values()):
            tracked.leave_batch()

    def _track(
        self, params: SamplingParams, prompt: list[int] | None, output: list[int]
    ) -> _Tracked | None:
        spec = ControlSpec.from_extra_args(params.extra_args)
        if spec is None:
            return None
        known = self._by_slot.get(spec.slot)
        if known is not None and known.control.spec.ticket == spec.ticket:
            known.output = output  # back after a preemption
            return known
        readings = Readings(spec.table, spec.slot, spec.ticket)
        tracked = self._by_slot[spec.slot] = _Tracked(ExitControl(spec, readings), output)
        return tracked

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        """Takes the readings that are due at this step; where one stops a request, forces it."""
        if not self._tracked:
            return logits
        due: list[tuple[int, ExitControl, int]] = []
        for row, tracked in self._tracked.items():
            control, tokens = tracked.control, len(tracked.output)
            if not control.thinking:
                continue
            if tokens and control.is_end(tracked.output[-1]):
                # c_end is the state before this token: kept from the step that sampled it, which a
                # preemption may have put several steps back.
                control.end(tokens - 1, *LATEST.confidence([tracked.row], tracked.states_NH))
                tracked.states_NH = None
                continue
            if control.reads_at(tokens):
                due.append((row, control, tokens))
            tracked.row, tracked.states_NH = row, LATEST.hidden_NH
        if due:
            confidences = LATEST.confidence([row for row, _, _ in due])
            for (row, control, tokens), confidence in zip(due, confidences, strict=True):
                stop = control.read(tokens, confidence)
                if stop is not None:
                    logits[row] = float("-inf")
                    logits[row, stop] = 0.0
        return logits
