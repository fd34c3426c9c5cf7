"""Certificates whose guarantee is no longer given, in every process."""

from __future__ import annotations

import json
from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from rlcm_serve.errors import Conflict
from rlcm_serve.monitoring.records import Action, EventKind, Hook
from rlcm_serve.solving.guarantees import Withdrawn
from rlcm_serve.store.answers.table import EventRow, SmallerLevelRow, WithdrawalRow
from rlcm_serve.store.database import Database


def withdraw(
    session: Session,
    database: Database,
    *,
    certificate: str,
    slot: str,
    delta: float,
    time: float,
    why: str,
    below: float | None = None,
) -> bool:
    """Withdraws the guarantee of a certificate (a digest). False if it was withdrawn before.

    Args:
        session: a transaction that may write.
        database: of the session.
        certificate: its digest.
        slot: as in `StoredCertificate`.
        delta: of the certificate, and of all that holds together with it.
        time: Unix time in seconds.
        why: in words.
        below: the policies of smaller levels serve on; None for the full budget. Of several
            withdrawals of a certificate the strictest counts.
    """
    adding = database.insert(WithdrawalRow).on_conflict_do_nothing()
    row = {
        "certificate": certificate,
        "slot": slot,
        "delta": delta,
        "time": time,
        "why": why,
        "restored": None,
        "restored_by": None,
    }
    is_new = session.scalar(adding.returning(WithdrawalRow.certificate), row) is not None
    kept = session.get(SmallerLevelRow, certificate, with_for_update=True)
    if is_new and below is not None:
        session.add(SmallerLevelRow(certificate=certificate, below=below))
    elif kept is not None and below is None:
        session.delete(kept)
    elif kept is not None and below is not None:
        kept.below = min(kept.below, below)
    return is_new


def restore(session: Session, certificate: str, by: str | None, time: float) -> None:
    """Puts the policies of a withdrawn certificate back, without a guarantee.

    Raises:
        Conflict: it is not withdrawn, or its policies are back already.
    """
    row = session.get(WithdrawalRow, certificate, with_for_update=True)
    if row is None or row.restored is not None:
        state = "not withdrawn" if row is None else "restored already"
        raise Conflict(f"certificate {certificate[:12]} is {state}, so it cannot be restored")
    row.restored, row.restored_by = time, by
    who = "the service without keys" if by is None else f"key {by}"
    session.add(
        EventRow(
            time=time,
            certificate=certificate,
            alpha=None,
            what=EventKind.RESTORED.value,
            text=f"the policies of certificate {certificate[:12]} were put back by {who}, without "
            "a guarantee",
            figures=json.dumps({"by": by}),
            action=Action.NONE.value,
            hook=Hook.NONE.value,
        )
    )


def withdrawn(session: Session, digests: Sequence[str] | None = None) -> dict[str, Withdrawn]:
    """By id, the certificates whose guarantee is not given: all, or those with these digests."""
    of_row = SmallerLevelRow.certificate == WithdrawalRow.certificate
    rows = select(WithdrawalRow, SmallerLevelRow.below).outerjoin(SmallerLevelRow, of_row)
    if digests is not None:
        rows = rows.where(WithdrawalRow.certificate.in_(digests))
    return {
        row.certificate[:12]: Withdrawn(row.why, row.time, row.restored, below)
        for row, below in session.execute(rows)
    }
