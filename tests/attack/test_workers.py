"""The processes that compare answers and recompute certificates are killed, or fed too much."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rlcm_serve.engine.model_files import EMBEDDED_MODEL
from rlcm_serve.solving.guarantees import CERTIFICATE_FOLDER
from tests.served import Served, serving

pytestmark = pytest.mark.attack

ROWS = 500_000
ANSWERS = (r"\int_0^1 x \, dx", r"\frac12", r"\sqrt{8}")
"""The first two are equal, which only math-verify finds: an integral has no canonical form."""
COMPARES, FITS = "answers/worker.py", "rlcm_serve.jobs.fit_worker"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    limits = ["--max-trace-rows", str(ROWS), "--fit-memory-bytes", str(2 * 2**30)]
    with serving(tmp_path_factory.mktemp("workers"), *limits) as running:
        yield running


@contextmanager
def killing(served: Served, program: str, most: int) -> Iterator[list[int]]:
    """Kills new processes of a program as soon as they are seen, up to so many."""
    before = {one.pid for one in served.family()}
    killed: list[int] = []
    over = threading.Event()

    def kill() -> None:
        while len(killed) < most and not over.wait(0.005):
            for one in served.family():
                with suppress(psutil.NoSuchProcess):
                    if one.pid not in before and program in " ".join(one.cmdline()):
                        one.kill()
                        before.add(one.pid)
                        killed.append(one.pid)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield killed
    finally:
        over.set()
        thread.join()


def aggregate(served: Served) -> httpx.Response:
    rollouts = [{"problem_id": "p", "answer": one, "confidence": 0.9} for one in ANSWERS]
    return served.client.post("/aggregate", json={"rollouts": rollouts})


def upload(served: Served, traces: bytes) -> httpx.Response:
    certificate = (EMBEDDED_MODEL / CERTIFICATE_FOLDER / "selective-1.json").read_bytes()
    return served.client.post(
        "/certificates", files={"certificate": certificate, "traces": traces}, timeout=120
    )


@pytest.mark.parametrize(
    ("program", "ask", "status"),
    [
        (COMPARES, aggregate, 200),
        (FITS, lambda served: upload(served, b"no Parquet"), 422),
    ],
    ids=["compares", "fits"],
)
def test_a_killed_worker_is_replaced_once(
    served: Served, program: str, ask: Callable[[Served], httpx.Response], status: int
) -> None:
    with killing(served, program, most=1) as killed:
        assert ask(served).status_code == status
    assert len(killed) == 1
    with killing(served, program, most=100) as killed:
        response = ask(served)
    assert len(killed) >= 2
    assert response.status_code == 503
    assert response.json()["type"] == "urn:rlcm:problem:worker-failed"
    assert int(response.headers["retry-after"]) > 0
    assert ask(served).status_code == status, "as if nothing had been"


def written(folder: Path, columns: dict[str, Any], times: int = 1) -> bytes:
    """A Parquet file with these columns, repeated."""
    table = pa.table(columns)
    with pq.ParquetWriter(folder / "t.parquet", table.schema, compression="zstd") as writer:
        for _ in range(times):
            writer.write_table(table)
    return (folder / "t.parquet").read_bytes()


def test_a_small_file_of_many_rows_is_refused(served: Served, tmp_path: Path) -> None:
    count = 10**6
    bomb = written(
        tmp_path,
        {
            "problem_id": ["p"] * count,
            "rollout": [0] * count,
            "tokens": [8] * count,
            "is_final": [True] * count,
            "confidence": [0.5] * count,
            "correct": [True] * count,
        },
        times=40,
    )
    assert len(bomb) < 2**20
    response = upload(served, bomb)
    assert response.status_code == 422
    detail = response.json()["detail"]
    assert f"{40 * count} rows unpacked, over the limit of {ROWS}" in detail
    assert "/tmp" not in detail


def test_rows_that_unpack_to_a_huge_grid_are_refused(served: Served, tmp_path: Path) -> None:
    """One rollout has many readings, and many rollouts have one."""
    many = ROWS // 2
    ragged = written(
        tmp_path,
        {
            "problem_id": ["p"] * many + [f"p{number}" for number in range(many)],
            "rollout": [0] * 2 * many,
            "tokens": [*range(many), *[1] * many],
            "is_final": [False] * (many - 1) + [True] * (many + 1),
            "confidence": [0.5] * 2 * many,
            "correct": [True] * 2 * many,
        },
    )
    response = upload(served, ragged)
    assert response.status_code == 422
    assert "2147483648 bytes of memory" in response.json()["detail"]
    assert "fit_memory_bytes" in response.json()["detail"]


def test_the_log_has_no_traceback(served: Served) -> None:
    """The last test: what came before is answered on purpose."""
    lines = [json.loads(line) for line in served.log.read_text().splitlines() if line[:1] == "{"]
    assert lines
    assert not [line for line in lines if line["level"] == "error"]
