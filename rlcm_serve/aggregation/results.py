"""The results of the votes, and their summary."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rlcm_serve.json_lines import with_escaped_line_ends

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
        ("compared", pa.bool_()),
        ("row", pa.int64()),
    ]
)
"""Results, one row per problem.

answer: text of the winning class; null if no rollout has an answer.
confidence: the winner's share of the total weight, including votes without an answer.
tally: weight of each class, the heaviest first.
classes: number of different answers in the vote.
rollouts: number of rollouts.
kept: number of rollouts that took part in the vote.
tied: whether a tie was broken at random.
correct: whether the answer equals the reference; null without a reference.
pass_at_1: share of right rollouts; null without a reference.
oracle: whether any rollout is right; null without a reference.
compared: whether all answers were compared in time. Otherwise, answers that were not count as
    different, unless their texts are identical.
row: number of the problem's first row; not part of the output.
"""

OUTPUT = RESULTS.remove(RESULTS.get_field_index("row"))
"""The columns that are written."""

_BLOCK = 2048
_TALLY = OUTPUT.get_field_index("tally")
_HIGH_BITS, _LOW_BITS = 40, 34
"""Together enough for every share of 2**20 rollouts: a share is 0 or at least 2**-20."""


@dataclass(slots=True)
class Summary:
    """A summary over all problems; the last three rates are over problems with a reference.

    Attributes:
        problems: number of problems.
        rollouts: number of rollouts of all problems.
        answered: problems with an answer.
        ties: problems whose tie was broken at random.
        graded: problems with a reference.
        uncompared: problems with answers that were not compared in time.
        pass_at_1: expected accuracy of a single rollout; None if nothing was graded.
        accuracy: accuracy of the vote.
        oracle: share of problems with at least one right rollout.
    """

    problems: int = 0
    rollouts: int = 0
    answered: int = 0
    ties: int = 0
    graded: int = 0
    uncompared: int = 0
    pass_at_1: float | None = None
    accuracy: float | None = None
    oracle: float | None = None


class Totals:
    """Sums up results; the summary does not depend on their order."""

    def __init__(self) -> None:
        counted = ("problems", "rollouts", "answered", "ties", "graded", "uncompared")
        self._counts = dict.fromkeys(counted, 0)
        self._passed = self._correct = self._oracle = 0

    def add(self, results: pa.RecordBatch) -> None:
        """Adds results."""
        self._counts["problems"] += len(results)
        self._counts["rollouts"] += pc.sum(results["rollouts"], min_count=0).as_py()
        self._counts["answered"] += pc.count(results["answer"]).as_py()
        self._counts["ties"] += pc.sum(results["tied"], min_count=0).as_py()
        self._counts["graded"] += pc.count(results["correct"]).as_py()
        self._counts["uncompared"] += (
            len(results) - pc.sum(results["compared"], min_count=0).as_py()
        )
        self._passed += _exact_sum(results["pass_at_1"].drop_null().to_numpy())
        self._correct += pc.sum(results["correct"], min_count=0).as_py()
        self._oracle += pc.sum(results["oracle"], min_count=0).as_py()

    @property
    def summary(self) -> Summary:
        """The summary of the results so far."""
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
    """The JSON of each result, without line breaks, in blocks."""
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
    """JSON lines, in blocks."""
    for block in to_json(results):
        yield with_escaped_line_ends(b"\n".join([*block, b""]))


def summary_json(summary: Summary) -> bytes:
    """The JSON of a summary."""
    return msgspec.json.encode(asdict(summary))
