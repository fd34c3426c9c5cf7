"""The events of a question while it is being answered, in the order in which they happen.

Each sample sends tokens (if wanted) and readings, then its exit, then the finished sample. The vote
so far follows after each sample that ends. Under a policy with a vote stop, a sample that has
finished is told of once it is certain whether it counts: when every other one has thought longer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from calibration import ExitReason
from rlcm_serve.core import CancelledSample, Reading, Sample


@dataclass(frozen=True, slots=True)
class TokenEvent:
    """A sample has generated `tokens` more tokens of its thinking, or of its own answer."""

    sample: int
    tokens: int
    text: str
    is_answer: bool = False


@dataclass(frozen=True, slots=True)
class CheckpointEvent:
    """A reading of a sample was taken."""

    sample: int
    checkpoint: Reading


@dataclass(frozen=True, slots=True)
class ExitEvent:
    """A sample has stopped thinking, after `tokens` reasoning tokens."""

    sample: int
    exit: ExitReason
    tokens: int
    confidence: float


@dataclass(frozen=True, slots=True)
class SampleEvent:
    """A sample has ended, with its answer if it gives one, or was cancelled."""

    sample: int
    result: Sample | CancelledSample


@dataclass(frozen=True, slots=True)
class VoteEvent:
    """The vote among the `counted` samples that have ended, out of `samples` requested.

    `decided` says that no missing sample can change the outcome, be it an answer or an abstention,
    or that the vote has stopped.
    """

    counted: int
    samples: int
    tally: dict[str, float]
    leader: str | None
    share: float
    decided: bool


Event = TokenEvent | CheckpointEvent | ExitEvent | SampleEvent | VoteEvent

OnEvent = Callable[[Event], None]

OnProgress = Callable[[int, int], None]
"""Called with the number of finished items and the number of all items."""


def ignore_progress(done: int, total: int) -> None:
    """An `OnProgress` that does nothing."""


def ignore_event(event: Event) -> None:
    """Ignores an event; for callers who only want the solution."""
