"""Whoever changes the records, and processes that are killed while they write them."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from rlcm_serve.evidence import chains
from rlcm_serve.evidence.log import EvidenceLog
from rlcm_serve.evidence.records import sealed
from rlcm_serve.evidence.verify import verify
from rlcm_serve.settings import Settings
from rlcm_serve.store.caller import Scope
from tests.rlcm_serve.api.serving import PROBLEM
from tests.rlcm_serve.evidence.test_evidence import keep, whole
from tests.rlcm_serve.scripted_engine import Script
from tests.service.listening import listening

pytestmark = pytest.mark.attack

WRITER = """
import asyncio, sys
from pathlib import Path
from rlcm_serve.evidence.log import EvidenceLog
from tests.rlcm_serve.evidence.test_evidence import answered

async def write():
    log = EvidenceLog(Path(sys.argv[1]), segment_bytes=20000)
    while True:
        ones = [answered() for _ in range(20)]
        await asyncio.gather(*(log.keep(one) for one in ones))
        print("\\n".join(one.id for one in ones), flush=True)

asyncio.run(write())
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A chain of several closed segments, and a later chain."""
    folder = tmp_path / "evidence"

    async def fill() -> None:
        for _ in range(2):
            with closing(EvidenceLog(folder, segment_bytes=6000)) as log:
                await keep(log, 14)

    asyncio.run(fill())
    assert [report.answers for report in whole(folder)] == [14, 14]
    return folder


def broken(folder: Path) -> list[str]:
    return [report.broken for report in verify(folder) if report.broken]


def resealed(line: bytes) -> bytes:
    """The record with another answer, and with a hash that fits."""
    record = json.loads(line)
    del record["hash"]
    return sealed(record | {"confidence": 0.9})[0]


CHANGES: dict[str, Callable[[list[bytes], int], list[bytes]]] = {
    "changed": lambda lines, at: [
        *lines[:at],
        lines[at].replace(b'"sequence":', b'"sequence":1'),
        *lines[at + 1 :],
    ],
    "spaced": lambda lines, at: [
        *lines[:at],
        lines[at].replace(b'":', b'": ', 1),
        *lines[at + 1 :],
    ],
    "resealed": lambda lines, at: [*lines[:at], resealed(lines[at]), *lines[at + 1 :]],
    "removed": lambda lines, at: [*lines[:at], *lines[at + 1 :]],
    "repeated": lambda lines, at: [*lines[: at + 1], *lines[at:]],
    "cut short": lambda lines, at: [*lines[:at], lines[at][:-7], *lines[at + 1 :]],
}


@pytest.mark.parametrize("change", CHANGES)
def test_no_record_can_be_changed(folder: Path, change: str) -> None:
    """At every position of the first chain, which the second one names."""
    chain = chains.chains_in(folder)[0]
    records = whole(folder)[0].records
    tried = 0
    for segment in chains.segments_of(chain):
        original = segment.read_bytes()
        lines = original.splitlines(keepends=True)
        for at in range(len(lines)):
            segment.write_bytes(b"".join(CHANGES[change](lines, at)))
            assert len(broken(folder)) == 1, (segment.name, at)
            tried += 1
        segment.write_bytes(original)
    assert tried == records > 14, "a start, an engine for each segment, and the answers"
    assert not broken(folder)


def test_swapped_records_and_missing_files_are_found(folder: Path) -> None:
    first = chains.chains_in(folder)[0]
    segments = chains.segments_of(first)
    for segment in segments:
        content = segment.read_bytes()
        segment.unlink()
        assert broken(folder), f"{segment.name} is missing"
        segment.write_bytes(content)
    a, b = segments[0].read_bytes(), segments[1].read_bytes()
    segments[0].write_bytes(b)
    segments[1].write_bytes(a)
    assert broken(folder)
    segments[0].write_bytes(a)
    segments[1].write_bytes(b)
    last = chains.head_path(segments[-1])
    moved = last.read_bytes()
    last.unlink()
    lines = segments[-1].read_bytes().splitlines(keepends=True)
    segments[-1].write_bytes(b"".join(lines[:-1]))
    assert broken(folder), "the end is missing, and the next chain names it"
    segments[-1].write_bytes(b"".join(lines))
    last.write_bytes(moved)
    shutil.rmtree(first)
    assert any("is missing" in why for why in broken(folder)), "a whole chain"


@pytest.mark.parametrize("attempt", range(3))
def test_a_killed_process_loses_no_record_that_it_acknowledged(
    tmp_path: Path, attempt: int
) -> None:
    folder, out = tmp_path / "evidence", tmp_path / "ids"
    with out.open("wb") as file:
        process = subprocess.Popen([sys.executable, "-c", WRITER, folder], stdout=file)
        deadline = time.monotonic() + 60
        while out.stat().st_size < 1000 * (attempt + 1) and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
    acknowledged = out.read_text().rpartition("\n")[0].split()
    assert acknowledged
    segments = chains.segments_of(chains.chains_in(folder)[0])
    text = b"".join(segment.read_bytes() for segment in segments)
    assert [id_ for id_ in acknowledged if id_.encode() not in text] == []
    with segments[-1].open("ab") as file:
        file.write(b'{"torn":')
    (report,) = whole(folder)
    assert report.incomplete >= 8
    with closing(EvidenceLog(folder)):
        pass
    old, new = whole(folder)
    assert (old.head, old.incomplete) == (report.head, report.incomplete)
    assert new.records == 1


def test_a_record_is_for_the_key_that_asked(tmp_path: Path) -> None:
    settings = Settings(state=tmp_path, auth="on", evidence=True)
    with listening(tmp_path, Script(c_end=0.6), settings=settings) as (url, running):

        def client(name: str, scope: Scope) -> httpx.Client:
            key, _ = running.context.keys.create(name, [scope])
            return httpx.Client(base_url=url, headers={"Authorization": f"Bearer {key}"})

        with (
            client("me", Scope.SOLVE) as me,
            client("other", Scope.SOLVE) as other,
            client("operator", Scope.ADMIN) as admin,
        ):
            body = {"problem": PROBLEM, "alpha": 0.1}
            answer = me.post("/solve", json=body).json()
            path = f"/answers/{answer['id']}"
            record = me.get(path).json()
            assert record["id"] == answer["id"]
            assert admin.get(path).json() == record
            theirs, unknown = other.get(path), other.get(f"/answers/{answer['id'][:-1]}0")
            assert (theirs.status_code, unknown.status_code) == (404, 404)
            with me.stream("POST", "/solve", json=body | {"stream": True}) as stream:
                told = [
                    json.loads(line[6:]) for line in stream.iter_lines() if line[:6] == "data: "
                ]
            assert told[0]["id"] == told[-1]["id"] != answer["id"]
            assert me.get(f"/answers/{told[-1]['id']}").status_code == 200
            chat = {"model": "scripted", "messages": [{"role": "user", "content": PROBLEM}]}
            completion = me.post("/v1/chat/completions", json=chat).json()
            assert completion["id"] == completion["rlcm"]["id"]
            assert me.get(f"/answers/{completion['id']}").json()["id"] == completion["id"]
    (report,) = whole(tmp_path / "evidence")
    assert report.answers == 3
