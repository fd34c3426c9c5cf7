"""Chains on disk: `CHAIN/NUMBER.jsonl` with the records from that number on, and their heads.

One process writes one chain. A closed segment has a head beside it, `NUMBER.head.json`: a DSSE
envelope around the number and the hash of its last record, signed if there is a key. `cut.json` is
the head of the records that were deleted because of their age.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibration.canonical import canonical_json
from calibration.files import flush, write_text
from rlcm_serve.errors import SignatureRefused
from rlcm_serve.evidence.records import now, sealed
from rlcm_serve.signing import Envelope, enveloped

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

HEAD_TYPE = "application/vnd.rlcm.evidence-head+json"
CUT_TYPE = "application/vnd.rlcm.evidence-cut+json"
CUT = "cut.json"
SUFFIX, HEAD_SUFFIX = ".jsonl", ".head.json"
LONGEST_LINE = 64 * 2**20
"""Bytes; a longer line is no record."""
_REMEDIES = {
    HEAD_TYPE: "restore it from a copy of the folder, or delete it, and the service closes the "
    "segment again when it next starts",
    CUT_TYPE: "restore it from a copy of the folder",
}
_LOCK = "lock"
_CHAIN = re.compile(r"\d{8}T\d{12}Z-[0-9a-f]{8}")


@dataclass(frozen=True, slots=True)
class Head:
    """The last record of a segment: chain, number, hash, and when the segment was closed."""

    chain: str
    sequence: int
    hash: str
    time: str

    def __post_init__(self) -> None:
        """Checks the types of its fields, which come from a file.

        Raises:
            TypeError: one is of another type.
        """
        for name, value in asdict(self).items():
            wanted = int if name == "sequence" else str
            if type(value) is not wanted:
                raise TypeError(f"its {name} is {value!r}")


def chains_in(folder: Path) -> list[Path]:
    """The chains in a folder, the oldest first; without other folders, such as `lost+found`."""
    if not folder.exists():
        return []
    return sorted(
        path for path in folder.iterdir() if _CHAIN.fullmatch(path.name) and path.is_dir()
    )


def segments_of(chain: Path) -> list[Path]:
    """The segments of a chain in order."""
    return sorted(chain.glob(f"*{SUFFIX}"))


def segment_path(chain: Path, first: int) -> Path:
    """The segment that begins with the record of this number."""
    return chain / f"{first:012d}{SUFFIX}"


def head_path(segment: Path) -> Path:
    """The head beside a segment."""
    return segment.with_suffix(HEAD_SUFFIX)


def write_head(segment: Path, sequence: int, digest: str, key: Ed25519PrivateKey | None) -> Head:
    """Closes a segment."""
    head = Head(segment.parent.name, sequence, digest, now())
    envelope = enveloped(canonical_json(asdict(head)), HEAD_TYPE, key)
    write_text(head_path(segment), envelope.to_text(), is_durable=True)
    return head


def read_head(path: Path, kind: str = HEAD_TYPE) -> tuple[Head, Envelope]:
    """The head in a file, and the envelope around it.

    Raises:
        SignatureRefused: it cannot be read, or is no head of this kind.
    """
    try:
        envelope = Envelope.from_text(path.read_bytes())
        if envelope.payload_type != kind:
            raise ValueError(f"its type is {envelope.payload_type!r}")
        return Head(**json.loads(envelope.payload)), envelope
    except (OSError, SignatureRefused, TypeError, ValueError, RecursionError) as error:
        # An envelope's own error tells how to sign a certificate.
        why = error.__cause__ if isinstance(error, SignatureRefused) else error
        raise SignatureRefused(
            f"{path} is not the head of a chain ({why}): {_REMEDIES[kind]}"
        ) from error


def parse(line: bytes) -> dict[str, Any]:
    """The record of a line; its hash is right.

    Raises:
        ValueError: the line is no record; the message says why.
    """
    if not line.endswith(b"\n"):
        raise ValueError("the line is not complete")
    record = json.loads(line)
    if not isinstance(record, dict) or not isinstance(record.get("hash"), str):
        raise ValueError("it is not a record with a hash")
    claimed = record.pop("hash")
    expected, digest = sealed(record)
    if claimed != digest:
        raise ValueError(f"its hash is {digest[:12]}..., not {claimed[:12]}...: it was changed")
    if line != expected:
        raise ValueError("it is not in canonical form: it was changed")
    return record | {"hash": claimed}


def last_record(segment: Path) -> dict[str, Any] | None:
    """The last whole record of a segment; None if it has none."""
    found = None
    with segment.open("rb") as file:
        while line := file.readline(LONGEST_LINE):
            try:
                found = parse(line)
            except (ValueError, RecursionError):
                break
    return found


def end_of(chain: Path, key: Ed25519PrivateKey | None) -> Head | None:
    """The head of a chain that no process writes any more; closes its open segments.

    None if no record of the chain is left.

    Raises:
        SignatureRefused: its last head cannot be read.
    """
    for segment in segments_of(chain):
        if not head_path(segment).exists() and (last := last_record(segment)) is not None:
            write_head(segment, last["sequence"], last["hash"], key)
    heads = sorted(chain.glob(f"*{HEAD_SUFFIX}"))
    return read_head(heads[-1])[0] if heads else None


def named_by(chain: Path) -> list[Head]:
    """The heads of other chains that the first record of a chain names.

    Empty if that record was deleted, or is none; verifying the chain says why. Records of older
    releases name one head instead of a list, or None.
    """
    for segment in segments_of(chain)[:1]:
        with suppress(FileNotFoundError, ValueError, TypeError, RecursionError):
            with segment.open("rb") as file:
                after = parse(file.readline(LONGEST_LINE)).get("after") or []
            return [Head(**one) for one in (after if isinstance(after, list) else [after])]
    return []


def begin(folder: Path) -> tuple[Path, int]:
    """Makes a chain in this folder, for this user only, and marks it as being written.

    Other processes see it only once it is marked.

    Returns:
        The chain, and the file descriptor of its mark: see `lock`.
    """
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%fZ")
    chain = folder / f"{stamp}-{secrets.token_hex(4)}"
    unseen = folder / f".{chain.name}"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    unseen.mkdir(mode=0o700)
    marked = lock(unseen)
    unseen.rename(chain)
    flush(folder)
    return chain, marked


def lock(chain: Path) -> int:
    """Marks a chain as being written, as long as this file descriptor is open.

    Raises:
        BlockingIOError: another process writes it.
    """
    opened = os.open(chain / _LOCK, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(opened)
        raise
    return opened


@contextmanager
def unwritten(chain: Path) -> Iterator[bool]:
    """Whether no process writes the chain; inside the context none begins to."""
    try:
        opened = lock(chain)
    except BlockingIOError:
        yield False
        return
    try:
        yield True
    finally:
        os.close(opened)


def cut(chain: Path, before: str, key: Ed25519PrivateKey | None, *, keep_last: bool) -> int:
    """Deletes the segments that were closed before a time, from the oldest on.

    `cut.json` keeps the head of the last deleted one. It is written first: a segment that is
    missing without it was not deleted by the service.

    Args:
        chain: whose records are deleted.
        before: ISO 8601, as in the heads.
        key: signs the new head.
        keep_last: whether the last segment is being written.

    Returns:
        The number of deleted segments.

    Raises:
        SignatureRefused: a head cannot be read; nothing was deleted.
    """
    segments = segments_of(chain)
    old: list[tuple[Path, Head]] = []
    for segment in segments[:-1] if keep_last else segments:
        if not head_path(segment).exists():
            break
        head, _ = read_head(head_path(segment))
        if head.time >= before:
            break
        old.append((segment, head))
    if old:
        payload = canonical_json(asdict(old[-1][1]))
        envelope = enveloped(payload, CUT_TYPE, key)
        write_text(chain / CUT, envelope.to_text(), is_durable=True)
    for segment, _ in old:
        segment.unlink()
        head_path(segment).unlink()
    return len(old)
