"""Batches of rollouts for tests, and the vote as the paper defines it."""

import random
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import pyarrow as pa
from hypothesis import strategies as st

from rlcm_serve.aggregation import Aggregation, Rule, VoteOptions, rollouts_of
from rlcm_serve.aggregation.results import OUTPUT, Summary

Result = dict[str, Any]


class Row(NamedTuple):
    problem_id: str
    answer: str | None
    confidence: float
    reference: str | None = None


def batch(rows: Sequence[Row], first: int = 1) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True)) or [[], [], [], []]
    numbered = rollouts_of(*columns)
    at = numbered.schema.get_field_index("row")
    return numbered.set_column(at, "row", pa.array(range(first, first + len(rows)), pa.int64()))


def aggregate(
    rows: Sequence[Row],
    options: VoteOptions | None = None,
    *,
    size: int | None = None,
    memory: int = 2**26,
) -> tuple[list[Result], Summary]:
    """The results, in order, of rows that come `size` at a time."""
    step = size or max(len(rows), 1)
    results: list[Result] = []
    with Aggregation(options or VoteOptions(), memory=memory) as aggregation:
        for start in range(0, len(rows), step):
            found = aggregation.add(batch(rows[start : start + step], start + 1))
            results += records(found)
        results += records(aggregation.finish())
    return results, aggregation.summary


def records(batches: Iterable[pa.RecordBatch]) -> list[Result]:
    return [
        {**record, "tally": dict(record["tally"])}
        for each in batches
        for record in each.select(OUTPUT.names).to_pylist()
    ]


def by_problem(results: Iterable[Result]) -> dict[str, Result]:
    return {result["problem_id"]: result for result in results}


def paper_vote(rows: Sequence[Row], rule: Rule) -> tuple[set[str], dict[str, Fraction]]:
    """RLCM §5.2 on one problem: the answers that attain the maximum, and each one's weight.

    Exact, except that confidences are rounded to the nearest multiple of 2**-40.
    """
    weights: dict[str, Fraction] = {}
    for row in rows:
        if row.answer is not None:
            unit = Fraction(1)
            weight = (
                Fraction(round(row.confidence * 2**40), 2**40) if rule.value != "majority" else unit
            )
            weights[row.answer] = weights.get(row.answer, Fraction(0)) + weight
    most = max(weights.values(), default=None)
    return {answer for answer, weight in weights.items() if weight == most}, weights


# Few problems and answers, coarse and fine weights: ties are common, and so are near-ties.
confidences = st.sampled_from([0.0, 0.1, 0.2, 0.3, 0.1 + 0.2, 0.5, 1.0]) | st.floats(0, 1)
rows = st.lists(
    st.builds(
        Row,
        st.sampled_from(["a", "b", "c", "Ä", "problem-4"]),
        st.sampled_from(["7", "8", "-3", "north", None]),
        confidences,
        st.none(),
    ),
    max_size=40,
)


def shuffled(rows: Sequence[Row], seed: int) -> list[Row]:
    return random.Random(seed).sample(list(rows), len(rows))


def grouped(rows: Sequence[Row]) -> list[Row]:
    """The same rows, grouped by problem; problems are in order of first appearance."""
    first: dict[str, int] = {}
    for row in rows:
        first.setdefault(row.problem_id, len(first))
    return sorted(rows, key=lambda row: first[row.problem_id])
