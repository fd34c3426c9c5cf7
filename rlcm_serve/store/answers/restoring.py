"""What a certificate must be like that takes the place of a withdrawn one."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple, Self

from sqlalchemy import select
from sqlalchemy.orm import Session

from rlcm_serve.errors import Conflict
from rlcm_serve.store.answers.table import WithdrawalRow


class Restoring(NamedTuple):
    """What is demanded of the next certificate of a procedure whose guarantee was withdrawn.

    The k-th certificate after the first may fail with probability delta / (k (k + 1)), where delta
    is that of the first one. These numbers sum to delta. So over all alarms together, a wrong
    certificate is ever given with probability at most 2 delta: delta for the first, delta for all
    that replace it.

    Attributes:
        certificate: digest of the one that was withdrawn last.
        times: k, how often the guarantee was withdrawn.
        delta: the most that the next certificate may have.
        since: Unix time of the last withdrawal, in seconds; problems must be drawn after it.
    """

    certificate: str
    times: int
    delta: float
    since: float

    @classmethod
    def of(cls, session: Session, slot: str) -> Self | None:
        """What is demanded in a slot of certificates; None if nothing was withdrawn there."""
        withdrawn = select(WithdrawalRow).where(WithdrawalRow.slot == slot)
        rows = session.scalars(withdrawn.order_by(WithdrawalRow.time)).all()
        if not rows:
            return None
        times = len(rows)
        delta = rows[0].delta / (times * (times + 1))
        return cls(rows[-1].certificate, times, delta, rows[-1].time)

    def require(self, certificate: str, delta: float, added: float | None) -> None:
        """Returns if a certificate may be activated in this slot.

        Args:
            certificate: its digest; a withdrawn one stays withdrawn, whoever activates it.
            delta: of the certificate, and of all that holds together with it.
            added: Unix time at which it was stored here; None for a file.

        Raises:
            Conflict: it was made before the withdrawal, or its delta is too large.
        """
        if certificate == self.certificate:
            return
        withdrawn = datetime.fromtimestamp(self.since, UTC).isoformat(timespec="seconds")
        if added is None or added < self.since:
            raise Conflict(
                f"the guarantee of this procedure was withdrawn on {withdrawn}, after this "
                "certificate was made: fit one on problems drawn since, with `rlcm recalibrate`"
            )
        if delta > self.delta * (1 + 1e-9):
            raise Conflict(
                f"delta of this certificate is {delta:g}, and the guarantee of this procedure was "
                f"withdrawn {self.times} times: delta may be at most {self.delta:g} now. "
                "`rlcm recalibrate` fits with that"
            )
