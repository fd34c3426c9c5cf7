"""Files from strangers: what they declare and what comes out of them is bounded."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from calibration import read_traces
from calibration.errors import TraceError
from calibration.traces.bounds import Bounds

WIDE = Bounds(rows=10**6, unpacked=2**30)


def rows(count: int, **columns: object) -> pa.Table:
    """Rollouts of one reading each, of as many problems; columns replace the usual ones."""
    usual = {
        "problem_id": [f"p{number:06d}" for number in range(count)],
        "rollout": [0] * count,
        "tokens": [8] * count,
        "is_final": [True] * count,
        "confidence": [0.5] * count,
        "correct": [True] * count,
    }
    return pa.table(usual | columns)


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_bounded_reading_reads_the_same(tmp_path: Path, compression: str) -> None:
    file = tmp_path / "t.parquet"
    pq.write_table(rows(5000), file, row_group_size=1700, compression=compression)
    assert read_traces(file, WIDE).digest == read_traces(file).digest


def test_a_file_without_rows_is_named_as_such(tmp_path: Path) -> None:
    pq.write_table(rows(1).slice(0, 0), tmp_path / "t.parquet")
    with pytest.raises(TraceError, match="no rows"):
        read_traces(tmp_path / "t.parquet", WIDE)


def test_too_many_rows_are_refused_before_they_are_read(tmp_path: Path) -> None:
    """Twenty million equal rows take a few hundred kilobytes on disk."""
    file, part = tmp_path / "t.parquet", rows(10**6, problem_id=["p"] * 10**6)
    with pq.ParquetWriter(file, part.schema, compression="zstd") as writer:
        for _ in range(20):
            writer.write_table(part)
    assert file.stat().st_size < 2**20
    before = pa.total_allocated_bytes()
    with pytest.raises(TraceError, match="20000000 rows unpacked, over the limit of 1000000"):
        read_traces(file, WIDE)
    assert pa.total_allocated_bytes() - before < 2**20


def test_a_row_over_the_limit_is_refused_and_one_at_it_is_not(tmp_path: Path) -> None:
    pq.write_table(rows(100), tmp_path / "t.parquet")
    assert read_traces(tmp_path / "t.parquet", Bounds(100, 2**20)).n_rollouts == 100
    with pytest.raises(TraceError, match="100 rows unpacked, over the limit of 99"):
        read_traces(tmp_path / "t.parquet", Bounds(99, 2**20))


def long_texts(path: Path) -> int:
    """Writes a small file with long ids; returns how many bytes its column of ids declares."""
    ids = [f"{number:06d}" + "x" * 50_000 for number in range(1000)]
    pq.write_table(rows(1000, problem_id=ids), path, compression="zstd")
    assert path.stat().st_size < 2**20
    return pq.read_metadata(path).row_group(0).column(0).total_uncompressed_size


def test_long_texts_are_refused_by_what_the_file_declares(tmp_path: Path) -> None:
    declared = long_texts(tmp_path / "t.parquet")
    assert declared > 50_000_000
    with pytest.raises(TraceError, match=r"5\d{7} bytes unpacked, over the limit of 10000000"):
        read_traces(tmp_path / "t.parquet", Bounds(10**6, 10**7))


def test_long_texts_are_refused_where_the_file_declares_few_bytes(tmp_path: Path) -> None:
    file = tmp_path / "t.parquet"
    declared, few = long_texts(file), 2**20
    content = file.read_bytes()
    at = content.rindex(_varint(declared))
    file.write_bytes(content[:at] + _varint(few) + content[at + len(_varint(few)) :])
    assert pq.read_metadata(file).row_group(0).column(0).total_uncompressed_size == few
    with pytest.raises(TraceError, match=r"\d+ bytes unpacked, over the limit of 10000000"):
        read_traces(file, Bounds(10**6, 10**7))


def test_columns_that_are_not_read_do_not_count(tmp_path: Path) -> None:
    table = rows(1000).append_column("notes", [["x" * 50_000 + str(n) for n in range(1000)]])
    pq.write_table(table, tmp_path / "t.parquet", compression="zstd")
    assert read_traces(tmp_path / "t.parquet", Bounds(1000, 10**6)).n_rollouts == 1000


def test_a_fingerprint_nested_too_deep_is_malformed(tmp_path: Path) -> None:
    table = rows(1).replace_schema_metadata({b"rlcm_fingerprint": b"[" * 100_000})
    pq.write_table(table, tmp_path / "t.parquet")
    with pytest.raises(TraceError, match="malformed fingerprint"):
        read_traces(tmp_path / "t.parquet", WIDE)


def _varint(value: int) -> bytes:
    """A positive number as Parquet's footer has it: Thrift's compact protocol, zigzag."""
    value, found = 2 * value, bytearray()
    while value > 127:
        found.append(value % 128 + 128)
        value //= 128
    return bytes([*found, value])
