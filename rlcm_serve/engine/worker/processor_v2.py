"""Exit control for vLLM's V2 model runner (CUDA's default), with and without speculative decoding.

Uses the same `ExitControl` as V1. Without drafts, lengths come from the host's own counts. So a
step without a checkpoint costs one small copy from the device, of the tokens just fed, to notice a
closing token. A step with a checkpoint costs a second copy. Where tokens are tracked, every step
costs one more copy, of three numbers per request.

With drafts, a request has one row for its last token and one for each draft, and each row samples
the token that follows if all drafts up to it are accepted. So the rule acts on each row, as if its
drafts were accepted: a stop id that is forced there refuses the drafts after it. Only the device
knows how many drafts it accepted in the step before, so lengths are copied with the tokens.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile
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
        self._drafts = vllm_config.speculative_config is not None
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
        """Takes the readings due in this step, and forces the stop ids that follow from them.

        vLLM may verify drafts in parts, so these may be the logits of some requests of the step.
        """
        slots = [int(slot) for slot in ctx.idx_mapping_np]
        self._note_leavers(set(slots))
        if not any(slot in self._tracked for slot in slots):
            return logits
        # Each part is a view into the mapping of the whole step.
        start = ctx.expanded_idx_mapping.storage_offset()
        step = Step(self._latest.rows(start, len(logits)))
        sampling = _with_drafts(ctx) if self._drafts else _without_drafts(ctx, slots)
        for slot, row, length, fed in sampling:
            tracked = self._tracked.get(slot)
            # vLLM discards the token that a chunk of a prefill samples.
            if tracked is not None and length >= int(self._prefill_len.np[slot]):
                tokens = length - int(self._prompt_len.np[slot])
                step.visit(tracked, row, tokens, fed[0] if tokens else None, fed[1:])
        step.force_stops(logits)
        return logits

    def _note_leavers(self, present: set[int]) -> None:
        # Who is in another part of the same step is noted too, which costs a copy of its rows.
        for slot in self._present - present:
            if slot in self._tracked:
                self._tracked[slot].leave_batch()
        self._present = present


Sampling = tuple[int, int, int, list[int]]
"""A request's slot, its first row, its length there, and the tokens that its rows were fed."""


def _without_drafts(ctx: LogitsContext, slots: list[int]) -> Iterator[Sampling]:
    for row, (slot, fed) in enumerate(zip(slots, ctx.input_ids.tolist(), strict=True)):
        yield slot, row, int(ctx.seq_lens_upper_bound_np[row]), [fed]


def _with_drafts(ctx: LogitsContext) -> Iterator[Sampling]:
    columns = (ctx.expanded_idx_mapping, ctx.expanded_local_pos, ctx.pos, ctx.input_ids)
    on_host = torch.stack([column.long() for column in columns]).tolist()
    rows = list(zip(*on_host, strict=True))
    starts = [row for row, (_, local, *_) in enumerate(rows) if local == 0]
    for start, end in zip(starts, [*starts[1:], len(rows)], strict=True):
        slot, _, position, last = rows[start]
        drafts = takewhile(lambda token: token >= 0, (fed for *_, fed in rows[start + 1 : end]))
        yield slot, start, position + 1, [last, *drafts]
