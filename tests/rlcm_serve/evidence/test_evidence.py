"""The chain of records: what is written, what is found again, what is cut, and what breaks it."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import itertools
import json
import os
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from calibration import ExitPolicy, ExitReason
from calibration.canonical import canonical_json
from rlcm_serve.core import Question, Reading, Rollout, Sample, Solution
from rlcm_serve.errors import EvidenceUnavailable
from rlcm_serve.evidence import chains, lookup
from rlcm_serve.evidence import verify as verifying
from rlcm_serve.evidence.log import SEGMENT_SECONDS, EvidenceLog
from rlcm_serve.evidence.records import NOTHING, Answered, new_id, sealed, time_in
from rlcm_serve.evidence.verify import ChainReport, verify
from rlcm_serve.signing import TrustedKeys, enveloped, load_signing_key, write_key_pair
from rlcm_serve.solving.fingerprints import fingerprint_of
from tests.rlcm_serve.command_line import Rlcm
from tests.rlcm_serve.scripted_engine import IDENTITY

PROMPT, ANSWER = "A dial shows 3. A secret?", "xyzzy"
LATER = (datetime.now(UTC) + timedelta(days=2)).isoformat(timespec="milliseconds")
"""All segments were closed before."""


def answered(key: str | None = "k", answer: str | None = ANSWER) -> Answered:
    readings = (Reading(16, 0.5), Reading(32, float("nan"), is_final=True))
    rollout = Rollout((1,) * 32, "hm", ExitReason.NATURAL, readings)
    solution = Solution(
        answer=answer,
        confidence=0.5,
        exit=ExitReason.NATURAL,
        samples=(Sample(rollout, answer, 3),),
        policy=ExitPolicy(),
        guarantee=None,
        no_guarantee_reason="none",
        text=None if answer is None else f"It is {answer}.",
    )
    return Answered(new_id(), key, Question(PROMPT, 0.1), solution, None, fingerprint_of(IDENTITY))


async def keep(log: EvidenceLog, count: int) -> list[str]:
    """Keeps so many answers, one after the other; returns their ids."""
    ids = []
    for _ in range(count):
        one = answered()
        await log.keep(one)
        ids.append(one.id)
    return ids


def whole(folder: Path, trusted: TrustedKeys | None = None) -> list[ChainReport]:
    reports = verify(folder) if trusted is None else verify(folder, trusted)
    assert [report.broken for report in reports] == [None] * len(reports)
    return reports


def in_folder(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


def records(folder: Path) -> list[dict[str, Any]]:
    found = []
    for chain in chains.chains_in(folder):
        for segment in chains.segments_of(chain):
            found += [json.loads(line) for line in segment.read_text().splitlines()]
    return found


async def test_a_record_has_hashes_and_no_text(tmp_path: Path) -> None:
    folder = tmp_path / "evidence"
    with closing(EvidenceLog(folder)) as log:
        (id_,) = await keep(log, 1)
        text = "".join(path.read_text() for path in log.chain.glob("*.jsonl"))
    assert PROMPT not in text
    assert ANSWER not in text
    start, engine, record = records(folder)
    assert (start["kind"], engine["kind"], record["kind"]) == ("start", "engine", "answer")
    assert record["engine"] == engine["engine"]
    assert (record["id"], record["key"], record["sequence"]) == (id_, "k", 3)
    assert record["samples"][0]["readings"] == [[16, 0.5], [32, None]]
    assert record["previous"] == engine["hash"]
    assert all(path.stat().st_mode & 0o077 == 0 for path in log.chain.glob("*.jsonl"))
    assert log.chain.stat().st_mode & 0o077 == folder.stat().st_mode & 0o077 == 0


async def test_texts_are_recorded_if_asked_for(tmp_path: Path) -> None:
    with closing(EvidenceLog(tmp_path, texts=True)) as log:
        await keep(log, 1)
    assert records(tmp_path)[-1]["answer"] == ANSWER
    assert records(tmp_path)[-1]["messages"] == [{"role": "user", "content": PROMPT}]


async def test_many_answers_at_once_make_one_chain(tmp_path: Path) -> None:
    batches: list[int] = []
    with closing(EvidenceLog(tmp_path, on_batch=lambda n, s, ok: batches.append(n))) as log:
        await asyncio.gather(*(log.keep(answered()) for _ in range(200)))
    (report,) = whole(tmp_path)
    assert (report.answers, report.records) == (200, 202)
    assert report.covered == 202, "closed at the end"
    assert len(batches) < 100


async def test_an_answer_is_found_by_its_id(tmp_path: Path) -> None:
    with closing(EvidenceLog(tmp_path, segment_bytes=3000)) as log:
        ids = await keep(log, 20)
        assert len(chains.segments_of(log.chain)) > 5
        for id_ in ids:
            found = lookup.find(tmp_path, id_, 1)
            assert found is not None
            assert found["id"] == id_
        for unknown in (new_id(), "", "chatcmpl-x", ids[0][:-1], "../" + ids[0], '"'):
            assert lookup.find(tmp_path, unknown, 1) is None
    assert time_in(ids[0]) == pytest.approx(datetime.now(UTC).timestamp(), abs=60)


@pytest.mark.parametrize("payload", [None, {"time": "-"}])
async def test_an_answer_is_found_though_the_head_of_its_segment_cannot_be_read(
    tmp_path: Path, payload: dict[str, Any] | None
) -> None:
    with closing(EvidenceLog(tmp_path)) as log:
        (id_,) = await keep(log, 1)
    head = chains.head_path(chains.segments_of(log.chain)[0])
    if payload is None:
        head.write_bytes(b"")
    else:
        fields = {"chain": log.chain.name, "sequence": 1, "hash": NOTHING} | payload
        envelope = enveloped(canonical_json(fields), chains.HEAD_TYPE, None)
        head.write_text(envelope.to_text())
    found = lookup.find(tmp_path, id_, 1)
    assert found is not None
    assert found["id"] == id_


def named_by(log: EvidenceLog) -> list[dict[str, Any]]:
    """What the start of a chain names, as it was written."""
    start = next(one for one in records(log.folder) if one.get("chain") == log.chain.name)
    after: list[dict[str, Any]] = start["after"]
    return after


async def test_the_next_process_names_the_head_of_the_last(tmp_path: Path) -> None:
    with closing(EvidenceLog(tmp_path)) as first:
        await keep(first, 2)
    with closing(EvidenceLog(tmp_path)) as second:
        await keep(second, 1)
    old, _ = whole(tmp_path)
    (after,) = named_by(second)
    assert (after["chain"], after["sequence"], after["hash"]) == (first.chain.name, *old.head)
    assert named_by(first) == []


async def test_a_start_names_each_chain_that_ended_and_that_none_names(tmp_path: Path) -> None:
    """Two processes that ran at once, and one that still runs."""
    with closing(EvidenceLog(tmp_path)) as running:
        with closing(EvidenceLog(tmp_path)) as one, closing(EvidenceLog(tmp_path)) as other:
            await asyncio.gather(keep(one, 2), keep(other, 1))
        with closing(EvidenceLog(tmp_path)) as next_:
            pass
        with closing(EvidenceLog(tmp_path)) as last:
            pass
    ended = [
        report for report in whole(tmp_path) if report.chain in {one.chain.name, other.chain.name}
    ]
    assert [(head["chain"], head["sequence"], head["hash"]) for head in named_by(next_)] == [
        (report.chain, *report.head) for report in ended
    ]
    assert [head["chain"] for head in named_by(last)] == [next_.chain.name], "nothing twice"
    for log in (one, other):
        away = log.chain.rename(tmp_path / "away")
        (report,) = [report for report in verify(tmp_path) if report.broken]
        assert report.chain == log.chain.name
        assert report.broken == f"the chain is missing: chain {next_.chain.name} names it"
        away.rename(log.chain)
    assert running.chain.name not in {head["chain"] for head in named_by(last)}


async def test_a_chain_without_records_is_not_named_again(tmp_path: Path) -> None:
    """Otherwise starts would grow for ever: retention also deletes who named it."""
    with closing(EvidenceLog(tmp_path)) as first:
        await keep(first, 1)
    assert chains.cut(first.chain, LATER, None, keep_last=False) == 1
    with closing(EvidenceLog(tmp_path)) as second:
        pass
    assert named_by(second) == []
    whole(tmp_path)


async def test_a_start_of_an_older_release_names_one_chain(tmp_path: Path) -> None:
    with closing(EvidenceLog(tmp_path)) as first:
        await keep(first, 1)
    (old,) = whole(tmp_path)
    middle = chain_that_names(old, old.head[1], tmp_path, "00000001")
    with closing(EvidenceLog(tmp_path)) as last:
        pass
    assert len(whole(tmp_path)) == 3
    assert [head["chain"] for head in named_by(last)] == [middle]
    first.chain.rename(tmp_path / "away")
    assert [report.broken for report in verify(tmp_path) if report.broken] == [
        f"the chain is missing: chain {middle} names it"
    ]


def chain_that_names(old: ChainReport, digest: str, folder: Path, number: str) -> str:
    """A chain as older releases began it: it names the last record of an old chain by this hash."""
    chain = folder / f"{old.chain[:-8]}{number}"
    chain.mkdir()
    after = {"chain": old.chain, "sequence": old.head[0], "hash": digest, "time": "-"}
    start = {"kind": "start", "chain": chain.name, "after": after}
    line, _ = sealed({**start, "sequence": 1, "previous": NOTHING})
    chains.segment_path(chain, 1).write_bytes(line)
    return chain.name


@pytest.mark.parametrize("wrong", [{"00000001"}, {"00000002"}, {"00000001", "00000002"}])
async def test_each_chain_that_names_a_record_is_heard(tmp_path: Path, wrong: set[str]) -> None:
    with closing(EvidenceLog(tmp_path)) as log:
        await keep(log, 1)
    (old,) = whole(tmp_path)
    names = {
        number: chain_that_names(old, NOTHING if number in wrong else old.head[1], tmp_path, number)
        for number in ("00000001", "00000002", "00000003")
    }
    (broken,) = [report.broken for report in verify(tmp_path) if report.broken]
    by = [names[number] for number in sorted(wrong)]
    said = f"chain {by[0]} names" if len(by) == 1 else f"chains {by[0]}, {by[1]} name"
    assert broken == f"record {old.head[0]}: {said} another hash for it"
    log.chain.rename(tmp_path / "away")
    (missing,) = [report.broken for report in verify(tmp_path) if report.broken]
    assert missing == f"the chain is missing: chains {', '.join(names.values())} name it"


async def test_two_processes_write_apart(tmp_path: Path) -> None:
    with closing(EvidenceLog(tmp_path)) as one, closing(EvidenceLog(tmp_path)) as other:
        await asyncio.gather(keep(one, 5), keep(other, 5))
        assert [report.answers for report in whole(tmp_path)] == [5, 5]


async def test_others_see_a_new_chain_once_it_is_marked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise another start may take it for one that is over, and this start fails."""
    seen: list[list[Path]] = []

    def marking(chain: Path) -> int:
        seen.append(chains.chains_in(tmp_path))
        return lock(chain)

    lock = chains.lock
    monkeypatch.setattr(chains, "lock", marking)
    with closing(EvidenceLog(tmp_path)) as log:
        assert seen == [[]]
        with chains.unwritten(log.chain) as is_over:
            assert not is_over
    assert in_folder(tmp_path) == [log.chain]


async def test_old_segments_are_cut_and_a_signed_head_stays(tmp_path: Path) -> None:
    public, _ = write_key_pair(tmp_path / "signing.pem")
    key, folder = load_signing_key(tmp_path / "signing.pem"), tmp_path / "evidence"
    trusted = TrustedKeys.load([public])
    with closing(EvidenceLog(folder, key=key, segment_bytes=3000)) as log:
        ids = await keep(log, 12)
    (before,) = whole(folder, trusted)
    segments = chains.segments_of(log.chain)
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    assert chains.cut(log.chain, now, key, keep_last=True) == len(segments) - 1
    (report,) = whole(folder, trusted)
    assert (report.head, report.cut) == (before.head, int(segments[-1].stem) - 1)
    assert lookup.find(folder, ids[0], 1) is None
    kinds = [json.loads(line)["kind"] for line in segments[-1].read_text().splitlines()]
    assert kinds[0] == "engine", "the answers that are left can still be replayed"
    assert chains.cut(log.chain, LATER, key, keep_last=False) == 1
    with closing(EvidenceLog(folder, key=key, days=1)) as after:
        await keep(after, 1)
    assert whole(folder, trusted)[0].head == before.head
    head = log.chain / chains.CUT
    envelope = json.loads(head.read_text())
    head.write_text(json.dumps(envelope | {"signatures": []}))
    assert "not signed" in str(verify(folder, trusted)[0].broken)


@pytest.mark.parametrize("during", ["read_head", "segments_of", "parse"])
async def test_records_that_are_deleted_while_they_are_verified_are_not_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, during: str
) -> None:
    with closing(EvidenceLog(tmp_path, segment_bytes=1)) as log:
        await keep(log, 6)
    (before,) = whole(tmp_path)
    works, calls = getattr(verifying, during), itertools.count(1)

    def cutting(*values: Any) -> Any:
        """Deletes all but the last segment, at the first call, and then the last one."""
        if (call := next(calls)) in (1, 4):
            chains.cut(log.chain, LATER, None, keep_last=call == 1)
        return works(*values)

    monkeypatch.setattr(verifying, during, cutting)
    (report,) = whole(tmp_path)
    assert report.head == before.head
    assert report.cut > 0


async def test_heads_that_are_just_being_deleted_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`cut.json` is there already, so it does not change while the chain is verified."""
    with closing(EvidenceLog(tmp_path, segment_bytes=1)) as log:
        await keep(log, 3)
    content = {path: path.read_bytes() for path in log.chain.iterdir()}
    chains.cut(log.chain, LATER, None, keep_last=True)
    gone = [path for path in content if not path.exists()]
    for path in gone:
        path.write_bytes(content[path])

    def deleting(*values: Any) -> Any:
        for path in gone:
            path.unlink(missing_ok=True)
        return chains.read_head(*values)

    monkeypatch.setattr(verifying, "read_head", deleting)
    (report,) = whole(tmp_path)
    assert report.cut > 0


async def test_a_segment_that_another_deletes_while_it_is_verified_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(EvidenceLog(tmp_path, segment_bytes=1)) as log:
        await keep(log, 3)
    second = chains.segments_of(log.chain)[1]

    def deleting(line: bytes) -> Any:
        second.unlink(missing_ok=True)
        return chains.parse(line)

    monkeypatch.setattr(verifying, "parse", deleting)
    (report,) = verify(tmp_path)
    assert report.broken == f"{second} is gone, and the service did not delete it"


@pytest.mark.parametrize(
    "torn", [b"", bytes(400), b'{"payload": "e30="'], ids=["empty", "zeros", "cut short"]
)
async def test_a_start_skips_a_chain_whose_head_is_torn(
    tmp_path: Path, torn: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """As a crash of the machine may leave it. The remedy that the message names is one."""
    with closing(EvidenceLog(tmp_path, segment_bytes=1)) as first:
        await keep(first, 2)
    heads = [chains.head_path(segment) for segment in chains.segments_of(first.chain)]
    before, (good,) = heads[-1].read_bytes(), whole(tmp_path)
    heads[-1].write_bytes(torn)
    with closing(EvidenceLog(tmp_path, days=1)) as second:
        await keep(second, 1)
    assert named_by(second) == []
    assert str(heads[-1]) in caplog.text
    (broken,) = [report.broken for report in verify(tmp_path) if report.broken]
    assert broken.startswith(f"{heads[-1]} is not the head of a chain")
    assert "delete it, and the service closes the segment again" in broken
    assert "rlcm keys sign" not in broken
    heads[-1].unlink()
    heads[0].unlink()
    with closing(EvidenceLog(tmp_path)) as third:
        pass
    assert [head["chain"] for head in named_by(third)] == [first.chain.name, second.chain.name]
    assert whole(tmp_path)[0].head == good.head
    assert heads[0].exists()
    assert json.loads(heads[-1].read_bytes()).keys() == json.loads(before).keys()


@pytest.mark.parametrize("changed", [{"sequence": "7"}, {"hash": []}, {"chain": {}}, {"time": 0}])
async def test_a_head_with_a_field_of_another_type_is_none(
    tmp_path: Path, changed: dict[str, Any]
) -> None:
    with closing(EvidenceLog(tmp_path)) as log:
        await keep(log, 1)
    (old,) = whole(tmp_path)
    fields = {"chain": old.chain, "sequence": old.head[0], "hash": old.head[1], "time": "-"}
    envelope = enveloped(canonical_json(fields | changed), chains.HEAD_TYPE, None)
    head = chains.head_path(chains.segments_of(log.chain)[0])
    head.write_text(envelope.to_text())
    (report,) = verify(tmp_path)
    ((name, value),) = changed.items()
    assert f"{head} is not the head of a chain (its {name} is {value!r})" in str(report.broken)
    chain = tmp_path / "20990101T000000000000Z-00000000"
    chain.mkdir()
    start = {"kind": "start", "chain": chain.name, "after": [fields | changed]}
    line, _ = sealed({**start, "sequence": 1, "previous": NOTHING})
    chains.segment_path(chain, 1).write_bytes(line)
    assert chains.named_by(chain) == []


async def test_what_a_skipped_chain_names_is_named_again(tmp_path: Path) -> None:
    """Otherwise both could be deleted without trace."""
    logs = []
    for torn in (False, True, False):
        with closing(EvidenceLog(tmp_path)) as log:
            logs.append(log)
        if torn:
            chains.head_path(chains.segments_of(log.chain)[-1]).write_bytes(b"")
    first, torn_one, last = logs
    assert [head["chain"] for head in named_by(torn_one)] == [first.chain.name]
    assert [head["chain"] for head in named_by(last)] == [first.chain.name]


@pytest.mark.parametrize("whose", ["another", "own"])
async def test_a_torn_head_fails_no_question(tmp_path: Path, whose: str) -> None:
    with closing(EvidenceLog(tmp_path, segment_bytes=1)) as ended:
        await keep(ended, 2)
    with closing(EvidenceLog(tmp_path, segment_bytes=1, days=1)) as log:
        await keep(log, 2)
        torn = ended if whose == "another" else log
        chains.head_path(chains.segments_of(torn.chain)[0]).write_bytes(b"")
        await keep(log, 3)
    assert [report.chain for report in verify(tmp_path) if report.broken] == [torn.chain.name]
    assert sum(record["kind"] == "answer" for record in records(tmp_path)) == 7


async def test_heads_are_on_disk_before_they_get_their_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(EvidenceLog(tmp_path)) as log:
        await keep(log, 1)
    (segment,) = chains.segments_of(log.chain)
    flushed: list[tuple[str, bool, bool]] = []

    def fsync(file: int) -> None:
        path = Path(f"/proc/self/fd/{file}").readlink()
        is_named = chains.head_path(segment).exists(), (log.chain / chains.CUT).exists()
        flushed.append((path.name, *is_named))

    monkeypatch.setattr(os, "fsync", fsync)
    chains.head_path(segment).unlink()
    chains.end_of(log.chain, None)
    chains.cut(log.chain, LATER, None, keep_last=False)
    assert flushed == [
        ("000000000001.head.json.partial", False, False),
        (log.chain.name, True, False),
        ("cut.json.partial", True, False),
        (log.chain.name, True, True),
    ]


async def test_a_full_disk_refuses_answers_and_breaks_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(EvidenceLog(tmp_path)) as log:
        await keep(log, 2)
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", _torn(log, os.write))
            with pytest.raises(EvidenceUnavailable):
                await log.keep(answered())
        with pytest.raises(EvidenceUnavailable):
            log.require_writable()
        await keep(log, 1)  # there is space again
    (report,) = whole(tmp_path)
    assert (report.answers, report.incomplete) == (3, 0)


@pytest.mark.parametrize("then", ["a day passes", "the service stops"])
async def test_a_segment_that_got_no_record_gets_no_head(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, then: str
) -> None:
    """Such a head would be for the record before. Records behind it read as a broken chain."""
    with closing(EvidenceLog(tmp_path, segment_bytes=1)) as log:
        await keep(log, 1)
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", _full(log, os.write))
            with pytest.raises(EvidenceUnavailable):  # the segment is opened, and stays empty
                await log.keep(answered())
        empty = chains.segments_of(log.chain)[-1]
        assert not empty.stat().st_size
        if then == "a day passes":
            log._opened_at -= SEGMENT_SECONDS + 1
            await keep(log, 1)
            assert chains.segments_of(log.chain)[-1] == empty, "it is the open one still"
        assert not chains.head_path(empty).exists()
        whole(tmp_path)
    (report,) = whole(tmp_path)
    assert report.answers == 1 + (then == "a day passes")
    assert chains.head_path(empty).exists() == (then == "a day passes")
    EvidenceLog(tmp_path).close()
    assert len(whole(tmp_path)) == 2


@pytest.mark.parametrize("failing", ["open", "fsync"])
async def test_answers_are_kept_again_after_a_segment_could_not_be_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    with closing(EvidenceLog(tmp_path, segment_bytes=1)) as log:
        await keep(log, 2)
        before, opened = chains.segments_of(log.chain), _descriptors()
        with monkeypatch.context() as patch:
            patch.setattr(os, failing, _refusing(log, failing))
            for _ in range(3):
                with pytest.raises(EvidenceUnavailable):
                    await log.keep(answered())
        assert _descriptors() == opened, "nothing is left open, and nothing was closed"
        whole(tmp_path)
        await keep(log, 2)
        assert len(chains.segments_of(log.chain)) == len(before) + 2
    (report,) = whole(tmp_path)
    assert (report.answers, report.incomplete) == (4, 0)


def _descriptors() -> dict[str, Path]:
    """The open files of this process."""
    folder = Path("/proc/self/fd")
    return {one.name: one.readlink() for one in folder.iterdir() if one.exists()}


def _refusing(log: EvidenceLog, name: str) -> Any:
    """The function of `os`, which refuses new segments, or their names in the folder."""
    works = getattr(os, name)

    def refuse(file: Any, *others: Any, **named: Any) -> Any:
        of_segment = name == "open" and str(file).endswith(chains.SUFFIX)
        of_folder = name == "fsync" and Path(f"/proc/self/fd/{file}").readlink() == log.chain
        is_new = chains.segments_of(log.chain)[-1] != log._segment
        if of_segment or (of_folder and is_new):
            raise OSError(errno.EMFILE, "too many open files")
        return works(file, *others, **named)

    return refuse


def _full(log: EvidenceLog, write: Any) -> Any:
    """Writes no record, as a full disk."""

    def full(file: int, content: Any) -> int:
        if file == log._file:
            raise OSError(errno.ENOSPC, "no space left")
        return int(write(file, content))

    return full


def _torn(log: EvidenceLog, write: Any) -> Any:
    """Writes a part of a record, and then no more."""
    wrote: list[int] = []

    def torn(file: int, content: Any) -> int:
        if file != log._file:
            return int(write(file, content))
        if wrote:
            raise OSError(errno.ENOSPC, "no space left")
        wrote.append(1)
        return int(write(file, content[:100]))

    return torn


def test_a_folder_that_cannot_be_written_ends_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(EvidenceUnavailable, match="evidence_folder"):
        EvidenceLog(tmp_path / "file" / "evidence")


def test_a_line_is_the_canonical_form_of_the_record_with_its_hash() -> None:
    for record in ({"a": 1, "zebra": [None]}, {"a": 1}, {"z": 1}, {}):
        line, digest = sealed(record)
        assert line == canonical_json({**record, "hash": digest}) + b"\n"
        assert digest == hashlib.sha256(canonical_json(record)).hexdigest()


def test_what_is_hashed_does_not_depend_on_the_order_of_names() -> None:
    assert canonical_json({"b": 1, "a": "ü"}) == b'{"a":"\\u00fc","b":1}'
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical_json({"a": float("nan")})


def test_the_command_says_which_record_is_broken(rlcm: Rlcm, tmp_path: Path) -> None:
    async def fill() -> None:
        with closing(EvidenceLog(tmp_path)) as log:
            await keep(log, 3)

    asyncio.run(fill())
    status, out, _ = rlcm(f"evidence verify {tmp_path}")
    assert status == 0
    assert "whole, 3 answers in 5 records" in out
    (segment,) = tmp_path.glob("*/*.jsonl")
    segment.write_text(segment.read_text().replace('"confidence":0.5', '"confidence":0.6', 1))
    status, out, _ = rlcm(f"evidence verify {tmp_path}")
    assert status == 1
    assert "BROKEN: 000000000001.jsonl, line 3: its hash is" in out


@pytest.mark.parametrize("chain", [None, "sub"])
def test_a_folder_without_records_is_not_whole(
    tmp_path: Path, rlcm: Rlcm, chain: str | None
) -> None:
    """A mistyped path must not pass for records that nobody changed."""
    if chain is not None:
        (tmp_path / chain).mkdir()
    status, _, err = rlcm(f"evidence verify {tmp_path}")
    assert status == 1
    assert "holds no record: give the service's evidence_folder" in err


async def test_folders_that_are_no_chains_are_left_alone(tmp_path: Path) -> None:
    """A mounted volume has a folder `lost+found`, which only its owner may read."""
    (tmp_path / "lost+found").mkdir(mode=0o700)
    (tmp_path / ".snapshot").mkdir()
    with closing(EvidenceLog(tmp_path)) as log:
        await keep(log, 1)
        chain = log.chain
    assert [report.chain for report in whole(tmp_path)] == [chain.name]
    assert not any((tmp_path / "lost+found").iterdir())
    (chain / "notes.jsonl").write_text("{}\n")
    (report,) = verify(tmp_path)
    assert report.broken == "notes.jsonl is no segment"
