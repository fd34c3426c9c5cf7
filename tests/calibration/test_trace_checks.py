"""Each fault of a recording is refused, with the row it is in and a way out."""

import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from calibration import Fingerprint, Rollout, TraceError
from calibration.trace_checks import check_table
from calibration.trace_table import SCHEMA, to_table

MakeRollout = Callable[..., Rollout]


@pytest.fixture
def rows(make_rollout: MakeRollout, fingerprint: Fingerprint) -> list[dict[str, Any]]:
    """Rows 0-2: checkpoints at 16 and 32 tokens, the end at 40; rows 3-7: up to the budget, 80."""
    rollouts = [
        make_rollout("p1"),
        make_rollout("p2", (0.5,) * 5, (True,) * 5, end=80, natural=False),
    ]
    return to_table(rollouts, fingerprint).to_pylist()


def check(rows: list[dict[str, Any]], fingerprint: Fingerprint) -> None:
    check_table(pa.Table.from_pylist(rows, SCHEMA), fingerprint, "t.parquet")


def test_a_sound_table(rows: list[dict[str, Any]], fingerprint: Fingerprint) -> None:
    check(rows, fingerprint)
    check(rows[::-1], fingerprint)


def test_the_group_column_may_be_missing(
    rows: list[dict[str, Any]], fingerprint: Fingerprint
) -> None:
    table = pa.Table.from_pylist(rows, SCHEMA).drop_columns("group")
    assert check_table(table, fingerprint, "t").group_L.tolist() == [None] * 8


@pytest.mark.parametrize("end", [16, 32, 64])
def test_an_end_on_a_checkpoint_has_both_rows(
    end: int, make_rollout: MakeRollout, fingerprint: Fingerprint
) -> None:
    n = end // 16
    rollout = make_rollout(confidences=(0.5,) * (n + 1), correct=(True,) * (n + 1), end=end)
    check(to_table([rollout], fingerprint).to_pylist(), fingerprint)


@pytest.mark.parametrize(
    ("row", "changes", "message"),
    [
        (1, {"confidence": float("nan")}, "confidence is nan, not a number from 0 to 1"),
        (1, {"confidence": 1.5}, "confidence is 1.5"),
        (1, {"correct": None}, "correct is null: grade the answer; one that cannot be read is"),
        (1, {"confidence": None}, "confidence is null: record the rollout again"),
        (1, {"end_reason": "high"}, "end_reason is 'high': only full rollouts"),
        (1, {"end_reason": "budget"}, "end_reason is 'budget', earlier 'natural'"),
        (1, {"group": "g"}, "group is 'g', earlier None: a problem is in one group"),
        (1, {"answer_class": -1}, "correct, but answer_class is -1"),
        (1, {"answer_class": -2}, "answer_class is -2"),
        (1, {"answer_tokens": -1}, "answer_tokens is -1: give 0 or more"),
        (1, {"tokens": 16}, "tokens are 16 after 16: they must increase"),
        (1, {"tokens": 31}, "tokens are 31, not 32: checkpoints lie every 16 tokens"),
        (1, {"is_final": True}, "is_final, but more readings follow"),
        (1, {"checkpoint": 1}, "the same reading is also in row 0"),
        (2, {"is_final": False}, "stops here without a final reading"),
        (2, {"tokens": 31}, "tokens are 31 after 32"),
        (2, {"tokens": 48}, "2 checkpoints before an end at 48 tokens, expected 3, one every 16"),
        (7, {"tokens": 81}, "tokens are 81 with a budget of 80"),
    ],
)
def test_a_changed_value(
    rows: list[dict[str, Any]],
    fingerprint: Fingerprint,
    row: int,
    changes: dict[str, Any],
    message: str,
) -> None:
    rows[row].update(changes)
    where = rf"^t\.parquet: row {row} \(problem '{rows[row]['problem_id']}', rollout 0.*"
    with pytest.raises(TraceError, match=where + re.escape(message)):
        check(rows, fingerprint)


@pytest.mark.parametrize(
    ("dropped", "message"),
    [
        (0, "row 0 (problem 'p1', rollout 0, checkpoint 2): checkpoint 1 is missing before it"),
        (1, "row 1 (problem 'p1', rollout 0, checkpoint 3): checkpoint 2 is missing before it"),
        (2, "row 1 (problem 'p1', rollout 0, checkpoint 2): the rollout stops here without a"),
        (7, "row 6 (problem 'p2', rollout 0, checkpoint 4): the rollout stops here without a"),
    ],
)
def test_a_missing_row(
    rows: list[dict[str, Any]], fingerprint: Fingerprint, dropped: int, message: str
) -> None:
    del rows[dropped]
    with pytest.raises(TraceError, match=re.escape(message)):
        check(rows, fingerprint)


def test_a_row_twice(rows: list[dict[str, Any]], fingerprint: Fingerprint) -> None:
    with pytest.raises(TraceError, match=r"row 8 .*the same reading is also in row 1: drop one"):
        check([*rows, rows[1]], fingerprint)


def test_the_row_is_that_of_the_file_not_of_the_sorted_table(
    rows: list[dict[str, Any]], fingerprint: Fingerprint
) -> None:
    rows[1]["confidence"] = 2.0
    with pytest.raises(TraceError, match="row 6 "):
        check(rows[::-1], fingerprint)


def test_a_checkpoint_at_the_budget(make_rollout: MakeRollout, fingerprint: Fingerprint) -> None:
    rollout = make_rollout(confidences=(0.5,) * 6, correct=(True,) * 6, end=80)
    with pytest.raises(TraceError, match="tokens are 80 with a budget of 80"):
        check(to_table([rollout], fingerprint).to_pylist(), fingerprint)


def test_missing_and_mistyped_columns(rows: list[dict[str, Any]], fingerprint: Fingerprint) -> None:
    table = pa.Table.from_pylist(rows, SCHEMA)
    with pytest.raises(TraceError, match=r"missing columns \['tokens', 'correct'\]"):
        check_table(table.drop_columns(["tokens", "correct"]), fingerprint, "t")
    mistyped = table.set_column(4, "tokens", pa.array(["many"] * 8))
    with pytest.raises(TraceError, match=r"t: .*many"):
        check_table(mistyped, fingerprint, "t")
