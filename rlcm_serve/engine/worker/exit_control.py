"""The exit rule of one request inside vLLM's worker: what to read, when to stop, what to report.

The processors of both model runners (`processor_v1`, `processor_v2`) drive this object. It imports
neither vLLM nor torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

from calibration import INITIAL_STATE, ExitPolicy, ExitReason, step
from rlcm_serve.core import Signal
from rlcm_serve.engine.worker.readings.table import Inputs, Readings, TableAddress
from rlcm_serve.engine.worker.signals import ENTROPY

EXTRA_ARG = "rlcm"
"""Key in vLLM's `SamplingParams.extra_args` under which a request carries its control."""


@dataclass(frozen=True, slots=True)
class ControlSpec:
    """Instructions of the front end for one request; flat, because it travels as plain values.

    All token counts are reasoning tokens. `stop_high` and `stop_low` are two unused ids of the
    vocabulary. `think_end` is None for a model without a closing token. With a `budget` of 0, only
    the prompt's last state is read. `reads` names what is read: a `Signal`, or `ENTROPY`. If the
    prompt ends in thinking, `statistics` are those of its tokens, for a probe that reads them.
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
    statistics: tuple[float, ...] = ()

    @property
    def tracks_tokens(self) -> bool:
        """Whether the worker keeps the figures of each token."""
        return self.table.tokens > 0 and self.budget > 0

    def to_extra_args(self) -> dict[str, Any]:
        """This request's entry in `SamplingParams.extra_args`."""
        plain = {f.name: getattr(self, f.name) for f in fields(self)}
        return {
            EXTRA_ARG: plain | {"policy": self.policy.to_scalars(), "table": asdict(self.table)}
        }

    @classmethod
    def from_extra_args(cls, extra_args: Mapping[str, Any] | None) -> Self | None:
        """The instructions that a request carries, or None.

        Raises:
            ValueError: they are malformed; such a request is refused at admission.
        """
        if not extra_args or EXTRA_ARG not in extra_args:
            return None
        try:
            plain = dict(extra_args[EXTRA_ARG])
            plain["policy"] = ExitPolicy.from_scalars(plain["policy"])
            plain["table"] = TableAddress(**plain["table"])
            plain["statistics"] = tuple(plain["statistics"])
            spec = cls(**plain)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"extra_args[{EXTRA_ARG!r}] is malformed: {error}") from error
        if spec.interval < 1 or spec.budget < 0:
            raise ValueError(f"interval {spec.interval} must be >= 1 and budget {spec.budget} >= 0")
        if spec.reads not in (*Signal, ENTROPY):
            raise ValueError(f"reads is {spec.reads!r}: give one of {', '.join(Signal)}, {ENTROPY}")
        return spec


class ExitControl:
    """Applies the exit rule to one request, and reports its readings.

    A length may be read several times: a row of a chunked or resumed prefill samples a token that
    vLLM discards, and so does the row of a draft that is refused. The last reading at a length
    counts, and each starts from the state after the reading before it.
    """

    __slots__ = ("_states", "readings", "spec", "thinking")

    def __init__(self, spec: ControlSpec, readings: Readings) -> None:
        self.spec = spec
        self.readings = readings
        self.thinking = True
        self._states = [INITIAL_STATE]  # after 0, 1, 2, ... readings

    def reads_at(self, tokens: int) -> bool:
        """Whether to read the state after `tokens` reasoning tokens.

        Nothing is read past the budget: with asynchronous scheduling, a request may get one more
        step after the step that stopped it.
        """
        if tokens >= self.spec.budget:
            return tokens == self.spec.budget
        return tokens > 0 and tokens % self.spec.interval == 0

    def is_end(self, token: int) -> bool:
        """Whether a sampled token closes the thinking."""
        return token == self.spec.think_end

    def read(
        self,
        tokens: int,
        confidence: float,
        signals: Sequence[float] = (),
        inputs: Inputs | None = None,
    ) -> int | None:
        """Takes the reading after `tokens` tokens; returns the stop id to force, or None.

        If they are recorded, `signals` are all signals in the order of `Signal`, and `inputs` are
        what a probe can read.
        """
        if tokens >= self.spec.budget:
            self.readings.finish(tokens, confidence, signals, inputs)
            return self.spec.stop_low
        number = tokens // self.spec.interval
        del self._states[number:]
        state, exit_ = step(self.spec.policy, self._states[-1], tokens, confidence)
        self._states.append(state)
        self.readings.add(number, confidence, signals, inputs)
        if exit_ is ExitReason.HIGH:
            return self.spec.stop_high
        return self.spec.stop_low if exit_ is ExitReason.LOW else None

    def keep(self, tokens: int) -> None:
        """Forgets readings after more than `tokens` tokens: they were taken at refused drafts."""
        self.readings.keep(tokens, self.spec.interval)

    def end(
        self,
        tokens: int,
        confidence: float,
        signals: Sequence[float] = (),
        inputs: Inputs | None = None,
    ) -> None:
        """Reports c_end: the model closed its thinking after `tokens` tokens."""
        self.thinking = False
        self.keep(tokens)
        self.readings.finish(tokens, confidence, signals, inputs)
