"""Doubles of vLLM's two model runners, as a logits processor sees them."""

from __future__ import annotations

import math
import random
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
from tests.rlcm_serve.engine.channels import final, new

VOCABULARY, HIGH, LOW, THINK_END, END, WORD = 24, 22, 23, 4, 5, 9
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

    def next(self, ahead: int) -> list[int]:
        """The token that the model says after `ahead` more ones; empty after its last."""
        at = len(self.output) + ahead
        return list(self.says[at : at + 1])

    def readings(self) -> tuple[dict[int, float], tuple[int, float] | None]:
        """The readings that the front end has so far: confidence by tokens, and c_end."""
        assert self.slot is not None
        early = {c.tokens: round(c.confidence, 4) for c in new(self.slot, len(self.output))}
        c_end = final(self.slot)
        return early, c_end and (c_end.tokens, round(c_end.confidence, 4))


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


@dataclass(frozen=True)
class Row:
    """One row of a step: what the model was fed last, and whether what it was fed is kept."""

    request: Request
    local: int  # drafts before it
    seen: int  # tokens up to it
    fed: int
    is_right: bool

    @property
    def tokens(self) -> int:
        return len(self.request.output) + self.local

    @property
    def confidence(self) -> float:
        known = self.is_right and self.tokens < len(self.request.confidence)
        return self.request.confidence[self.tokens] if known else GARBAGE

    @property
    def logits_V(self) -> torch.Tensor:
        """After a chunk of a prefill, or a wrong draft, it is certain of the next token."""
        if not self.is_right:
            return 9 * torch.eye(VOCABULARY)[WORD]
        return self.request.logits[min(self.tokens, len(self.request.logits) - 1)]


class Runner(ABC):
    """A batch of requests, one logits processor, and the model's states in `LATEST`."""

    DRAFTS = 0
    """Most tokens that are drafted in a step."""

    def __init__(self) -> None:
        self.batch: list[Request] = []

    @abstractmethod
    def join(self, request: Request) -> None:
        """A request enters the batch, for the first time or after a preemption."""

    @abstractmethod
    def leave(self, request: Request) -> None:
        """A request leaves the batch: it has ended, was aborted or is preempted."""

    @abstractmethod
    def process(self, logits: torch.Tensor, rows: list[Row]) -> torch.Tensor:
        """Passes this step's logits to the processor."""

    def drafts(self, request: Request) -> list[int]:
        """The tokens to verify in this step after the request's last one."""
        return []

    def preempt(self, request: Request) -> None:
        self.leave(request)
        request.seen = 0

    def step(self, chunk: int = 1000) -> None:
        """Every request in the batch takes one step; a prefill takes at most `chunk` tokens."""
        rows: list[Row] = []
        drafted = []
        for request in self.batch:
            request.seen = min(request.length, request.seen + chunk)
            whole = request.seen == request.length
            drafts = self.drafts(request) if whole else []
            drafted.append(drafts)
            last = request.output[-1] if whole and request.output else WORD
            for local, fed in enumerate([last, *drafts]):
                rows.append(Row(request, local, request.seen + local, fed, whole))
                whole = whole and drafts[local : local + 1] == request.next(local)
        LATEST.hidden_NH = torch.tensor([row.confidence for row in rows])[:, None]
        logits = self.process(torch.stack([row.logits_V for row in rows]), rows)
        logits_after = [logits_V.clone() for logits_V in logits]
        logits.fill_(math.nan)  # a sampler works in place
        for request, drafts in zip(list(self.batch), drafted, strict=True):
            own, logits_after = logits_after[: 1 + len(drafts)], logits_after[1 + len(drafts) :]
            if request.seen == request.length and not request.ended:  # or nothing is kept
                self._sample(request, drafts, own)

    def _sample(self, request: Request, drafts: list[int], rows: list[torch.Tensor]) -> None:
        for logits_V, draft in zip(rows, [*drafts, None], strict=True):
            allowed = torch.isfinite(logits_V).nonzero()[:, 0].tolist()
            assert allowed in ([HIGH], [LOW], list(range(VOCABULARY)))
            forced = allowed[0] if len(allowed) == 1 else None
            token = request.says[len(request.output)] if forced is None else forced
            request.output.append(token)
            request.ended = forced is not None or len(request.output) == len(request.says)
            if request.ended or token != draft:
                return
            request.seen += 1

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

    def process(self, logits: torch.Tensor, rows: list[Row]) -> torch.Tensor:
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
        config = SimpleNamespace(speculative_config=None)
        self.processor = ExitProcessorV2(config, states)  # type: ignore[arg-type]

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

    def process(self, logits: torch.Tensor, rows: list[Row]) -> torch.Tensor:
        return self.processor.apply(logits, self.context(rows))

    def context(self, rows: list[Row]) -> LogitsContext:
        slots_np = np.array([self.slot_of[id(request)] for request in self.batch], np.intp)
        lengths = np.array([row.seen for row in rows if row.local == 0], np.int32)
        # The host does not know how many drafts the device has accepted.
        return LogitsContext(
            expanded_idx_mapping=torch.tensor([self.slot_of[id(row.request)] for row in rows]),
            idx_mapping=torch.from_numpy(slots_np),
            idx_mapping_np=slots_np,
            expanded_local_pos=torch.tensor([row.local for row in rows], dtype=torch.int32),
            input_ids=torch.tensor([row.fed for row in rows], dtype=torch.int32),
            pos=torch.tensor([row.seen - 1 for row in rows]),
            seq_lens_upper_bound_np=lengths + self.DRAFTS,
        )


class RunnerV2Drafting(RunnerV2):
    """The same with drafts: right and wrong ones, as many as there are, and of any token."""

    DRAFTS = 3

    def __init__(self, seed: int = 5) -> None:
        super().__init__()
        self.rng = random.Random(seed)
        self.processor._drafts = True

    def drafts(self, request: Request) -> list[int]:
        if not request.output:
            return [-1] * self.rng.choice((0, self.DRAFTS))  # placeholders
        right = [self.rng.random() < 0.8 for _ in range(self.DRAFTS)]
        wrong = (WORD, WORD + 1, THINK_END, HIGH)
        return [  # some come after the request's end
            ((request.next(ahead) if right[ahead] else []) or [self.rng.choice(wrong)])[0]
            for ahead in range(self.rng.randint(0, self.DRAFTS))
        ]

    def process(self, logits: torch.Tensor, rows: list[Row]) -> torch.Tensor:
        """In two parts, which are whole requests, as vLLM does when there are many logits."""
        whole = self.context(rows)
        cut = self.rng.randint(0, len(self.batch) - 1)
        at = [row for row, one in enumerate(rows) if one.local == 0][cut]
        parts = [(slice(0, cut), slice(0, at)), (slice(cut, None), slice(at, None))]
        return torch.cat([self._part(logits, whole, *own) for own in parts[cut == 0 :]])

    def _part(
        self, logits: torch.Tensor, whole: LogitsContext, requests: slice, rows: slice
    ) -> torch.Tensor:
        part = LogitsContext(
            expanded_idx_mapping=whole.expanded_idx_mapping[rows],
            idx_mapping=whole.idx_mapping[requests],
            idx_mapping_np=whole.idx_mapping_np[requests],
            expanded_local_pos=whole.expanded_local_pos[rows],
            input_ids=whole.input_ids[rows],
            pos=whole.pos[rows],
            seq_lens_upper_bound_np=whole.seq_lens_upper_bound_np[requests],
        )
        return self.processor.apply(logits[rows], part)


def held_bytes(runner: Runner) -> int:
    """Memory of all states, and of all distributions that the processor keeps."""
    tracker = runner.processor._tracker  # type: ignore[attr-defined]
    kept = [tracked.states_NH for tracked in tracker._by_slot.values()]
    for tracked in tracker._by_slot.values():
        if tracked.tokens is not None and tracked.tokens.latest is not None:
            kept += vars(tracked.tokens.latest.distributions).values()
    storages = {s.untyped_storage().data_ptr(): s.untyped_storage() for s in kept if s is not None}
    return sum(storage.nbytes() for storage in storages.values())
