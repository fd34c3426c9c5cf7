"""Reading and writing; the tables a reader must refuse are in test_trace_checks.py."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
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

MakeRollout = Callable[..., Rollout]


@pytest.fixture
def rollouts(make_rollout: MakeRollout) -> list[Rollout]:
    return [
        make_rollout("p2", (0.2, 0.6, 0.9), (False, True, True), end=40),
        make_rollout("p1", (0.1,), (False,), end=7, rollout=1),
        make_rollout("p1", (0.3, 0.4), (True, False), end=16, rollout=0),
        make_rollout("p3", (0.5,) * 5, (True,) * 5, end=80, natural=False, group="g"),
    ]


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


def test_what_cannot_be_replayed_is_not_written(
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
        make_rollout("p2", natural=False),
    ):
        digests.add(Traces.from_rollouts([changed, *rollouts[1:]], fingerprint).digest)
    digests.add(Traces.from_rollouts(rollouts, replace(fingerprint, probe="p9")).digest)
    assert len(digests) == 9


def test_files_of_two_fingerprints_are_refused(
    tmp_path: Path, rollouts: list[Rollout], fingerprint: Fingerprint
) -> None:
    write_traces(tmp_path / "1.parquet", rollouts[:1], fingerprint)
    write_traces(tmp_path / "2.parquet", rollouts[1:], replace(fingerprint, temperature=1.0))
    with pytest.raises(
        TraceError, match=r"2\.parquet: not recorded under .* of 1\.parquet"
    ) as error:
        read_traces(tmp_path)
    assert "temperature: 0.8 here, 1.0 there" in str(error.value)


def test_a_rollout_in_two_files_is_refused(
    tmp_path: Path, rollouts: list[Rollout], fingerprint: Fingerprint
) -> None:
    write_traces(tmp_path / "1.parquet", rollouts[:2], fingerprint)
    write_traces(tmp_path / "2.parquet", rollouts[:1], fingerprint)
    with pytest.raises(TraceError, match=r"problem 'p2'.*the same reading is also in row 0"):
        read_traces(tmp_path)


def test_files_without_a_fingerprint_or_rows_are_refused(
    tmp_path: Path, rollouts: list[Rollout], fingerprint: Fingerprint
) -> None:
    path = tmp_path / "t.parquet"
    write_traces(path, rollouts, fingerprint)
    table = pq.read_table(path)
    pq.write_table(table.replace_schema_metadata(None), path)
    with pytest.raises(TraceError, match="no fingerprint in the metadata"):
        read_traces(path)
    pq.write_table(table.replace_schema_metadata({"rlcm_fingerprint": "{"}), path)
    with pytest.raises(TraceError, match="malformed fingerprint"):
        read_traces(path)
    pq.write_table(table.slice(0, 0), path)
    with pytest.raises(TraceError, match="no rows: nothing was recorded"):
        read_traces(path)
    path.write_text("no parquet")
    with pytest.raises(TraceError, match="is not Parquet"):
        read_traces(path)


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
