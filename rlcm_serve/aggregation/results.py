"""What is found out about each problem, and about all of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

RESULTS = pa.schema(
    [
        ("problem_id", pa.large_string()),
        ("answer", pa.large_string()),
        ("confidence", pa.float64()),
        ("tally", pa.map_(pa.large_string(), pa.float64())),
        ("classes", pa.int64()),
        ("rollouts", pa.int64()),
        ("kept", pa.int64()),
        ("tied", pa.bool_()),
        ("correct", pa.bool_()),
        ("pass_at_1", pa.float64()),
        ("oracle", pa.bool_()),
        ("row", pa.int64()),
    ]
)
"""Results, a row for each problem.

answer: the text that stands for the winning class; null if nobody answered.
confidence: the winner's share of the weight of all votes, those without an answer included.
tally: weight of each class, the heaviest first.
classes: how many different answers were voted on.
rollouts, kept: how many there are, and how many took part in the vote.
tied: whether the winner was drawn.
correct: whether the answer equals the reference; null if that is not known, as are the next two.
pass_at_1: share of the rollouts that are right.
oracle: whether any of them is.
row: where the problem first appears; not for users.
"""

OUTPUT = RESULTS.remove(RESULTS.get_field_index("row"))
"""Results as they are written."""

_BLOCK = 2048
_TALLY = OUTPUT.get_field_index("tally")
_HIGH_BITS, _LOW_BITS = 40, 34
"""Together enough for every share of 2**20 rollouts, which is 0 or at least 2**-20."""


@dataclass(slots=True)
class Summary:
    """The results of all problems together; the rates are over those with a reference.

    Attributes:
        problems: how many there are.
        rollouts: of all problems.
        answered: problems that have an answer.
        ties: problems whose winner was drawn.
        graded: problems with a reference.
        pass_at_1: expected accuracy of a single rollout; None if nothing was graded.
        accuracy: of the vote.
        oracle: share of problems of which some rollout is right.
    """

    problems: int = 0
    rollouts: int = 0
    answered: int = 0
    ties: int = 0
    graded: int = 0
    pass_at_1: float | None = None
    accuracy: float | None = None
    oracle: float | None = None


class Totals:
    """Adds up results, to the same summary in any order."""

    def __init__(self) -> None:
        self._counts = dict.fromkeys(("problems", "rollouts", "answered", "ties", "graded"), 0)
        self._passed = self._correct = self._oracle = 0

    def add(self, results: pa.RecordBatch) -> None:
        """Counts some results."""
        self._counts["problems"] += len(results)
        self._counts["rollouts"] += pc.sum(results["rollouts"], min_count=0).as_py()
        self._counts["answered"] += pc.count(results["answer"]).as_py()
        self._counts["ties"] += pc.sum(results["tied"], min_count=0).as_py()
        self._counts["graded"] += pc.count(results["correct"]).as_py()
        self._passed += _exact_sum(results["pass_at_1"].drop_null().to_numpy())
        self._correct += pc.sum(results["correct"], min_count=0).as_py()
        self._oracle += pc.sum(results["oracle"], min_count=0).as_py()

    @property
    def summary(self) -> Summary:
        """Of the results so far."""
        graded = self._counts["graded"]
        if graded == 0:
            return Summary(**self._counts)
        return Summary(
            **self._counts,
            pass_at_1=self._passed / (graded << _HIGH_BITS + _LOW_BITS),
            accuracy=self._correct / graded,
            oracle=self._oracle / graded,
        )


def _exact_sum(shares: NDArray[np.float64]) -> int:
    """A sum that does not depend on the order, in units of 2**-(_HIGH_BITS + _LOW_BITS)."""
    low, high = np.modf(shares * 2.0**_HIGH_BITS)
    low_sum = int((low * 2.0**_LOW_BITS).astype(np.int64).sum())
    return (int(high.astype(np.int64).sum()) << _LOW_BITS) + low_sum


def to_json(results: pa.RecordBatch) -> Iterator[list[bytes]]:
    """The JSON of each result, without line breaks, some at a time."""
    encode = msgspec.json.Encoder().encode
    for start in range(0, len(results), _BLOCK):
        block = results.slice(start, _BLOCK)
        columns = [block[name].to_pylist() for name in OUTPUT.names]
        columns[_TALLY] = [dict(tally) for tally in columns[_TALLY]]
        yield [
            encode(dict(zip(OUTPUT.names, values, strict=True)))
            for values in zip(*columns, strict=True)
        ]


def to_json_lines(results: pa.RecordBatch) -> Iterator[bytes]:
    """Some lines of JSON at a time."""
    for block in to_json(results):
        yield b"\n".join([*block, b""])


def summary_json(summary: Summary) -> bytes:
    """The JSON of a summary."""
    return msgspec.json.encode(asdict(summary))
