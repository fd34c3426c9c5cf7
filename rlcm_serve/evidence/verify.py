"""Verifies the chains in a folder, without a service. Reads one record at a time.

What it finds: a record that was changed, removed, inserted or moved; a segment that is missing, or
a whole chain that a later one names; heads that do not fit. What it cannot find: that the end of a
chain that no later one names is missing, or that whoever can write the folder wrote all of it
again. Signed heads and hashes kept elsewhere help against both.

Services may write to the folder, and delete old records in it, in the meantime.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlcm_serve.errors import SignatureRefused
from rlcm_serve.evidence.chains import (
    CUT,
    CUT_TYPE,
    HEAD_SUFFIX,
    HEAD_TYPE,
    LONGEST_LINE,
    Head,
    chains_in,
    head_path,
    named_by,
    parse,
    read_head,
    segment_path,
    segments_of,
)
from rlcm_serve.evidence.records import NOTHING
from rlcm_serve.signing import NO_KEYS, TrustedKeys


@dataclass
class ChainReport:
    """What was found of one chain.

    Attributes:
        chain: its name.
        records: that are there and whole.
        answers: that are among them.
        cut: number of the last record that was deleted; 0 if none was.
        head: number and hash of the last record.
        covered: number of the last record under a head (signed, if a key was given).
        incomplete: bytes of a last line that was never finished, because the process was killed.
        broken: where and why it is broken; None if it is whole.
    """

    chain: str
    records: int = 0
    answers: int = 0
    cut: int = 0
    head: tuple[int, str] = (0, NOTHING)
    covered: int = 0
    incomplete: int = 0
    broken: str | None = None


class _Broken(Exception):
    pass


@dataclass(frozen=True)
class _Anchors:
    """Hashes of records that other chains name, each with who names it: by chain and number."""

    wanted: dict[str, dict[int, list[tuple[str, str]]]] = field(default_factory=dict)

    def add(self, head: Head, by: str) -> None:
        numbers = self.wanted.setdefault(head.chain, {})
        numbers.setdefault(head.sequence, []).append((head.hash, by))

    def check(self, report: ChainReport, sequence: int, digest: str) -> None:
        named = self.wanted.get(report.chain, {}).get(sequence, ())
        if others := [by for hash_, by in named if hash_ != digest]:
            raise _Broken(f"record {sequence}: {_who_names(others)} another hash for it")

    def check_rest(self, report: ChainReport) -> None:
        for sequence, named in self.wanted.get(report.chain, {}).items():
            if sequence > report.head[0]:
                by = [name for _, name in named]
                raise _Broken(f"record {sequence} is missing: {_who_names(by)} it")

    def missing(self, found: Collection[str]) -> list[ChainReport]:
        """A report for each chain that is named and is not among those found."""
        reports = []
        for chain, numbers in self.wanted.items():
            if chain not in found:
                by = [name for named in numbers.values() for _, name in named]
                why = f"the chain is missing: {_who_names(by)} it"
                reports.append(ChainReport(chain, broken=why))
        return reports


def _who_names(chains: Sequence[str]) -> str:
    return f"chain {chains[0]} names" if len(chains) == 1 else f"chains {', '.join(chains)} name"


def verify(folder: Path, trusted: TrustedKeys = NO_KEYS) -> list[ChainReport]:
    """A report for each chain, the oldest first; each names the first fault of its chain.

    Args:
        folder: of the chains.
        trusted: keys that must have signed every head; none accepts unsigned heads.

    Raises:
        OSError: the folder cannot be read.
    """
    chains = chains_in(folder)
    anchors = _anchors(chains)
    reports = [_report_of(chain, anchors, trusted) for chain in chains]
    return reports + anchors.missing({report.chain for report in reports})


def _anchors(chains: Iterable[Path]) -> _Anchors:
    anchors = _Anchors()
    for chain in chains:
        for head in named_by(chain):
            anchors.add(head, chain.name)
    return anchors


def _report_of(chain: Path, anchors: _Anchors, trusted: TrustedKeys) -> ChainReport:
    """Verifies a chain; again, if the service deleted old records of it in the meantime.

    A service writes `cut.json` before it deletes, so this file tells its deletions from others.
    """
    while True:
        report, deleted = ChainReport(chain.name), _deleted(chain)
        try:
            _verify_chain(chain, report, anchors, trusted)
        except _Broken as broken:
            report.broken = str(broken)
        except FileNotFoundError as gone:
            report.broken = f"{gone.filename} is gone, and the service did not delete it"
        if report.broken is None or _deleted(chain) == deleted:
            return report


def _deleted(chain: Path) -> bytes | None:
    """The content of `cut.json`; None if nothing was deleted."""
    try:
        return (chain / CUT).read_bytes()
    except FileNotFoundError:
        return None


def _verify_chain(
    chain: Path, report: ChainReport, anchors: _Anchors, trusted: TrustedKeys
) -> None:
    if (chain / CUT).exists():
        deleted = _head(chain / CUT, trusted, CUT_TYPE)
        report.cut, report.covered = deleted.sequence, deleted.sequence
        report.head = deleted.sequence, deleted.hash
        anchors.check(report, *report.head)
    # A process that deletes, or was killed meanwhile, leaves a part of what it means to delete.
    left = head_path(segment_path(chain, report.cut + 1)).name
    heads = {
        path.name: _head(path, trusted)
        for path in sorted(chain.glob(f"*{HEAD_SUFFIX}"))
        if path.name >= left
    }
    if odd := [one.name for one in segments_of(chain) if not one.stem.isdecimal()]:
        raise _Broken(f"{odd[0]} is no segment")
    segments = [one for one in segments_of(chain) if int(one.stem) > report.cut]
    for segment in segments:
        _verify_segment(segment, report, anchors, may_be_torn=segment == segments[-1])
        closed = heads.get(head_path(segment).name)
        if closed is not None:
            if (closed.sequence, closed.hash) != report.head:
                raise _Broken(
                    f"{segment.name}: it ends with record {report.head[0]}, and its head "
                    f"names record {closed.sequence}"
                )
            report.covered = closed.sequence
    if (last := max((one.sequence for one in heads.values()), default=0)) > report.head[0]:
        raise _Broken(f"records {report.head[0] + 1} to {last} are missing")
    anchors.check_rest(report)


def _verify_segment(
    segment: Path, report: ChainReport, anchors: _Anchors, *, may_be_torn: bool
) -> None:
    if int(segment.stem) != report.head[0] + 1:
        raise _Broken(
            f"{segment.name}: records {report.head[0] + 1} to {int(segment.stem) - 1} are missing"
        )
    with segment.open("rb") as file:
        number = 0
        while line := file.readline(LONGEST_LINE):
            number += 1
            if may_be_torn and not line.endswith(b"\n") and not file.read(1):
                report.incomplete = len(line)
                return
            try:
                _take(parse(line), report)
            except (ValueError, RecursionError) as error:
                raise _Broken(f"{segment.name}, line {number}: {error}") from error
            anchors.check(report, *report.head)


def _take(record: dict[str, Any], report: ChainReport) -> None:
    """Adds the next record to what was verified.

    Raises:
        ValueError: it is not the next record.
    """
    sequence, previous = report.head
    if record.get("sequence") != sequence + 1:
        raise ValueError(f"it has the number {record.get('sequence')!r}, not {sequence + 1}")
    if record.get("previous") != previous:
        raise ValueError(f"it does not follow record {sequence}")
    if sequence == 0 and (record.get("kind"), record.get("chain")) != ("start", report.chain):
        raise ValueError(f"it is not the start of chain {report.chain}")
    report.head = sequence + 1, record["hash"]
    report.records += 1
    report.answers += record.get("kind") == "answer"


def _head(path: Path, trusted: TrustedKeys, kind: str = HEAD_TYPE) -> Head:
    try:
        head, envelope = read_head(path, kind)
    except SignatureRefused as error:
        raise _Broken(str(error)) from error
    if trusted.keys and not any(envelope.is_signed_by(key) for key in trusted.keys.values()):
        raise _Broken(f"{path.name}: it is not signed by the given key")
    if head.chain != path.parent.name:
        raise _Broken(f"{path.name}: it belongs to chain {head.chain}")
    return head


def as_json(reports: Iterable[ChainReport]) -> str:
    """The reports as JSON."""
    return json.dumps([vars(report) for report in reports], indent=2)
