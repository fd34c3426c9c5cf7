"""Bad input, end to end: a clear error that names the value and the remedy, and nothing written."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

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

MakeRollout = Callable[..., Rollout]


@pytest.fixture
def recorded(tmp_path: Path, make_rollout: MakeRollout, fingerprint: Fingerprint) -> Path:
    """A sound file: 20 problems, two rollouts of three readings each."""
    path = tmp_path / "recorded.parquet"
    rollouts = (make_rollout(f"p{i:02d}", rollout=r) for i in range(20) for r in range(2))
    write_traces(path, rollouts, fingerprint)
    return path


def rewrite(path: Path, change: Callable[[list[dict[str, Any]]], None]) -> None:
    """Changes the rows of a file, as with another program, and keeps its metadata."""
    table = pq.read_table(path)
    rows = table.to_pylist()
    change(rows)
    pq.write_table(pa.Table.from_pylist(rows, table.schema), path)


def nan_confidence(rows: list[dict[str, Any]]) -> None:
    rows[7]["confidence"] = float("nan")


def standing_tokens(rows: list[dict[str, Any]]) -> None:
    rows[7]["tokens"] = 16


def no_final_reading(rows: list[dict[str, Any]]) -> None:
    del rows[8]


def a_row_twice(rows: list[dict[str, Any]]) -> None:
    rows.append(dict(rows[7]))


def an_early_exit(rows: list[dict[str, Any]]) -> None:
    rows[7]["end_reason"] = "high"


def no_verdict(rows: list[dict[str, Any]]) -> None:
    rows[7]["correct"] = None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (nan_confidence, r"row 7 \(problem 'p01', rollout 0, checkpoint 2\): confidence is nan"),
        (standing_tokens, r"row 7 \(problem 'p01', rollout 0, checkpoint 2\): tokens are 16 after"),
        (no_final_reading, r"row 7 \(problem 'p01', rollout 0, checkpoint 2\): .*final reading"),
        (a_row_twice, r"row 120 \(problem 'p01', rollout 0, checkpoint 2\): .*also in row 7: drop"),
        (an_early_exit, r"row 7 \(problem 'p01', rollout 0, checkpoint 2\): .*only full rollouts"),
        (no_verdict, r"row 7 \(problem 'p01', rollout 0, checkpoint 2\): correct is null: grade"),
    ],
)
@pytest.mark.parametrize("servable", [True, False])
def test_a_fault_in_a_file_names_its_row(
    recorded: Path, change: Callable[..., None], message: str, servable: bool
) -> None:
    rewrite(recorded, change)
    if not servable:
        pq.write_table(pq.read_table(recorded).replace_schema_metadata(None), recorded)
    with pytest.raises(TraceError, match=r"recorded\.parquet: " + message):
        read_traces(recorded)


def test_a_faulty_rollout_leaves_an_older_file_as_it_was(
    recorded: Path, make_rollout: MakeRollout, fingerprint: Fingerprint
) -> None:
    before = recorded.read_bytes()
    for faulty in (
        make_rollout(confidences=(0.5, float("nan"), 0.5)),
        make_rollout(end=30),
        make_rollout(end=81, natural=False),
        make_rollout(rollout=-1),
    ):
        with pytest.raises(TraceError, match=r"^rollouts: row \d \(problem 'p1', rollout"):
            write_traces(recorded, [faulty], fingerprint)
    assert recorded.read_bytes() == before
    assert list(recorded.parent.iterdir()) == [recorded]


def test_recordings_of_two_settings_in_one_directory(
    recorded: Path, make_rollout: MakeRollout, fingerprint: Fingerprint
) -> None:
    other = replace(fingerprint, probe="another", samples=2)
    write_traces(recorded.with_name("z.parquet"), [make_rollout("new")], other)
    with pytest.raises(
        TraceError, match=r"z\.parquet: not recorded under .* recorded\.parquet"
    ) as error:
        read_traces(recorded.parent)
    assert "probe: 'another' here, 'p0' there; samples: 2 here, 1 there" in str(error.value)


@pytest.mark.parametrize("fraction", [0.0, 0.01, 1.0])
def test_a_split_that_leaves_a_part_empty(recorded: Path, fraction: float) -> None:
    with pytest.raises(CalibrationError, match=rf"fraction of {fraction} of 20 .*choose another"):
        read_traces(recorded).split(fraction)


def test_no_rollouts_at_all(tmp_path: Path, fingerprint: Fingerprint) -> None:
    with pytest.raises(TraceError, match="rollouts: no rows: nothing was recorded, so collect"):
        write_traces(tmp_path / "t.parquet", [], fingerprint)
    with pytest.raises(TraceError, match="rollouts: no rows"):
        Traces.from_rollouts([], None)
    assert list(tmp_path.iterdir()) == []
