"""What a certificate must be like that takes the place of a withdrawn one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import cached_property
from math import inf
from typing import NamedTuple

from sqlalchemy import select
from sqlalchemy.orm import Session

from calibration.certificate.certificate import Certificate
from rlcm_serve.solving.slots import slot_of, slots_of
from rlcm_serve.store.answers.table import WithdrawalRow


class Restoring(NamedTuple):
    """What is demanded of the next certificate of a procedure whose guarantee was withdrawn.

    The k-th certificate after the first may fail with probability delta / (k (k + 1)), where delta
    is that of the first one. These numbers sum to delta. So over all alarms together, a wrong
    certificate is ever given with probability at most 2 delta: delta for the first, delta for all
    that replace it. Whatever is fitted counts, active or not: whoever may fit again until a level
    is certified spends delta each time.

    Attributes:
        certificate: digest of the one that was withdrawn last.
        number: k, of the next certificate after the first.
        delta: the most that the next certificate may have.
        since: Unix time of the last withdrawal, in seconds; problems must be drawn after it.
        used: digests of the calibration traces of withdrawn certificates, as far as they are known.
    """

    certificate: str
    number: int
    delta: float
    since: float
    used: frozenset[str]

    def objection(self, certificate: Certificate, added: float | None) -> str | None:
        """Why a certificate must not be activated in this slot; None if it may.

        Beyond that its traces are others, when its problems were drawn is the operator's word.

        Args:
            certificate: the certificate; a withdrawn one stays withdrawn, whoever activates it.
            added: Unix time at which it was stored here; None for a file.
        """
        if certificate.digest == self.certificate:
            return None
        withdrawn = datetime.fromtimestamp(self.since, UTC).isoformat(timespec="seconds")
        lost = f"the guarantee of this procedure was withdrawn on {withdrawn}"
        again = "fit one on problems drawn since, with `rlcm recalibrate`"
        if added is None:
            return (
                f"{lost}, and a file does not say when it was made: if its problems were drawn "
                f"since, upload and activate it; otherwise {again}"
            )
        if added < self.since:
            return f"{lost}, after this certificate was made: {again}"
        if certificate.calibration_digest in self.used:
            return (
                f"{lost}, and this certificate was fitted on the same traces as a withdrawn one "
                f"(calibration_digest {certificate.calibration_digest[:12]}): {again}"
            )
        if certificate.whole_delta > self.delta * (1 + 1e-9):
            return (
                f"delta of this certificate is {certificate.whole_delta:g}, and it is number "
                f"{self.number} that was fitted since the guarantee of this procedure was first "
                f"withdrawn: delta may be at most {self.delta:g}. `rlcm recalibrate` fits with that"
            )
        return None


class Withdrawals:
    """All withdrawals, as one transaction sees them: they are read at most once.

    Args:
        session: that reads them.
        known: returns all certificates that are known, with the Unix time at which each was stored
            (None for a file); called at most once. Their slots are computed again, because a
            withdrawal may be stored under the slot of an earlier release.
    """

    def __init__(
        self, session: Session, known: Callable[[], Iterable[tuple[Certificate, float | None]]]
    ) -> None:
        self._session, self._known = session, known

    def restoring(self, certificate: Certificate, added: float = inf) -> Restoring | None:
        """What is demanded in the slot of a certificate; None if nothing was withdrawn there.

        Args:
            certificate: any of the slot.
            added: Unix time at which the next one is stored; later ones do not count.
        """
        if not self._rows:
            return None
        slots, alike = slots_of(certificate), self._alike[slot_of(certificate)]
        rows = [row for row in self._rows if row.slot in slots or row.certificate in alike]
        if not rows:
            return None
        fitted = sum(
            rows[0].time <= stored < added for _, stored in alike.values() if stored is not None
        )
        number = max(len(rows), fitted + 1)
        delta = rows[0].delta / (number * (number + 1))
        lost = (alike[row.certificate] for row in rows if row.certificate in alike)
        used = frozenset(one.calibration_digest for one, _ in lost)
        return Restoring(rows[-1].certificate, number, delta, rows[-1].time, used)

    def objection(self, certificate: Certificate, added: float | None) -> str | None:
        """Why it cannot take the place of a withdrawn certificate; `added` None for a file."""
        restoring = self.restoring(certificate, inf if added is None else added)
        return None if restoring is None else restoring.objection(certificate, added)

    @cached_property
    def _rows(self) -> Sequence[WithdrawalRow]:
        """The oldest first."""
        return self._session.scalars(select(WithdrawalRow).order_by(WithdrawalRow.time)).all()

    @cached_property
    def _alike(self) -> dict[str, dict[str, tuple[Certificate, float | None]]]:
        """The certificates of each slot, and when they were stored, by digest."""
        found: dict[str, dict[str, tuple[Certificate, float | None]]] = defaultdict(dict)
        for one, added in self._known():
            found[slot_of(one)][one.digest] = one, added
        return found
