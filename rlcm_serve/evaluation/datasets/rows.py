"""Reads the rows of a benchmark from a file, the hub, a URL or a function."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
import os
from collections.abc import Mapping
from pathlib import Path

import httpx
import pyarrow as pa
import pyarrow.parquet as pq

from rlcm_serve.errors import RequestRefused
from rlcm_serve.evaluation.datasets.benchmarks import Benchmark, Hub, Row, Web
from rlcm_serve.recording.json_lines import parse_lines

SUFFIXES = {".jsonl", ".json", ".csv", ".parquet", ".gz"}
"""Of files that are read."""
_FORMATS = ".jsonl, .json, .csv (each also as .gz) or .parquet"
_LONGEST_FIELD = 2**30  # characters of one CSV field; csv's own limit is 128 Ki


def source_rows(benchmark: Benchmark) -> list[Row]:
    """The rows of a benchmark, from its source.

    Raises:
        RequestRefused: they cannot be loaded; the message says what to do.
    """
    source = benchmark.source
    if isinstance(source, Hub):
        where = f"{source.repository} on the hub"
        if source.files:
            return [row for name in source.files for row in _hub_file(source, name, where)]
        return _load_split(source.repository, source, where, source.revision)
    if isinstance(source, Web):
        return file_rows(_downloaded(benchmark, source.url))
    return list(source.rows())


def local_rows(benchmark: Benchmark, path: Path) -> list[Row]:
    """A benchmark's rows from a local file, or from a folder that is a copy of its repository.

    Raises:
        RequestRefused: there are no rows to read.
    """
    source = benchmark.source
    if not path.is_dir():
        return file_rows(path)
    if not isinstance(source, Hub):
        raise RequestRefused("data", f"{path} is a folder: give the file itself")
    if source.files:
        return [row for name in source.files for row in file_rows(path / name)]
    return _load_split(str(path), source, f"the folder {path}", revision=None)


def file_rows(path: Path) -> list[Row]:
    """The rows of a file; its suffix decides the format.

    Raises:
        RequestRefused: the file is missing, malformed, empty or of another format.
    """
    if not path.is_file():
        raise RequestRefused("data", f"there is no file {path}: give an existing one")
    suffixes = [suffix.lower() for suffix in path.suffixes]
    kind = suffixes[-2] if suffixes[-1:] == [".gz"] and len(suffixes) > 1 else path.suffix.lower()
    try:
        rows = _parse(path, kind)
    except (ValueError, OSError, EOFError, RecursionError, csv.Error, pa.ArrowException) as error:
        raise RequestRefused(
            "data", f"{path} cannot be read as {kind or 'text'}: {error}"
        ) from error
    if not rows:
        raise RequestRefused("data", f"{path} is empty: it holds no row")
    if not all(isinstance(row, Mapping) for row in rows):
        raise RequestRefused("data", f"{path}: every row must be an object with named columns")
    return rows


def _parse(path: Path, kind: str) -> list[Row]:
    if kind == ".parquet":
        table: list[Row] = pq.read_table(path).to_pylist()
        return table
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    if kind == ".jsonl":
        rows: list[Row] = [row for _, row in parse_lines(content.split(b"\n"), lambda row: row)]
        return rows
    if kind == ".json":
        rows = json.loads(content)
        if not isinstance(rows, list):
            raise ValueError("it holds no list of rows")
        return rows
    if kind == ".csv":
        csv.field_size_limit(_LONGEST_FIELD)
        return list(csv.DictReader(io.StringIO(content.decode("utf-8-sig"), newline="")))
    raise ValueError(f"its name must end in {_FORMATS}")


def _load_split(path: str, source: Hub, what: str, revision: str | None) -> list[Row]:
    try:
        import datasets
    except ImportError as error:
        raise RequestRefused(
            "data",
            "benchmarks on the hub need the package 'datasets': run `pip install '.[eval]'` in the "
            "checkout, or give a local file as NAME=FILE",
        ) from error
    try:
        loaded = datasets.load_dataset(path, source.config, split=source.split, revision=revision)
    except Exception as error:  # of the library, the hub, the network
        raise _refusal(source, what, error) from error
    return list(loaded)


def _hub_file(source: Hub, name: str, where: str) -> list[Row]:
    from huggingface_hub import hf_hub_download

    try:
        local = hf_hub_download(
            source.repository, name, repo_type="dataset", revision=source.revision
        )
    except Exception as error:  # of the library or the network
        raise _refusal(source, f"{name} of {where}", error) from error
    return file_rows(Path(local))


def _refusal(source: Hub, what: str, error: Exception) -> RequestRefused:
    """Says why the data cannot be loaded, and what to do."""
    if source.is_gated:
        remedy = (
            f"it is gated: accept its terms on the page of {source.repository}, log in with "
            "`hf auth login` and try again"
        )
    else:
        remedy = "check the network and try again"
    reason = " ".join(str(error).split())[:200]
    return RequestRefused(
        "data",
        f"{what} cannot be loaded ({type(error).__name__}: {reason}); {remedy}, or give a local "
        "copy as NAME=FILE",
    )


def _downloaded(benchmark: Benchmark, url: str) -> Path:
    """The path of the cached file, downloaded if necessary."""
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    digest = hashlib.sha256(url.encode()).hexdigest()[:16]
    path = root / "rlcm-serve" / f"{benchmark.name}-{digest}{Path(url).suffix}"
    if path.exists():
        return path
    try:
        response = httpx.get(url, follow_redirects=True, timeout=60.0)
        response.raise_for_status()
    except httpx.HTTPError as error:
        raise RequestRefused(
            "data",
            f"{url} cannot be downloaded ({error}): check the network and try again, or "
            f"give a local copy as {benchmark.name}=FILE",
        ) from error
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(f".{os.getpid()}")
    partial.write_bytes(response.content)
    partial.replace(path)
    return path
