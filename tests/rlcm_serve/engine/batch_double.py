"""Doubles of vLLM's two model runners, as a logits processor sees them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from vllm import SamplingParams
from vllm.v1.sample.logits_processor import BatchUpdate, MoveDirectionality
from vllm.v1.worker.gpu.sample.logits_processor import LogitsContext

from calibration import ExitPolicy
from rlcm_serve.engine.worker.exit_control import ControlSpec
from rlcm_serve.engine.worker.probed_model import LATEST
from rlcm_serve.engine.worker.processor_v1 import ExitProcessor
from rlcm_serve.engine.worker.processor_v2 import ExitProcessorV2
from rlcm_serve.engine.worker.readings.slots import ReadingsTable, Slot

VOCABULARY, HIGH, LOW, THINK_END, WORD = 24, 22, 23, 4, 9
GARBAGE = 0.99
"""The confidence in the state after a chunk of a prefill; reading it would fire a high exit."""


FLAT = torch.zeros(1, VOCABULARY)


class Echo:
    """A probe for states of one number, which is the confidence."""

    reads_tokens = False

    def confidence(
        self, hidden_NH: torch.Tensor, statistics_NS: torch.Tensor | None = None
    ) -> torch.Tensor:
        return hidden_NH[:, 0]


@dataclass
class Request:
    """One request to the model: its output tokens, and its state after each number of tokens."""

    says: Sequence[int]
    confidence: Sequence[float]  # at 0, 1, 2, ... tokens of output
    spec: ControlSpec | None
    slot: Slot | None
    logits: torch.Tensor = FLAT  # at 0, 1, 2, ... tokens of output; the last one holds for more
    prompt: int = 5
    output: list[int] = field(default_factory=list)
    seen: int = 0  # of prompt and output: what is in the cache
    ended: bool = False

    @property
    def length(self) -> int:
        return self.prompt + len(self.output)

    @property
    def params(self) -> SamplingParams:
        return SamplingParams(extra_args=self.spec.to_extra_args() if self.spec else None)

    @property
    def logits_V(self) -> torch.Tensor:
        return self.logits[min(len(self.output), len(self.logits) - 1)]

    def readings(self) -> tuple[dict[int, float], tuple[int, float] | None]:
        """The readings that the front end has so far: confidence by tokens, and c_end."""
        assert self.slot is not None
        early = {c.tokens: round(c.confidence, 4) for c in self.slot.new(len(self.output))}
        final = self.slot.final()
        return early, final and (final.tokens, round(final.confidence, 4))


def new_request(
    table: ReadingsTable,
    slot: Slot,
    says: Sequence[int],
    confidence: Sequence[float],
    policy: ExitPolicy,
    budget: int = 1000,
    interval: int = 4,
    reads: str = "probe",
) -> Request:
    spec = ControlSpec(
        *(policy, interval, budget, HIGH, LOW, THINK_END),
        *(table.address, slot.number, slot.ticket, reads),
    )
    return Request(says, confidence, spec, slot)


class Runner(ABC):
    """A batch of requests, one logits processor, and the model's states in `LATEST`."""

    def __init__(self) -> None:
        self.batch: list[Request] = []

    @abstractmethod
    def join(self, request: Request) -> None:
        """A request enters the batch, for the first time or after a preemption."""

    @abstractmethod
    def leave(self, request: Request) -> None:
        """A request leaves the batch: it has ended, was aborted or is preempted."""

    @abstractmethod
    def process(self, logits: torch.Tensor, fed: list[int]) -> torch.Tensor:
        """Passes this step's logits to the processor."""

    def preempt(self, request: Request) -> None:
        self.leave(request)
        request.seen = 0

    def step(self, chunk: int = 1000) -> None:
        """Every request in the batch takes one step; a prefill takes at most `chunk` tokens."""
        rows, fed, logits_NV = [], [], []
        for request in self.batch:
            request.seen = min(request.length, request.seen + chunk)
            whole = request.seen == request.length
            tokens = len(request.output)
            rows.append(request.confidence[tokens] if whole else GARBAGE)
            fed.append(request.output[-1] if whole and tokens else WORD)
            # After a chunk of a prefill, the logits are certain of the next token.
            logits_NV.append(request.logits_V if whole else 9 * torch.eye(VOCABULARY)[WORD])
        LATEST.hidden_NH = torch.tensor(rows)[:, None]
        logits = self.process(torch.stack(logits_NV), fed)
        logits_after = [logits_V.clone() for logits_V in logits]
        logits.fill_(math.nan)  # a sampler works in place
        for request, logits_V in zip(list(self.batch), logits_after, strict=True):
            allowed = torch.isfinite(logits_V).nonzero()[:, 0].tolist()
            assert allowed in ([HIGH], [LOW], list(range(VOCABULARY)))
            if request.seen < request.length or request.ended:
                continue  # its sampled token is discarded
            forced = allowed[0] if len(allowed) == 1 else None
            token = request.says[len(request.output)] if forced is None else forced
            request.output.append(token)
            request.ended = forced is not None or len(request.output) == len(request.says)

    def run(self, chunk: int = 1000) -> None:
        """Steps until all requests have ended; ended requests leave the batch."""
        while self.batch:
            self.step(chunk)
            for request in [request for request in self.batch if request.ended]:
                self.leave(request)


class RunnerV1(Runner):
    """Rows are places in the batch; the last one fills a gap."""

    def __init__(self) -> None:
        super().__init__()
        self.processor = ExitProcessor(None, torch.device("cpu"), False)  # type: ignore[arg-type]

    def _update(self, **changes: Any) -> None:
        nothing: dict[str, Any] = {"removed": [], "added": [], "moved": []}
        self.processor.update_state(BatchUpdate(len(self.batch), **nothing | changes))

    def join(self, request: Request) -> None:
        self.batch.append(request)
        row = len(self.batch) - 1
        self._update(added=[(row, request.params, [WORD] * request.prompt, request.output)])

    def leave(self, request: Request) -> None:
        row, last = self.batch.index(request), len(self.batch) - 1
        moved = [(last, row, MoveDirectionality.UNIDIRECTIONAL)] if row < last else []
        self.batch[row] = self.batch[last]
        self.batch.pop()
        self._update(removed=[row], moved=moved)

    def process(self, logits: torch.Tensor, fed: list[int]) -> torch.Tensor:
        self.processor.update_state(None)
        return self.processor.apply(logits)


class RunnerV2(Runner):
    """Requests have slots; the last freed slot is reused first; rows are reordered every step."""

    SLOTS = 8

    def __init__(self) -> None:
        super().__init__()
        self.prompt_len = SimpleNamespace(np=np.zeros(self.SLOTS, np.int32))
        self.prefill_len = SimpleNamespace(np=np.zeros(self.SLOTS, np.int32))
        self.free = list(range(self.SLOTS))
        self.slot_of: dict[int, int] = {}
        states = SimpleNamespace(prompt_len=self.prompt_len, prefill_len=self.prefill_len)
        self.processor = ExitProcessorV2(None, states)  # type: ignore[arg-type]

    def join(self, request: Request) -> None:
        slot = self.slot_of[id(request)] = self.free.pop()
        self.batch.append(request)
        self.prompt_len.np[slot] = request.prompt
        self.prefill_len.np[slot] = request.length
        controlled = self.processor.add_request(slot, request.params)
        assert controlled == (request.spec is not None)

    def leave(self, request: Request) -> None:
        self.batch.remove(request)
        self.free.append(self.slot_of.pop(id(request)))

    def step(self, chunk: int = 1000) -> None:
        self.batch.reverse()
        super().step(chunk)

    def process(self, logits: torch.Tensor, fed: list[int]) -> torch.Tensor:
        slots_np = np.array([self.slot_of[id(request)] for request in self.batch], np.intp)
        slots = torch.from_numpy(slots_np)
        lengths = np.array([request.seen for request in self.batch], np.int32)
        context = LogitsContext(
            expanded_idx_mapping=slots,
            idx_mapping=slots,
            idx_mapping_np=slots_np,
            expanded_local_pos=torch.zeros_like(slots),
            input_ids=torch.tensor(fed),
            pos=torch.from_numpy(lengths) - 1,
            seq_lens_upper_bound_np=lengths,
        )
        return self.processor.apply(logits, context)


def held_bytes(runner: Runner) -> int:
    """Memory of all states, and of all distributions that the processor keeps."""
    tracker = runner.processor._tracker  # type: ignore[attr-defined]
    kept = [tracked.states_NH for tracked in tracker._by_slot.values()]
    for tracked in tracker._by_slot.values():
        if tracked.tokens is not None and tracked.tokens.latest is not None:
            kept += vars(tracked.tokens.latest.distributions).values()
    storages = {s.untyped_storage().data_ptr(): s.untyped_storage() for s in kept if s is not None}
    return sum(storage.nbytes() for storage in storages.values())
