"""Greedy rollouts with drafts against those without: token by token, reading by reading."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from studies.serving.speculation.rollouts import Seen

TIE = 1e-4
"""Where the top two logits differ by less, rounding decides: drafts change the order of sums."""
TOLERANCE = 1e-4
"""Of a reading's confidence."""

Gap = Callable[[int, tuple[int, ...]], float]
"""The difference of the top two logits after a question and these tokens of its rollout."""


@dataclass
class Equality:
    """What a comparison found.

    Attributes:
        rollouts: pairs that were compared.
        tokens: equal tokens.
        readings: readings that were compared.
        largest: the largest difference of two readings.
        ties: where tokens differ from, with the top two logits' difference below `TIE`.
        faults: everything else that differs, in words.
    """

    rollouts: int = 0
    tokens: int = 0
    readings: int = 0
    largest: float = 0.0
    ties: list[dict[str, float]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


def compare(plain: Sequence[Seen], drafted: Sequence[Seen], gap: Gap) -> Equality:
    """Compares the rollouts of the questions that both have."""
    found, expected = Equality(), {one.question: one for one in plain}
    for one in drafted:
        if one.question in expected:
            found.rollouts += 1
            _compare_pair(found, expected[one.question], one, gap)
    return found


def _compare_pair(found: Equality, plain: Seen, drafted: Seen, gap: Gap) -> None:
    equal = _common(plain.tokens, drafted.tokens)
    found.tokens += equal
    split = equal < max(len(plain.tokens), len(drafted.tokens))
    if split and equal < min(len(plain.tokens), len(drafted.tokens)):
        apart = gap(plain.question, plain.tokens[:equal])
        if apart < TIE:
            found.ties.append({"question": plain.question, "token": equal, "gap": apart})
        else:
            found.faults.append(f"question {plain.question}: token {equal} differs by {apart:.2g}")
    elif split or plain.exit != drafted.exit:
        found.faults.append(f"question {plain.question}: other end ({plain.exit}, {drafted.exit})")
    wanted, read = dict(plain.readings), dict(drafted.readings)
    for at in sorted({*wanted, *read}):
        if at > equal:
            break  # after a tie or another fault, which is listed
        difference = abs(wanted[at] - read[at]) if at in wanted and at in read else float("inf")
        found.readings += 1
        found.largest = max(found.largest, difference)
        if difference > TOLERANCE:
            found.faults.append(
                f"question {plain.question}: reading {at} differs: {difference:.2g}"
            )


def _common(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    """Tokens up to the first that differs."""
    pairs = zip(one, other, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))
