"""Each fault of a recording is refused; the message names the row and the remedy."""

import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from calibration import Fingerprint, Rollout, TraceError
from calibration.traces.checks import check_tables
from calibration.traces.columns import Columns
from calibration.traces.table import SCHEMA, to_table

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
    check_tables([pa.Table.from_pylist(rows, SCHEMA)], ["t.parquet"], fingerprint)


def check_bare(rows: list[dict[str, Any]]) -> Columns:
    """Checks rows without a fingerprint; the columns are those that the rows name."""
    return check_tables([pa.Table.from_pylist(rows)], ["t.parquet"], None)


def test_a_sound_table(rows: list[dict[str, Any]], fingerprint: Fingerprint) -> None:
    check(rows, fingerprint)
    check(rows[::-1], fingerprint)


def test_group_and_answer_may_be_missing(
    rows: list[dict[str, Any]], fingerprint: Fingerprint
) -> None:
    table = pa.Table.from_pylist(rows, SCHEMA)
    columns = check_tables([table.drop_columns(["group", "answer"])], ["t"], fingerprint)
    assert [columns.group[line] for line in range(8)] == [None] * 8
    assert columns.answer_class_L.tolist() == table.column("answer_class").to_pylist()


def test_a_rollout_that_was_cut_off_before_its_budget_is_refused(
    make_rollout: MakeRollout, fingerprint: Fingerprint
) -> None:
    rows = to_table([make_rollout("p1", end=40, natural=False)], fingerprint).to_pylist()
    with pytest.raises(TraceError, match=r"end_reason is 'budget' at 40 tokens, and the budget is"):
        check(rows, fingerprint)


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
        (1, {"correct": None}, "correct is null: grade the answer; an answer that cannot"),
        (1, {"confidence": None}, "confidence is null: record the rollout again"),
        (1, {"end_reason": "high"}, "end_reason is 'high': only full rollouts"),
        (1, {"end_reason": "budget"}, "end_reason is 'budget', earlier 'natural'"),
        (1, {"group": "g"}, "group is 'g', earlier None: a problem is in one group"),
        (1, {"answer_class": -1}, "correct is true, but answer_class is -1"),
        (1, {"answer_class": -2}, "answer_class is -2"),
        (1, {"answer_tokens": -1}, "answer_tokens is -1: give 0 or more"),
        (1, {"tokens": 16}, "tokens are 16 after 16: they must increase"),
        (1, {"tokens": 31}, "tokens are 31, not 32: the fingerprint has a checkpoint every 16"),
        (1, {"is_final": True}, "is_final is true, but more readings follow"),
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


def test_where_a_server_counts_the_first_checkpoint_is_1(
    rows: list[dict[str, Any]], fingerprint: Fingerprint
) -> None:
    for row in rows:
        row["checkpoint"] -= 1
    with pytest.raises(TraceError, match=r"row 0 .*the first checkpoint must have number 1: co"):
        check(rows, fingerprint)
    check_bare(rows)


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
    dropped = table.drop_columns(["tokens", "checkpoint"])
    with pytest.raises(TraceError, match=r"t: missing columns \['checkpoint', 'tokens'\]"):
        check_tables([dropped], ["t"], fingerprint)
    with pytest.raises(TraceError, match=r"t: missing columns \['tokens'\]: traces without"):
        check_tables([dropped], ["t"], None)
    listed = table.set_column(4, "tokens", pa.array([[1]] * 8))
    with pytest.raises(TraceError, match=r"t: tokens is list<.*give int64"):
        check_tables([listed], ["t"], fingerprint)


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("tokens", ["16", "many"], "row 1 (problem 'p', rollout 0): tokens is 'many': give int64"),
        ("tokens", [16.0, 31.5], "row 1 (problem 'p', rollout 0): tokens is 31.5: give int64"),
        ("correct", [0.0, 0.5], "row 1 (problem 'p', rollout 0): correct is 0.5: give bool"),
        ("correct", [2, 0], "row 0 (problem 'p', rollout 0): correct is 2: give bool"),
    ],
)
def test_a_value_that_would_be_changed_by_its_columns_type(
    name: str, values: list[Any], message: str
) -> None:
    table = pa.table(
        {
            "problem_id": ["p", "p"],
            "rollout": [0, 0],
            "tokens": [16, 32],
            "is_final": [False, True],
            "confidence": [0.5, 0.5],
            "correct": [False, True],
        }
        | {name: values}
    )
    with pytest.raises(TraceError, match="^" + re.escape("t: " + message)):
        check_tables([table], ["t"], None)


def test_other_types_that_hold_the_same_values(rows: list[dict[str, Any]]) -> None:
    """As other programs write them: large or encoded texts, small integers, verdicts of 0 and 1."""
    table = pa.Table.from_pylist(rows, SCHEMA).drop_columns(["answer_class", "group"])
    table = table.append_column("group", pa.nulls(8))
    for name, kind in {
        "problem_id": pa.large_string(),
        "rollout": pa.int8(),
        "tokens": pa.float64(),
        "is_final": pa.int64(),
        "confidence": pa.float32(),
    }.items():
        at = table.column_names.index(name)
        table = table.set_column(at, name, table.column(name).cast(kind))
    # Arrow knows no cast from truth to float.
    correct = pa.array(table.column("correct").to_numpy().astype(float))
    table = table.set_column(table.column_names.index("correct"), "correct", correct)
    at = table.column_names.index("answer")
    table = table.set_column(at, "answer", table.column("answer").dictionary_encode())
    columns = check_tables([table], ["t"], None)
    assert columns.problem.code_L.tolist() == [0] * 3 + [1] * 5
    assert columns.correct_L.tolist() == [False] + [True] * 7
    assert columns.tokens_L.tolist() == [16, 32, 40, 16, 32, 48, 64, 80]


@pytest.fixture
def bare_rows() -> list[dict[str, Any]]:
    """Two problems with readings at 0, 50 and 100% of their rollouts, without optional columns."""
    return [
        {
            "problem_id": problem_id,
            "rollout": 0,
            "tokens": tokens,
            "is_final": tokens == end,
            "confidence": 0.25,
            "correct": tokens > 0,
        }
        for problem_id, end in (("p1", 177), ("p0", 90))
        for tokens in (0, end // 2, end)
    ]


def test_what_is_left_out_is_filled_in(bare_rows: list[dict[str, Any]]) -> None:
    columns = check_bare(bare_rows)
    assert columns.row_L.tolist() == [3, 4, 5, 0, 1, 2]
    assert columns.tokens_L.tolist() == [0, 45, 90, 0, 88, 177]
    assert columns.checkpoint_L.tolist() == [1, 2, 3, 1, 2, 3]
    assert columns.end_reason.are("natural").all()
    assert columns.answer_tokens_L.tolist() == [0] * 6
    # Right answers are one class, wrong ones another.
    assert columns.answer_class_L.tolist() == [1, 0, 0] * 2
    assert columns.group[0] is None


def test_a_name_that_no_row_uses_is_no_problem(bare_rows: list[dict[str, Any]]) -> None:
    table = pa.Table.from_pylist(bare_rows)
    codes = pa.array([4, 4, 4, 1, 1, 1], pa.int32())
    coded = pa.DictionaryArray.from_arrays(codes, ["z", "p0", "a", "b", "p1", "y"])
    columns = check_tables([table.set_column(0, "problem_id", coded)], ["t"], None)
    assert columns.problem.names.to_pylist() == ["p0", "p1"]
    assert columns.problem.code_L.tolist() == [0, 0, 0, 1, 1, 1]
    assert columns.tokens_L.tolist() == [0, 45, 90, 0, 88, 177]


def test_classes_are_equal_texts_within_a_problem(bare_rows: list[dict[str, Any]]) -> None:
    texts = ["B", "A", "B", None, "C", "C"]  # of p1, then of p0
    rows = [row | {"answer": text} for row, text in zip(bare_rows, texts, strict=True)]
    assert check_bare(rows).answer_class_L.tolist() == [-1, 0, 0, 1, 0, 1]
    rows[4]["answer"] = None
    with pytest.raises(TraceError, match=r"row 4 .*correct is true, but answer_class is -1 .*set"):
        check_bare(rows)


@pytest.mark.parametrize("first", [0, 1])
def test_checkpoints_count_from_0_or_1(bare_rows: list[dict[str, Any]], first: int) -> None:
    rows = [row | {"checkpoint": i % 3 + first} for i, row in enumerate(bare_rows)]
    assert check_bare(rows[::-1]).tokens_L.tolist() == [0, 45, 90, 0, 88, 177]
    rows[2]["checkpoint"] += 1
    message = (
        rf"row 2 \(problem 'p1', rollout 0, checkpoint {first + 3}\): checkpoint {first + 2} is"
    )
    with pytest.raises(TraceError, match=message):
        check_bare(rows)
    late = [row | {"checkpoint": i % 3 + 2} for i, row in enumerate(bare_rows)]
    with pytest.raises(TraceError, match="checkpoint 1 is missing before it"):
        check_bare(late)


@pytest.mark.parametrize(
    ("row", "changes", "message"),
    [
        (1, {"confidence": float("nan")}, "confidence is nan, not a number from 0 to 1"),
        (1, {"confidence": None}, "confidence is null: record the rollout again"),
        (1, {"tokens": 178}, "tokens are 177 after 178: they must increase from row to row with"),
        (1, {"tokens": 0}, "the same reading is also in row 0: drop one of them"),
        (0, {"tokens": -5}, "tokens is -5: give 0 or more"),
        (1, {"is_final": True}, "is_final is true, but more readings follow"),
        (2, {"is_final": False}, "the rollout stops here without a final reading"),
        (2, {"rollout": 1}, "the rollout stops here without a final reading"),
        (1, {"end_reason": "low"}, "end_reason is 'low': only full rollouts"),
    ],
)
def test_a_changed_value_without_a_fingerprint(
    bare_rows: list[dict[str, Any]], row: int, changes: dict[str, Any], message: str
) -> None:
    if "end_reason" in changes:
        bare_rows = [line | {"end_reason": "natural"} for line in bare_rows]
    bare_rows[row].update(changes)
    with pytest.raises(
        TraceError, match=r"^t\.parquet: row \d \(problem 'p1', rollout 0.*"
    ) as error:
        check_bare(bare_rows)
    assert message in str(error.value)


def test_rollouts_without_any_token(bare_rows: list[dict[str, Any]]) -> None:
    rows = [row | {"tokens": 0} for row in bare_rows if row["is_final"]]
    with pytest.raises(TraceError, match=r"tokens are 0 in every row: give the tokens of each"):
        check_bare(rows)
    rows[0]["tokens"] = 1
    assert check_bare(rows).tokens_L.sum() == 1


def test_a_row_twice_without_numbers(bare_rows: list[dict[str, Any]]) -> None:
    with pytest.raises(TraceError, match=r"row 6 .*the same reading is also in row 1: drop one"):
        check_bare([*bare_rows, bare_rows[1]])


def test_an_end_on_a_checkpoint_without_numbers(bare_rows: list[dict[str, Any]]) -> None:
    bare_rows[1]["tokens"] = 177
    assert check_bare(bare_rows).tokens_L.tolist()[3:] == [0, 177, 177]


def unlabelled(rows: list[dict[str, Any]], *which: int) -> pa.Table:
    return pa.Table.from_pylist(
        [{**row, "correct": None} if i in which else row for i, row in enumerate(rows)]
    )


def test_a_problem_may_have_no_label_where_that_is_asked_for(
    rows: list[dict[str, Any]], fingerprint: Fingerprint
) -> None:
    table = unlabelled(rows, 0, 1, 2)
    columns = check_tables([table], ["t"], fingerprint, keep_unlabelled=True)
    assert columns.graded_L.tolist() == [False] * 3 + [True] * 5
    assert columns.correct_L.tolist() == [False] * 3 + [True] * 5
    verdicts = pa.array([None] * 3 + [1.0] * 5)
    table = table.set_column(table.column_names.index("correct"), "correct", verdicts)
    columns = check_tables([table], ["t"], fingerprint, keep_unlabelled=True)
    assert columns.correct_L.tolist() == [False] * 3 + [True] * 5


def test_a_problem_has_a_label_or_none(
    rows: list[dict[str, Any]], fingerprint: Fingerprint
) -> None:
    for which, said in (((0,), "given"), ((1, 2), "null")):
        with pytest.raises(TraceError, match=f"correct is {said} here, and not in earlier"):
            check_tables([unlabelled(rows, *which)], ["t"], fingerprint, keep_unlabelled=True)
    bare = unlabelled(rows, 0, 1, 2).drop_columns(["answer", "answer_class"])
    with pytest.raises(TraceError, match="t: problems without a label, and no column `answer`"):
        check_tables([bare], ["t"], None, keep_unlabelled=True)
