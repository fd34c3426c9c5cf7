"""Reading and writing; test_checks.py has the tables that a reader must refuse."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from calibration import (
    CalibrationError,
    Fingerprint,
    Rollout,
    TraceError,
    Traces,
    read_traces,
    write_traces,
)
from calibration.traces.traces import INPUTS_SUFFIX

MakeRollout = Callable[..., Rollout]


@pytest.fixture
def rollouts(make_rollout: MakeRollout) -> list[Rollout]:
    return [
        make_rollout("p2", (0.2, 0.6, 0.9), (False, True, True), end=40),
        make_rollout("p1", (0.1,), (False,), end=7, rollout=1),
        make_rollout("p1", (0.3, 0.4), (True, False), end=16, rollout=0),
        make_rollout("p3", (0.5,) * 5, (True,) * 5, end=80, natural=False, group="g"),
    ]


def test_a_missing_folder_is_made(
    tmp_path: Path, rollouts: list[Rollout], fingerprint: Fingerprint
) -> None:
    write_traces(tmp_path / "new" / "t.parquet", rollouts, fingerprint)
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["t.parquet"]


def test_round_trip(tmp_path: Path, rollouts: list[Rollout], fingerprint: Fingerprint) -> None:
    write_traces(tmp_path / "t.parquet", rollouts, fingerprint)
    traces = read_traces(tmp_path / "t.parquet")
    assert traces.fingerprint == fingerprint
    assert traces.problem_ids == ("p1", "p2", "p3")
    assert traces.groups == (None, None, "g")
    assert traces.rollouts_P.tolist() == [2, 1, 1]
    assert traces.rollout_R.tolist() == [0, 1, 0, 0]
    assert traces.natural_R.tolist() == [True, True, True, False]
    assert traces.final_R.tolist() == [1, 0, 2, 4]
    assert traces.tokens_RC.tolist() == [
        [16, 16, 0, 0, 0],
        [7, 0, 0, 0, 0],
        [16, 32, 40, 0, 0],
        [16, 32, 48, 64, 80],
    ]
    assert traces.confidence_RC[2, :3].tolist() == [0.2, 0.6, 0.9]
    assert np.isnan(traces.confidence_RC[2, 3:]).all()
    assert traces.correct_RC[0].tolist() == [True, False, False, False, False]
    assert traces.answer_tokens_RC[3].tolist() == [3] * 5
    assert list(tmp_path.iterdir()) == [tmp_path / "t.parquet"]


def with_costs(rollouts: list[Rollout], cost: int) -> list[Rollout]:
    return [
        replace(rollout, final=replace(rollout.final, confidence_tokens=cost))
        for rollout in rollouts
    ]


def test_what_readings_cost_is_a_column_only_where_some_cost_anything(
    tmp_path: Path, rollouts: list[Rollout], fingerprint: Fingerprint
) -> None:
    for cost in (0, 4):
        write_traces(tmp_path / f"{cost}.parquet", with_costs(rollouts, cost), fingerprint)
    free, dear = read_traces(tmp_path / "0.parquet"), read_traces(tmp_path / "4.parquet")
    assert "confidence_tokens" not in pq.read_schema(tmp_path / "0.parquet").names
    assert free.confidence_tokens_RC is None
    assert dear.confidence_tokens_RC is not None
    assert dear.confidence_tokens_RC.tolist() == [
        [0, 4, 0, 0, 0],
        [4, 0, 0, 0, 0],
        [0, 0, 4, 0, 0],
        [0, 0, 0, 0, 4],
    ]
    assert dear.select(np.array([False, True, False])).confidence_tokens_RC is not None
    assert dear.digest != free.digest
    zeros_RC = np.zeros_like(free.tokens_RC)
    assert replace(free, confidence_tokens_RC=zeros_RC).digest == free.digest


def test_files_with_and_without_that_column_are_read_together(
    tmp_path: Path, make_rollout: MakeRollout, fingerprint: Fingerprint
) -> None:
    write_traces(tmp_path / "a.parquet", [make_rollout("p1")], fingerprint)
    write_traces(tmp_path / "b.parquet", with_costs([make_rollout("p2")], 4), fingerprint)
    traces = read_traces(tmp_path)
    assert traces.confidence_tokens_RC is not None
    assert traces.confidence_tokens_RC.tolist() == [[0, 0, 0], [0, 0, 4]]


def test_traces_that_cannot_be_replayed_are_not_written(
    tmp_path: Path, make_rollout: MakeRollout, fingerprint: Fingerprint
) -> None:
    with pytest.raises(TraceError, match="confidence is nan"):
        write_traces(tmp_path / "t.parquet", [make_rollout(confidences=(np.nan,) * 3)], fingerprint)
    assert list(tmp_path.iterdir()) == []


def test_a_directory_is_read_whole_and_order_does_not_matter(
    tmp_path: Path, rollouts: list[Rollout], fingerprint: Fingerprint
) -> None:
    write_traces(tmp_path / "1.parquet", rollouts[2:], fingerprint)
    write_traces(tmp_path / "2.parquet", rollouts[:2], fingerprint)
    together = Traces.from_rollouts(rollouts, fingerprint)
    (tmp_path / f"1{INPUTS_SUFFIX}").write_text("what a probe can read of them lies beside them")
    assert read_traces(tmp_path).digest == together.digest
    assert Traces.from_rollouts(rollouts[::-1], fingerprint).digest == together.digest


def test_the_digest_sees_every_value(
    rollouts: list[Rollout], fingerprint: Fingerprint, make_rollout: MakeRollout
) -> None:
    digests = {Traces.from_rollouts(rollouts, fingerprint).digest}
    for changed in (
        make_rollout("p2", (0.2, 0.6, 0.8)),
        make_rollout("p2", correct=(False, False, True)),
        make_rollout("p2", end=41),
        make_rollout("p2", group="g"),
        make_rollout("p4"),
        make_rollout("p2", answer_tokens=4),
        make_rollout("p2", (0.5,) * 5, (True,) * 5, end=80),
        make_rollout("p2", (0.5,) * 5, (True,) * 5, end=80, natural=False),
    ):
        digests.add(Traces.from_rollouts([changed, *rollouts[1:]], fingerprint).digest)
    digests.add(Traces.from_rollouts(rollouts, replace(fingerprint, probe="p9")).digest)
    assert len(digests) == 10


def test_files_of_two_fingerprints_are_refused(
    tmp_path: Path, rollouts: list[Rollout], fingerprint: Fingerprint
) -> None:
    write_traces(tmp_path / "1.parquet", rollouts[:1], fingerprint)
    write_traces(tmp_path / "2.parquet", rollouts[1:], replace(fingerprint, temperature=1.0))
    with pytest.raises(
        TraceError, match=r"2\.parquet: not recorded under .* of 1\.parquet"
    ) as error:
        read_traces(tmp_path)
    assert "temperature: 1.0 here, 0.8 there" in str(error.value)


def test_a_file_without_a_fingerprint_beside_one_with_it(
    tmp_path: Path, rollouts: list[Rollout], fingerprint: Fingerprint
) -> None:
    write_traces(tmp_path / "1.parquet", rollouts[:1], fingerprint)
    write_traces(tmp_path / "2.parquet", rollouts[1:], None)
    with pytest.raises(TraceError, match=r"2\.parquet has no fingerprint, \S*1\.parquet has one"):
        read_traces(tmp_path)
    (tmp_path / "1.parquet").rename(tmp_path / "3.parquet")
    with pytest.raises(TraceError, match=r"2\.parquet has no fingerprint, \S*3\.parquet has one"):
        read_traces(tmp_path)


def test_a_rollout_in_two_files_is_refused(
    tmp_path: Path, rollouts: list[Rollout], fingerprint: Fingerprint
) -> None:
    write_traces(tmp_path / "1.parquet", rollouts[:2], fingerprint)
    write_traces(tmp_path / "2.parquet", rollouts[:1], fingerprint)
    with pytest.raises(
        TraceError,
        match=r"2\.parquet: row 0 \(problem 'p2', rollout 0, checkpoint 1\): the same reading is "
        r"also in row 0 of \S*1\.parquet: drop one of them",
    ):
        read_traces(tmp_path)


def test_a_fault_is_named_by_the_row_of_its_own_file(
    tmp_path: Path, rollouts: list[Rollout], fingerprint: Fingerprint
) -> None:
    write_traces(tmp_path / "1.parquet", rollouts[:1], fingerprint)
    write_traces(tmp_path / "2.parquet", rollouts[1:], fingerprint)
    rows = pq.read_table(tmp_path / "2.parquet")
    confidence = pa.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 7.0, 0.8])
    broken = rows.set_column(rows.column_names.index("confidence"), "confidence", confidence)
    pq.write_table(broken, tmp_path / "2.parquet")
    where = r"2\.parquet: row 6 \(problem 'p3', rollout 0, checkpoint 4\): confidence is 7\.0"
    with pytest.raises(TraceError, match=where):
        read_traces(tmp_path)


def test_files_of_other_columns_are_refused(tmp_path: Path, relative: pa.Table) -> None:
    pq.write_table(relative.slice(0, 22), tmp_path / "1.parquet")
    pq.write_table(relative.slice(22).drop_columns("answer"), tmp_path / "2.parquet")
    with pytest.raises(TraceError, match=r"columns \['answer'\] are in .*2\.parquet or in .*1\."):
        read_traces(tmp_path)


def test_groups_and_texts_may_be_in_one_file_only(
    tmp_path: Path, rollouts: list[Rollout], fingerprint: Fingerprint
) -> None:
    write_traces(tmp_path / "1.parquet", rollouts[:3], fingerprint)
    write_traces(tmp_path / "2.parquet", rollouts[3:], fingerprint)
    first = pq.read_table(tmp_path / "1.parquet").drop_columns(["group", "answer"])
    pq.write_table(first, tmp_path / "1.parquet")
    assert read_traces(tmp_path).digest == Traces.from_rollouts(rollouts, fingerprint).digest


def test_damaged_files_are_refused(
    tmp_path: Path, rollouts: list[Rollout], fingerprint: Fingerprint
) -> None:
    path = tmp_path / "t.parquet"
    write_traces(path, rollouts, fingerprint)
    table = pq.read_table(path)
    pq.write_table(table.replace_schema_metadata({"rlcm_fingerprint": "{"}), path)
    with pytest.raises(TraceError, match="malformed fingerprint"):
        read_traces(path)
    pq.write_table(table.slice(0, 0), path)
    with pytest.raises(TraceError, match="no rows: nothing was recorded"):
        read_traces(path)
    pq.write_table(table, path, compression="zstd")
    whole = path.read_bytes()
    for damaged in (b"no parquet", whole[:-100], whole[:4] + bytes(400) + whole[404:]):
        path.write_bytes(damaged)
        with pytest.raises(TraceError, match="is not Parquet"):
            read_traces(path)


@pytest.mark.parametrize("name", ["problem_id", "end_reason"])
def test_texts_that_are_not_utf_8_are_refused(
    tmp_path: Path, rollouts: list[Rollout], fingerprint: Fingerprint, name: str
) -> None:
    path = tmp_path / "t.parquet"
    write_traces(path, rollouts, fingerprint)
    table = pq.read_table(path)
    bad = pa.array([b"\xff"] * len(table), pa.binary()).view(pa.string())
    pq.write_table(table.set_column(table.column_names.index(name), name, bad), path)
    with pytest.raises(TraceError, match=r"t.parquet has a text that is not UTF-8"):
        read_traces(path)


@pytest.fixture
def relative() -> pa.Table:
    """As another program records for analysis: 11 readings at 0, 10, ... % of 6 rollouts."""
    rng = np.random.default_rng(3)
    readings = [(p, i, round(i * (977 + 131 * p) / 10)) for p in range(6) for i in range(11)]
    letters = rng.choice(list("ABCD"), len(readings))
    return pa.table(
        {
            "problem_id": pa.array([f"q-{p:03d}" for p, _, _ in readings], pa.large_string()),
            "rollout": np.zeros(len(readings), dtype=np.int64),
            "checkpoint": [i for _, i, _ in readings],
            "tokens": [tokens for _, _, tokens in readings],
            "is_final": [i == 10 for _, i, _ in readings],
            "confidence": rng.random(len(readings)),
            "answer": pa.array(letters.tolist(), pa.large_string()),
            "correct": letters == "B",
        }
    ).replace_schema_metadata({"pandas": "{}"})


def test_a_file_without_a_fingerprint_is_read_for_analysis(
    tmp_path: Path, relative: pa.Table
) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(relative, path)
    traces = read_traces(path)
    assert traces.fingerprint is None
    assert not traces.servable
    assert traces.problem_ids == tuple(f"q-{p:03d}" for p in range(6))
    assert traces.tokens_RC[0].tolist() == [0, 98, 195, 293, 391, 488, 586, 684, 782, 879, 977]
    assert traces.final_R.tolist() == [10] * 6
    assert traces.natural_R.all()
    assert not traces.answer_tokens_RC.any()
    confidence_RC = np.reshape(relative.column("confidence").to_numpy(), (6, 11))
    np.testing.assert_array_equal(traces.confidence_RC, confidence_RC)
    letter_RC = np.reshape(np.array(relative.column("answer").to_pylist()), (6, 11))
    np.testing.assert_array_equal(traces.correct_RC, letter_RC == "B")
    for row in range(6):
        same_CC = letter_RC[row, :, None] == letter_RC[row]
        class_C = traces.answer_class_RC[row]
        np.testing.assert_array_equal(class_C[:, None] == class_C, same_CC)
    first, second = traces.split(0.5)
    assert first.n_problems + second.n_problems == 6
    assert not first.servable
    assert traces.select(np.ones(6, dtype=np.bool_)).digest == traces.digest


def test_without_a_fingerprint_too_order_does_not_matter(
    tmp_path: Path, relative: pa.Table
) -> None:
    pq.write_table(relative, tmp_path / "1.parquet")
    digest = read_traces(tmp_path).digest
    order = np.random.default_rng(0).permutation(len(relative))
    pq.write_table(relative.take(pa.array(order)), tmp_path / "1.parquet", row_group_size=7)
    assert read_traces(tmp_path).digest == digest
    pq.write_table(relative.slice(0, 30), tmp_path / "1.parquet")
    pq.write_table(relative.slice(30), tmp_path / "2.parquet")
    assert read_traces(tmp_path).digest == digest


def test_what_was_recorded_is_part_of_the_digest(
    rollouts: list[Rollout], fingerprint: Fingerprint
) -> None:
    known, unknown = (Traces.from_rollouts(rollouts, which) for which in (fingerprint, None))
    assert known.servable
    assert not unknown.servable
    assert unknown.digest != known.digest


def test_rollouts_are_written_as_they_come(
    tmp_path: Path, make_rollout: MakeRollout, fingerprint: Fingerprint
) -> None:
    """More than one batch, from a generator."""
    rollouts = (make_rollout(f"p{i // 2}", rollout=i % 2) for i in range(5000))
    write_traces(tmp_path / "t.parquet", rollouts, fingerprint)
    traces = read_traces(tmp_path / "t.parquet")
    assert traces.n_problems == 2500
    assert set(traces.rollouts_P) == {2}


def test_a_value_of_another_type_is_not_written(
    tmp_path: Path, make_rollout: MakeRollout, fingerprint: Fingerprint
) -> None:
    rollouts = [make_rollout("p1"), make_rollout("p2", end="40")]
    with pytest.raises(TraceError, match=r"problem 'p2', rollout 0: .*give the types"):
        write_traces(tmp_path / "t.parquet", rollouts, fingerprint)
    assert list(tmp_path.iterdir()) == []


def test_units_are_groups_and_lone_problems(
    make_rollout: MakeRollout, fingerprint: Fingerprint
) -> None:
    groups = {"p1": "x", "p2": None, "p3": "x", "p4": "p2"}
    traces = Traces.from_rollouts(
        [make_rollout(id_, rollout=r, group=g) for id_, g in groups.items() for r in range(2)],
        fingerprint,
    )
    assert traces.n_units == 3
    assert sorted(set(traces.units)) == ["group p2", "group x", "problem p2"]
    first, second, third, fourth = traces.unit_P.tolist()
    assert first == third
    assert {first, second, fourth} == {0, 1, 2}


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"no \*\.parquet file"):
        read_traces(tmp_path)
    with pytest.raises(FileNotFoundError):
        read_traces(tmp_path / "none.parquet")


def test_select_keeps_problems_whole(rollouts: list[Rollout], fingerprint: Fingerprint) -> None:
    traces = Traces.from_rollouts(rollouts, fingerprint)
    kept = traces.select(np.array([True, False, True]))
    assert kept.problem_ids == ("p1", "p3")
    assert kept.problem_R.tolist() == [0, 0, 1]
    assert kept.final_R.tolist() == [1, 0, 4]
    assert kept.digest == Traces.from_rollouts(rollouts[1:], fingerprint).digest
    with pytest.raises(CalibrationError, match="none of 3 problems is kept"):
        traces.select(np.zeros(3, dtype=bool))


def test_split_keeps_groups_together(make_rollout: MakeRollout, fingerprint: Fingerprint) -> None:
    rollouts = [
        make_rollout(f"p{i}", rollout=r, group=f"g{i // 2}" if i < 20 else None)
        for i in range(40)
        for r in range(2)
    ]
    traces = Traces.from_rollouts(rollouts, fingerprint)
    first, second = traces.split(0.4, seed=3)
    assert set(first.problem_ids) | set(second.problem_ids) == set(traces.problem_ids)
    assert not set(first.units) & set(second.units)
    assert len(set(first.units)) == 12  # of 10 groups and 20 problems of their own
    again = Traces.from_rollouts(rollouts[::-1], fingerprint).split(0.4, seed=3)
    assert again[0].digest == first.digest
    assert traces.split(0.4, seed=4)[0].digest != first.digest


def test_a_split_with_an_empty_part_is_refused(
    rollouts: list[Rollout], fingerprint: Fingerprint
) -> None:
    with pytest.raises(CalibrationError, match=r"a fraction of 0.1 of 3 problems"):
        Traces.from_rollouts(rollouts, fingerprint).split(0.1)


GATED = {"familiarity": "f0", "familiarity_cutoff": 0.004}


def read_familiarity(rollouts: list[Rollout], **p_values: float) -> list[Rollout]:
    return [replace(one, familiarity=p_values.get(one.problem_id, 0.5)) for one in rollouts]


def test_problems_at_the_familiarity_cutoff_are_left_out(
    tmp_path: Path, rollouts: list[Rollout], fingerprint: Fingerprint
) -> None:
    gated = replace(fingerprint, **GATED)  # type: ignore[arg-type]
    write_traces(tmp_path / "t.parquet", read_familiarity(rollouts, p2=0.004), gated)
    traces = read_traces(tmp_path / "t.parquet")
    assert traces.problem_ids == ("p1", "p3")
    assert traces.is_gated
    everything = read_traces(tmp_path / "t.parquet", keep_unfamiliar=True)
    assert everything.problem_ids == ("p1", "p2", "p3")
    assert everything.familiarity_P is not None
    assert everything.familiarity_P.tolist() == [0.5, 0.004, 0.5]
    assert everything.passing().digest == traces.digest
    assert traces.passing() is traces


def test_a_problem_has_the_familiarity_of_its_first_rollout(
    rollouts: list[Rollout], fingerprint: Fingerprint
) -> None:
    gated = replace(fingerprint, **GATED)  # type: ignore[arg-type]
    read = read_familiarity(rollouts)
    read[1] = replace(read[1], familiarity=0.001)  # rollout 1 of p1
    assert Traces.from_rollouts(read, gated).problem_ids == ("p1", "p2", "p3")


def test_without_a_familiarity_reading_nothing_is_left_out(
    rollouts: list[Rollout], fingerprint: Fingerprint
) -> None:
    read = read_familiarity(rollouts, p1=0.0, p2=0.0)
    traces = Traces.from_rollouts(read, fingerprint)
    assert traces.n_problems == 3
    assert traces.familiarity_P is None
    assert traces.digest == Traces.from_rollouts(rollouts, fingerprint).digest


def test_rollouts_without_the_reading_of_their_fingerprint_are_refused(
    rollouts: list[Rollout], fingerprint: Fingerprint
) -> None:
    gated = replace(fingerprint, **GATED)  # type: ignore[arg-type]
    with pytest.raises(TraceError, match="familiarity is nan, not a p-value"):
        Traces.from_rollouts(rollouts, gated)
    with pytest.raises(TraceError, match="all 3 problems are unfamiliar"):
        Traces.from_rollouts(read_familiarity(rollouts, p1=0, p2=0, p3=0), gated)


def test_a_problem_keeps_its_kind_through_a_file(
    tmp_path: Path, make_rollout: MakeRollout, fingerprint: Fingerprint
) -> None:
    kinds = {"a": "algebra", "b": None, "c": "geometry"}
    rollouts = [replace(make_rollout(problem_id=id_), kind=kind) for id_, kind in kinds.items()]
    write_traces(tmp_path / "kinds.parquet", rollouts, fingerprint)
    traces = read_traces(tmp_path / "kinds.parquet")
    assert traces.kinds == ("algebra", None, "geometry")
    assert traces.of_kind("geometry").problem_ids == ("c",)
    assert traces.of_kind("geometry").kinds == ("geometry",)
    with pytest.raises(CalibrationError, match="none of 3 problems"):
        traces.of_kind("logic")


def test_traces_without_kinds_are_the_same_as_before_there_were_kinds(
    tmp_path: Path, make_rollout: MakeRollout, fingerprint: Fingerprint
) -> None:
    plain = [make_rollout(problem_id=id_) for id_ in "abc"]
    write_traces(tmp_path / "plain.parquet", plain, fingerprint)
    write_traces(tmp_path / "kinds.parquet", [replace(one, kind="k") for one in plain], fingerprint)
    assert "kind" not in pq.read_schema(tmp_path / "plain.parquet").names
    before, after = read_traces(tmp_path / "plain.parquet"), read_traces(tmp_path / "kinds.parquet")
    assert before.kinds is None
    assert before.digest == after.digest


def test_any_column_can_hold_the_kinds(
    tmp_path: Path, make_rollout: MakeRollout, fingerprint: Fingerprint
) -> None:
    path = tmp_path / "traces.parquet"
    write_traces(path, [make_rollout(problem_id=id_) for id_ in "ab"], fingerprint)
    table = pq.read_table(path)
    difficulty = pa.array([1 if id_ == "a" else 2 for id_ in table["problem_id"].to_pylist()])
    pq.write_table(table.append_column("difficulty", difficulty), path)
    assert read_traces(path, by="difficulty").kinds == ("1", "2")
    assert read_traces(path, by="group").kinds is None
    with pytest.raises(TraceError, match="no column 'topic'"):
        read_traces(path, by="topic")


def test_a_problem_has_one_kind(
    tmp_path: Path, make_rollout: MakeRollout, fingerprint: Fingerprint
) -> None:
    rollouts = [
        replace(make_rollout(problem_id="a", rollout=number), kind=kind)
        for number, kind in enumerate(("algebra", "geometry"))
    ]
    with pytest.raises(TraceError, match="a problem is of one kind"):
        write_traces(tmp_path / "t.parquet", rollouts, fingerprint)
