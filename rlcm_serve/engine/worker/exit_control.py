"""One request's exit rule as vLLM's worker sees it: what to read, when to stop, what to report.

Both model runners' processors (`processor_v1`, `processor_v2`) drive this object; it imports
nothing of vLLM and nothing of torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

from calibration import INITIAL_STATE, ExitPolicy, ExitReason, step
from rlcm_serve.core import Signal
from rlcm_serve.engine.worker.readings import Readings, TableAddress
from rlcm_serve.engine.worker.signals import ENTROPY

EXTRA_ARG = "rlcm"
"""Key in vLLM's `SamplingParams.extra_args` under which a request carries its control."""


@dataclass(frozen=True, slots=True)
class ControlSpec:
    """What the front end asks of the worker for one request; flat, for it travels as plain values.

    Token counts are of reasoning tokens. `stop_high` and `stop_low` are two ids that stand for
    nothing in the model's vocabulary; `think_end` is None for a model that does not close its
    thinking with a token. A `budget` of 0 only takes the reading at the prompt's last state.
    `reads` is what a reading is of: a `Signal`, or `ENTROPY`.
    """

    policy: ExitPolicy
    interval: int
    budget: int
    stop_high: int
    stop_low: int
    think_end: int | None
    table: TableAddress
    slot: int
    ticket: int
    reads: str = Signal.PROBE.value

    @property
    def tracks_tokens(self) -> bool:
        """Whether it is to be known of each token how likely it was."""
        return self.table.signals and self.budget > 0

    def to_extra_args(self) -> dict[str, Any]:
        """This request's entry of `SamplingParams.extra_args`."""
        plain = {f.name: getattr(self, f.name) for f in fields(self)}
        return {
            EXTRA_ARG: plain | {"policy": self.policy.to_scalars(), "table": asdict(self.table)}
        }

    @classmethod
    def from_extra_args(cls, extra_args: Mapping[str, Any] | None) -> Self | None:
        """The control a request carries, or None.

        Raises:
            ValueError: it is malformed; a request like that is refused at admission.
        """
        if not extra_args or EXTRA_ARG not in extra_args:
            return None
        plain = dict(extra_args[EXTRA_ARG])
        try:
            plain["policy"] = ExitPolicy.from_scalars(plain["policy"])
            plain["table"] = TableAddress(**plain["table"])
            spec = cls(**plain)
        except (KeyError, TypeError) as error:
            raise ValueError(f"extra_args[{EXTRA_ARG!r}] is malformed: {error}") from error
        if spec.interval < 1 or spec.budget < 0:
            raise ValueError(f"interval {spec.interval} must be >= 1 and budget {spec.budget} >= 0")
        if spec.reads not in (*Signal, ENTROPY):
            raise ValueError(f"reads is {spec.reads!r}: give one of {', '.join(Signal)}, {ENTROPY}")
        return spec


class ExitControl:
    """Applies the exit rule to one request, and reports its readings.

    A row of a chunked or resumed prefill samples a token that is thrown away, so the same length
    may be read twice. The last reading at a length is the one that counts: each starts from the
    state before that length.
    """

    def __init__(self, spec: ControlSpec, readings: Readings) -> None:
        self.spec = spec
        self.readings = readings
        self.thinking = True
        self._tokens = 0  # the last length read
        self._before = self._after = INITIAL_STATE

    def reads_at(self, tokens: int) -> bool:
        """Whether the state after `tokens` reasoning tokens is to be read.

        None is past the budget: with asynchronous scheduling a request may get one more step
        after the one that stopped it.
        """
        if tokens >= self.spec.budget:
            return tokens == self.spec.budget
        return tokens > 0 and tokens % self.spec.interval == 0

    def is_end(self, token: int) -> bool:
        """Whether a sampled token closes the thinking."""
        return token == self.spec.think_end

    def read(self, tokens: int, confidence: float, signals: Sequence[float] = ()) -> int | None:
        """Takes the reading after `tokens` tokens; returns the stop id to force, or None.

        `signals` are all of them in the order of `Signal`, where they are recorded.
        """
        if tokens >= self.spec.budget:
            self.readings.finish(tokens, confidence, signals)
            return self.spec.stop_low
        if tokens > self._tokens:
            self._tokens, self._before = tokens, self._after
        self._after, exit_ = step(self.spec.policy, self._before, tokens, confidence)
        self.readings.add(tokens // self.spec.interval, confidence, signals)
        if exit_ is ExitReason.HIGH:
            return self.spec.stop_high
        return self.spec.stop_low if exit_ is ExitReason.LOW else None

    def end(self, tokens: int, confidence: float, signals: Sequence[float] = ()) -> None:
        """The model closed its thinking after `tokens` tokens: c_end, read at the last of them."""
        self.thinking = False
        self.readings.finish(tokens, confidence, signals)
