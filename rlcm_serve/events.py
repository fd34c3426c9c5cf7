"""What is told of a question while it is being answered, in the order in which it happens.

Of one sample: tokens (if asked for) and checkpoints, then its exit, then the sample itself. After
each sample that ends comes the vote so far.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from calibration import ExitReason
from rlcm_serve.core import CancelledSample, Reading, Sample


@dataclass(frozen=True, slots=True)
class TokenEvent:
    """A sample has drawn `tokens` more tokens of its thinking, or of its own answer after that."""

    sample: int
    tokens: int
    text: str
    is_answer: bool = False


@dataclass(frozen=True, slots=True)
class CheckpointEvent:
    """A reading was taken of a sample."""

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
    """The vote among the `counted` samples that have ended, of `samples` asked for.

    `decided` says that no other sample can change what will be answered, or that nothing will be.
    """

    counted: int
    samples: int
    tally: dict[str, float]
    leader: str | None
    share: float
    decided: bool


Event = TokenEvent | CheckpointEvent | ExitEvent | SampleEvent | VoteEvent

OnEvent = Callable[[Event], None]


def ignore_event(event: Event) -> None:
    """For those who only want the outcome."""
