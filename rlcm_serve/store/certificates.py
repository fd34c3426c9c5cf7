"""All certificates, and which of them are active.

The files with which the service was started are active. A certificate that was activated through
the API replaces any other certificate of the same engine and procedure. After a withdrawal no file
takes the place of the withdrawn certificate: a file does not say when it was made.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import select, text
from sqlalchemy.orm import Session

from calibration.certificate.certificate import Certificate
from calibration.certificate.report_data import ReportData, old_report_data_path, report_data_path
from calibration.errors import CertificateError
from rlcm_serve.core import Verified
from rlcm_serve.engine.contract import EngineIdentity
from rlcm_serve.errors import (
    CertificateMismatch,
    Conflict,
    NotFound,
    NotRestoring,
    SignatureRefused,
)
from rlcm_serve.signing import NO_KEYS, Envelope, TrustedKeys, envelope_path
from rlcm_serve.solving.fingerprints import profiles_of, voided_by
from rlcm_serve.solving.guarantees import Guarantees
from rlcm_serve.solving.slots import (
    is_of_kind_beside,
    of_other_fits,
    rivals,
    setup_of,
    slot_of,
    slots_of,
)
from rlcm_serve.store.answers.restoring import Restoring, Withdrawals
from rlcm_serve.store.answers.table import AnswerRow, MonitorRow
from rlcm_serve.store.answers.withdrawals import restore, withdrawn
from rlcm_serve.store.certificate_table import (
    ACTIVE,
    STORED,
    WITHDRAWN,
    StoredCertificate,
)
from rlcm_serve.store.database import Database
from rlcm_serve.store.evidence import Evidence
from rlcm_serve.store.rehearsals.stored import end_rehearsal
from rlcm_serve.store.report_data import StoredReports

SERVED_ELSEWHERE = 3600.0
"""Seconds after an answer under a certificate in which another process may still have its file."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class KeptCertificate:
    """A certificate, its origin, and whether it is active.

    `added` is in seconds since 1970, UTC; None for a file. `misfit` says why the certificate cannot
    be used with this engine; None if it can, or if the engine is not known yet. `profiles` are the
    names of the served profiles that it is for. `verified` says how its figures were verified, and
    `refusal` why it must not be served: it lacks a signature, or cannot take the place of a
    withdrawn one. `withdrawn` says why answers do not have its guarantee since an alarm, and how
    they are given; None if they have it. `voided` says why no answer of this engine has it,
    although the certificate fits; None if answers may have it.
    """

    certificate: Certificate
    origin: str
    added: float | None
    active: bool
    misfit: str | None
    profiles: tuple[str, ...] = ()
    verified: Verified = Verified.NONE
    refusal: str | None = None
    withdrawn: str | None = None
    voided: str | None = None


class CertificateStore:
    """The certificates in a database and in the files with which the service was started.

    May be used from any thread. Whoever activates or deactivates holds `changing` until the service
    uses the result, so that the last change wins.

    Args:
        database: where they are stored.
        trusted: the keys whose signatures count, and whether a certificate needs one.
        serves: whether certificates are served here. Otherwise none is active, though one may be
            activated for other services and later starts.
    """

    def __init__(
        self, database: Database, trusted: TrustedKeys = NO_KEYS, *, serves: bool = True
    ) -> None:
        self.changing = asyncio.Lock()
        self.trusted = trusted
        self._evidence = Evidence(trusted)
        self._database = database
        self._serves = serves
        self._files: dict[str, tuple[Certificate, str]] = {}
        self._read = _ReadCertificates()
        self._warned: set[str] = set()
        self._reports = StoredReports()
        self.threads = database.threads
        self._writing = threading.Lock()  # readers never wait for it

    def load(self, identities: Sequence[EngineIdentity], files: Sequence[Path]) -> Guarantees:
        """The guarantees that are active when an engine starts.

        Stored certificates of other engines are ignored, and so are unsigned ones if a signature is
        demanded.

        Raises:
            CertificateMismatch: a file was fitted on another engine, or two files are for the same
                procedure and no activated certificate replaces them.
            CertificateError: a file is not a certificate, has another version, or was edited.
        """
        loaded, report_files, envelopes = {}, {}, {}
        for file in files:
            certificate = Certificate.load(file)
            profiles_of(certificate, identities)  # refuses one that fits none
            loaded[certificate.id] = (certificate, f"file {file.name}")
            report_files[certificate.id] = (report_data_path(file), old_report_data_path(file))
            envelopes[certificate.digest] = envelope_path(file)
        self._files = loaded
        self._reports.files = report_files
        self._evidence.files = envelopes
        with self._database.reading() as session:
            guarantees = self._guarantees(session, identities, two_files=True)
        for id_ in guarantees.unsigned:
            _log.warning("certificate %s is not served: it has no signature of a trusted key", id_)
        return guarantees

    def current(self, identities: Sequence[EngineIdentity]) -> Guarantees:
        """The guarantees that are active now, after changes of any process.

        If another process deactivated what had replaced two files of one procedure, neither of them
        is served.
        """
        with self._database.reading() as session:
            return self._guarantees(session, identities)

    def decided(self) -> tuple[tuple[str, str], ...]:
        """What decides which certificates are active; differs once any process has changed it."""
        states = select(StoredCertificate.id, StoredCertificate.state)
        changed = states.where(StoredCertificate.state != STORED).order_by(StoredCertificate.id)
        with self._database.reading() as session:
            return (
                *((id_, state) for id_, state in session.execute(changed)),
                *self._evidence.all(session),
                *((id_, repr(one)) for id_, one in sorted(withdrawn(session).items())),
            )

    def all(self, identities: Sequence[EngineIdentity] | None) -> list[KeptCertificate]:
        """All certificates, the active ones first.

        Args:
            identities: of the engine; None while it starts, when no certificate is active.
        """
        with self._database.reading() as session:
            rows = {row.id: row for row in session.scalars(select(StoredCertificate))}
            self._read.forget_all_but(rows)
            known = self._known(rows.values())
            added = {id_: rows[id_].added if id_ in rows else None for id_ in known}
            past = Withdrawals(session, lambda: ((one, added[id_]) for id_, one in known.items()))
            describe = self._describing(session, identities, past)
            kept = [
                describe(
                    certificate,
                    rows[id_].origin if id_ in rows else self._files[id_][1],
                    added[id_],
                )
                for id_, certificate in known.items()
            ]
        return sorted(kept, key=lambda one: (not one.active, one.certificate.risk, one.added or 0))

    def get(self, id_: str) -> Certificate:
        """The certificate with this id.

        Raises:
            NotFound: there is no such certificate.
        """
        with self._database.reading() as session:
            return self._find(session, id_)[0]

    def kept(self, id_: str, identities: Sequence[EngineIdentity] | None) -> KeptCertificate:
        """The certificate with this id, as in `all`.

        Raises:
            NotFound: there is no such certificate.
        """
        with self._database.reading() as session:
            certificate, origin = self._find(session, id_)
            row = session.get(StoredCertificate, id_)
            describe = self._describing(session, identities, self._past(session))
            return describe(certificate, origin, None if row is None else row.added)

    def report(self, id_: str) -> ReportData:
        """The report data of a certificate, from the database or the file beside the certificate.

        Raises:
            NotFound: there is no such certificate.
            NoReport: it has no report data; the message says how to create it.
        """
        with self._database.reading() as session:
            certificate, _ = self._find(session, id_)
            return self._reports.find(session, certificate)

    def add(
        self,
        certificate: Certificate,
        origin: str,
        report: ReportData | None = None,
        *,
        recomputed: bool = False,
        envelope: Envelope | None = None,
    ) -> None:
        """Stores a certificate without activating it; a stored certificate is not changed.

        Args:
            certificate: the certificate to store.
            origin: where it comes from, for people to read.
            report: its report data; replaces stored report data.
            recomputed: whether its figures follow from traces that this service has seen.
            envelope: its signature; replaces a stored one.

        Raises:
            CertificateMismatch: it has no fingerprint, so it can never match an engine.
        """
        slot = slot_of(certificate)
        with self._writing, self._database.session() as session:
            self._take_turns(session)
            # A file that is not served after a withdrawal can be stored, and activated then.
            is_file = certificate.id in self._files
            wanted = not is_file or self._past(session).restoring(certificate) is not None
            if wanted and session.get(StoredCertificate, certificate.id) is None:
                session.add(_row(certificate, origin, slot, STORED))
            if report is not None:
                self._reports.keep(session, certificate, report)
            if recomputed or envelope:
                self._evidence.keep(session, certificate, recomputed=recomputed, envelope=envelope)

    def restoring(self, certificate: Certificate) -> Restoring | None:
        """What the next certificate of this one's procedure must be like, after a withdrawal."""
        with self._database.reading() as session:
            return self._past(session).restoring(certificate)

    def is_replaced(self, digest: str, slot: str, served: Sequence[Certificate]) -> bool:
        """Whether a certificate that was active has no place any more.

        One that is not served here may be active in another process, which may have another engine.
        The same is true of the one that took its place. Recent answers tell.

        Args:
            digest: of the certificate.
            slot: of the certificate, as it is stored.
            served: the certificates that this process serves.
        """
        if digest in {one.digest for one in served}:
            return False
        with self._database.reading() as session:
            row = session.get(StoredCertificate, digest[:12])
            if row is not None and row.state != STORED:
                return row.state == WITHDRAWN
            rows = select(StoredCertificate).where(StoredCertificate.state == ACTIVE)
            active = self._read.readable(session.scalars(rows)).values()
            if any(slot in slots_of(one) for one in active):
                return True
            recent = AnswerRow.started > self._database.now(session) - SERVED_ELSEWHERE
            of_it = select(AnswerRow).where(AnswerRow.certificate == digest, recent)
            if session.scalar(select(of_it.exists())):
                return False
            others = select(MonitorRow.certificate).where(MonitorRow.slot == slot)
            of_others = select(AnswerRow).where(AnswerRow.certificate.in_(others), recent)
            is_elsewhere = bool(session.scalar(select(of_others.exists())))
        return is_elsewhere or any(slot in slots_of(one) for one in served)

    def require_signature(self, certificate: Certificate) -> None:
        """Returns unless a signature is demanded and none of this certificate is known.

        Raises:
            SignatureRefused: it has no signature, or none of a trusted key.
        """
        with self._database.reading() as session:
            if why := self._evidence.refusal(session, certificate):
                raise SignatureRefused(why)

    def require_activable(self, id_: str, identities: Sequence[EngineIdentity]) -> None:
        """Returns if the certificate could be activated now; raises as `activate` otherwise."""
        with self._database.reading() as session:
            self._activable(session, id_, identities)

    def activate(
        self,
        ids: Sequence[str],
        identities: Sequence[EngineIdentity],
        also: Callable[[Session], None] | None = None,
    ) -> Guarantees:
        """Activates certificates one after another: all of them or none.

        Each replaces any other one of its procedure. One for all kinds also replaces those of kinds
        that had too few problems for one of their own this time: the certificates of two fits do
        not hold together. Such a one stays if its guarantee was withdrawn. The rehearsal of each
        ends: from now on the answers are its own.

        Args:
            ids: of the certificates.
            identities: of the engine.
            also: changes something else in the same transaction; if it raises, nothing changes.

        Returns:
            The new active guarantees.

        Raises:
            NotFound: there is no such certificate.
            CertificateMismatch: it was fitted on another engine, or this engine voids it and serves
                another one of its procedure; nothing changes.
            SignatureRefused: a signature is demanded, and it has none of a trusted key.
            NotRestoring: it cannot take a withdrawn one's place: `Restoring.objection`.
        """
        for id_ in ids:
            self.restoring(self.get(id_))  # reads what it takes before other writers must wait
        with self._writing, self._database.session() as session:
            self._take_turns(session)
            for id_ in ids:
                self._activate(session, id_, identities)
            if also is not None:
                also(session)
            return self._guarantees(session, identities)

    def _activate(self, session: Session, id_: str, identities: Sequence[EngineIdentity]) -> None:
        certificate = self._activable(session, id_, identities)
        self._stop_pooled(session, certificate, identities)
        for other in self._active_in(session, slot_of(certificate)):
            other.state = STORED
        session.flush()  # before another becomes active
        self._set_state(session, id_, ACTIVE)
        end_rehearsal(session, certificate.digest, self._database.now(session))

    def deactivate(self, id_: str, identities: Sequence[EngineIdentity]) -> Guarantees:
        """Deactivates a certificate, also one from a file; another file may take its place.

        Returns:
            The new active guarantees.

        Raises:
            NotFound: there is no such certificate.
            Conflict: it is not active.
            CertificateMismatch: two files would take its place; nothing changes.
        """
        with self._writing, self._database.session() as session:
            self._take_turns(session)
            self._find(session, id_)
            served = self._active(session, identities, self._past(session)).served
            if id_ not in {one.id for one in served}:
                raise Conflict(f"certificate {id_} is not active, so it cannot be deactivated")
            self._set_state(session, id_, WITHDRAWN)
            return self._guarantees(session, identities, two_files=True)

    def restore(self, id_: str, identities: Sequence[EngineIdentity], by: str | None) -> Guarantees:
        """Puts the policies of a withdrawn certificate back, without a guarantee, and on record.

        Returns:
            The guarantees that are active then.

        Raises:
            NotFound: there is no such certificate.
            Conflict: it is not withdrawn, or its policies are back already.
        """
        with self._writing, self._database.session() as session:
            certificate, _ = self._find(session, id_)
            restore(session, certificate.digest, by, self._database.now(session))
            return self._guarantees(session, identities)

    def _describing(
        self, session: Session, identities: Sequence[EngineIdentity] | None, past: Withdrawals
    ) -> Callable[[Certificate, str, float | None], KeptCertificate]:
        """What makes an entry of a certificate, its origin, and the time at which it was added."""
        served = self._active(session, identities, past).served if identities else []
        active = {certificate.id for certificate in served}
        lost = withdrawn(session)

        def describe(certificate: Certificate, origin: str, added: float | None) -> KeptCertificate:
            fit, is_active = _fit(certificate, identities), certificate.id in active
            reason = lost.get(certificate.id)
            return KeptCertificate(
                certificate,
                origin,
                added,
                is_active,
                misfit=fit.misfit,
                profiles=fit.profiles,
                verified=self._evidence.verified(session, certificate),
                refusal=self._evidence.refusal(session, certificate)
                # What was activated before its slot's withdrawal is served.
                or (None if is_active else past.objection(certificate, added)),
                withdrawn=None if reason is None else reason.reason,
                voided=fit.voided,
            )

        return describe

    def _activable(
        self, session: Session, id_: str, identities: Sequence[EngineIdentity]
    ) -> Certificate:
        certificate, _ = self._find(session, id_)
        profiles_of(certificate, identities)  # refuses one that fits none
        if why := self._evidence.refusal(session, certificate):
            raise SignatureRefused(why)
        row, past = session.get(StoredCertificate, id_), self._past(session)
        if why := past.objection(certificate, None if row is None else row.added):
            raise NotRestoring(why)
        if voided := _fit(certificate, identities).voided:
            setup, slot = setup_of(certificate), slot_of(certificate)
            for served in self._active(session, identities, past).served:
                if setup_of(served) == setup and slot_of(served) != slot:
                    raise CertificateMismatch(
                        f"certificate {served.id} is active for the same procedure, and no answer "
                        f"of this engine would have the guarantee of {id_}: {voided}"
                    )
        return certificate

    def _stop_pooled(
        self, session: Session, certificate: Certificate, identities: Sequence[EngineIdentity]
    ) -> None:
        """Deactivates the certificates of kinds whose questions this one is for from now on."""
        if certificate.kind is None or certificate.about is not None:
            return
        served = self._active(session, identities, self._past(session)).served
        lost = withdrawn(session, [one.digest for one in served])
        for other in served:
            is_pooled = other.about is not None and other.about not in certificate.kind.certified
            if is_pooled and other.id not in lost and is_of_kind_beside(other, certificate):
                self._set_state(session, other.id, WITHDRAWN)

    def _active_in(self, session: Session, slot: str) -> list[StoredCertificate]:
        """The active rows of a slot, also those stored under another one by an earlier release."""
        active = select(StoredCertificate).where(StoredCertificate.state == ACTIVE)
        rows = session.scalars(active).all()
        alike = {id_ for id_, one in self._read.readable(rows).items() if slot_of(one) == slot}
        return [row for row in rows if row.slot == slot or row.id in alike]

    def _take_turns(self, session: Session) -> None:
        """Waits for other processes that write certificates; SQLite has one writer anyway."""
        if not self._database.is_sqlite:
            table = StoredCertificate.__tablename__
            session.execute(text(f"LOCK TABLE {table} IN SHARE ROW EXCLUSIVE MODE"))

    def _guarantees(
        self, session: Session, identities: Sequence[EngineIdentity], *, two_files: bool = False
    ) -> Guarantees:
        chosen = self._active(session, identities, self._past(session), two_files=two_files)
        served, unsigned, refused = chosen
        verified = {one.id: self._evidence.verified(session, one) for one in served}
        lost = withdrawn(session, [one.digest for one in served])
        for id_, why in refused.items():
            if id_ not in self._warned:
                _log.warning("certificate %s is not served: %s", id_, why)
        self._warned |= set(refused)
        without = [one.id for one in unsigned]
        return Guarantees(identities, served, verified, without, lost, refused)

    def _known(self, rows: Iterable[StoredCertificate]) -> dict[str, Certificate]:
        """By id, the certificates of the files and of rows."""
        return {id_: one for id_, (one, _) in self._files.items()} | self._read.readable(rows)

    def _past(self, session: Session) -> Withdrawals:
        def known() -> Iterable[tuple[Certificate, float | None]]:
            rows = session.scalars(select(StoredCertificate)).all()
            added = {row.id: row.added for row in rows}
            return ((one, added.get(id_)) for id_, one in self._known(rows).items())

        return Withdrawals(session, known)

    def _find(self, session: Session, id_: str) -> tuple[Certificate, str]:
        """The certificate and its origin."""
        if row := session.get(StoredCertificate, id_):
            try:
                return self._read.certificate(row), row.origin
            except CertificateError as error:
                raise NotFound(f"the stored certificate {id_} is refused: {error}") from error
        if id_ in self._files:
            return self._files[id_]
        raise _unknown(id_)

    def _set_state(self, session: Session, id_: str, state: str) -> None:
        """Sets the state of a certificate; a certificate from a file is stored from now on."""
        row = session.get(StoredCertificate, id_)
        if row is None:
            certificate, origin = self._files[id_]
            row = _row(certificate, origin, slot_of(certificate), state)
            session.add(row)
        row.state = state
        session.flush()

    def _active(
        self,
        session: Session,
        identities: Sequence[EngineIdentity],
        past: Withdrawals,
        *,
        two_files: bool = False,
    ) -> _Chosen:
        """What this engine serves: first what gives a guarantee here, then what it voids.

        Args:
            session: of the database.
            identities: of the engine.
            past: the withdrawals so far.
            two_files: take both files of one procedure, which no engine can serve. Otherwise
                neither is taken.
        """
        if not self._serves:
            return _Chosen([], [], {})
        states = select(StoredCertificate.id).where(StoredCertificate.state != STORED)
        decided = {*session.scalars(states)}
        rows = select(StoredCertificate).where(StoredCertificate.state == ACTIVE)
        activated = self._read.readable(session.scalars(rows))
        fitting = [one for one in activated.values() if _fit(one, identities).profiles]
        files = [one for id_, (one, _) in self._files.items() if id_ not in decided]
        chosen = _Chosen([], [], {})
        taken: set[str] = set()
        void = {one.id for one in (*fitting, *files) if _fit(one, identities).voided}
        for is_void, candidates in product((False, True), (fitting, files)):
            alike = [one for one in candidates if (one.id in void) is is_void]
            signed = [one for one in alike if not self._evidence.refusal(session, one)]
            chosen.unsigned.extend(one for one in alike if one not in signed)
            served = [one for one in signed if setup_of(one) not in taken]
            if candidates is files:
                served = _without(served, {o.id: past.objection(o, None) for o in served}, chosen)
                served = _without(served, of_other_fits(served), chosen)
                if not two_files:
                    served = _without(served, rivals(served), chosen)
            elif is_void:  # activated for engines that compute other numbers than this one
                served = list({setup_of(one): one for one in served}.values())
            chosen.served.extend(served)
            taken |= {setup_of(one) for one in served}
        return chosen


def _unknown(id_: str) -> NotFound:
    return NotFound(f"there is no certificate {id_!r}: GET /certificates lists all certificates")


class _ReadCertificates:
    """The certificates of rows, each read once: that takes up to .3 s, and a list needs them all.

    It holds about three times the bytes of what is stored.
    """

    def __init__(self) -> None:
        self._of_row: dict[str, tuple[bytes, Certificate]] = {}

    @property
    def ids(self) -> set[str]:
        """Of the certificates that it holds."""
        return {*self._of_row}

    def certificate(self, row: StoredCertificate) -> Certificate:
        """The certificate of a row.

        Raises:
            CertificateError: an earlier release took it, and this one refuses it.
        """
        digest = sha256(row.content.encode()).digest()
        known, certificate = self._of_row.get(row.id, (None, None))
        if certificate is None or known != digest:
            certificate = Certificate.from_json(json.loads(row.content))
            self._of_row[row.id] = digest, certificate
        return certificate

    def readable(self, rows: Iterable[StoredCertificate]) -> dict[str, Certificate]:
        """The certificates by id; one that is refused is left out."""
        found = {}
        for row in rows:
            try:
                found[row.id] = self.certificate(row)
            except CertificateError as error:
                _log.warning("the stored certificate %s is refused: %s", row.id, error)
        return found

    def forget_all_but(self, ids: Container[str]) -> None:
        """Forgets the certificates that are no longer stored."""
        for id_ in [one for one in self.ids if one not in ids]:
            self._of_row.pop(id_, None)


def _row(certificate: Certificate, origin: str, slot: str, state: str) -> StoredCertificate:
    return StoredCertificate(
        id=certificate.id,
        content=json.dumps(certificate.to_json(), ensure_ascii=False),
        origin=origin,
        added=time.time(),
        slot=slot,
        state=state,
    )


def _without(
    files: Sequence[Certificate], why: Mapping[str, str | None], chosen: _Chosen
) -> list[Certificate]:
    """The files for which there is no reason not to serve them; `chosen` keeps the reasons."""
    chosen.refused.update((id_, one) for id_, one in why.items() if one)
    return [one for one in files if not why[one.id]]


class _Chosen(NamedTuple):
    """The certificates that are served, those that would be if they had the signature demanded, and
    why others cannot take the place of a withdrawn one, by id.
    """

    served: list[Certificate]
    unsigned: list[Certificate]
    refused: dict[str, str]


class _Fit(NamedTuple):
    """The profiles of an engine that a certificate is for, or why it is for none.

    `voided` says why no answer has its guarantee all the same.
    """

    profiles: tuple[str, ...] = ()
    misfit: str | None = None
    voided: str | None = None


def _fit(certificate: Certificate, identities: Sequence[EngineIdentity] | None) -> _Fit:
    if identities is None:
        return _Fit()
    try:
        profiles = profiles_of(certificate, identities)
    except CertificateMismatch as error:
        return _Fit(misfit=str(error))
    first = next(one for one in identities if one.profile.name == profiles[0])
    return _Fit(profiles, voided=voided_by(certificate, first))
