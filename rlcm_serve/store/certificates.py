"""Which certificates there are, and which of them the service answers under.

In force are the files that the service was started with, and over them what was activated: an
activated certificate takes the place of any other of the same engine and procedure.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.orm import Session

from calibration.certificate.certificate import Certificate
from calibration.certificate.report_data import ReportData, old_report_data_path, report_data_path
from rlcm_serve.engine.contract import EngineIdentity
from rlcm_serve.errors import CertificateMismatch, Conflict, NotFound
from rlcm_serve.solving.fingerprints import ServedProcedure, require_fit
from rlcm_serve.solving.guarantees import Guarantees
from rlcm_serve.store.certificate_table import ACTIVE, STORED, WITHDRAWN, StoredCertificate
from rlcm_serve.store.database import Database
from rlcm_serve.store.report_data import StoredReports


@dataclass(frozen=True, slots=True)
class KeptCertificate:
    """A certificate, where it came from, and whether this engine is served under it.

    `added` is in seconds since 1970, UTC; None for a file. `misfit` says why it could not be
    served here, None if it could, or if no engine is known yet.
    """

    certificate: Certificate
    origin: str
    added: float | None
    active: bool
    misfit: str | None


class CertificateStore:
    """The certificates in a database and in the files that the service was started with.

    May be used from any thread. What changes what is in force holds `changing` until the service
    uses it, so that the last decision is the one that is served.
    """

    def __init__(self, database: Database) -> None:
        self.changing = asyncio.Lock()
        self._database = database
        self._files: dict[str, tuple[Certificate, str]] = {}
        self._reports = StoredReports()
        self._lock = threading.Lock()

    def load(self, identity: EngineIdentity, files: Sequence[Path]) -> Guarantees:
        """What this engine is served under from its start on.

        Raises:
            CertificateMismatch: a file was fitted on something else, or two files are for one
                procedure that no activated certificate is for. Stored certificates of other
                engines are passed over.
            CertificateError: a file is no certificate, of another version, or was edited.
        """
        loaded, report_files = {}, {}
        for file in files:
            certificate = Certificate.load(file)
            require_fit(certificate, identity)
            loaded[certificate.id] = (certificate, f"file {file.name}")
            report_files[certificate.id] = (report_data_path(file), old_report_data_path(file))
        with self._lock, self._database.reading() as session:
            self._files = loaded
            self._reports.files = report_files
            return Guarantees(identity, self._active(session, identity))

    def all(self, identity: EngineIdentity | None) -> list[KeptCertificate]:
        """All there are, those in force first.

        Args:
            identity: of the engine that is served; None while it starts, and nothing is in force.
        """
        with self._lock, self._database.reading() as session:
            rows = {row.id: row for row in session.scalars(select(StoredCertificate))}
            certificates = self._active(session, identity) if identity else []
            known = {id_: certificate for id_, (certificate, _) in self._files.items()}
            known |= {id_: _parsed(row) for id_, row in rows.items()}
            active = {certificate.id for certificate in certificates}
            kept = [
                KeptCertificate(
                    certificate,
                    origin=rows[id_].origin if id_ in rows else self._files[id_][1],
                    added=rows[id_].added if id_ in rows else None,
                    active=id_ in active,
                    misfit=None if identity is None else _misfit(certificate, identity),
                )
                for id_, certificate in known.items()
            ]
        return sorted(kept, key=lambda one: (not one.active, one.certificate.risk, one.added or 0))

    def get(self, id_: str) -> Certificate:
        """The certificate of that id.

        Raises:
            NotFound: there is none.
        """
        with self._lock, self._database.reading() as session:
            return self._find(session, id_)[0]

    def kept(self, id_: str, identity: EngineIdentity | None) -> KeptCertificate:
        """The certificate of that id, with what `all` says about it.

        Raises:
            NotFound: there is none.
        """
        for kept in self.all(identity):
            if kept.certificate.id == id_:
                return kept
        raise _unknown(id_)

    def report(self, id_: str) -> ReportData:
        """What was seen of a certificate: kept here, or in a file beside its own.

        Raises:
            NotFound: there is no such certificate.
            NoReport: nothing was made of it; the message says how to have one.
        """
        with self._lock, self._database.reading() as session:
            certificate, _ = self._find(session, id_)
            return self._reports.find(session, certificate)

    def add(self, certificate: Certificate, origin: str, report: ReportData | None = None) -> None:
        """Keeps a certificate without serving under it; one that is there already stays as it is.

        Args:
            certificate: to keep.
            origin: where it comes from, in words.
            report: what was seen of it; takes the place of any that is kept.

        Raises:
            CertificateMismatch: it carries no fingerprint, so no engine can ever be held to it.
        """
        slot = _slot(certificate)
        with self._lock, self._database.session() as session:
            known = certificate.id in self._files
            if not known and session.get(StoredCertificate, certificate.id) is None:
                session.add(_row(certificate, origin, slot, STORED))
            if report is not None:
                self._reports.keep(session, certificate, report)

    def activate(self, id_: str, identity: EngineIdentity) -> Guarantees:
        """Puts a certificate in force, in the place of any other of its procedure.

        Returns:
            What is in force from now on.

        Raises:
            NotFound: there is no such certificate.
            CertificateMismatch: it was fitted on something else than this engine; nothing changes.
        """
        with self._lock, self._database.session() as session:
            certificate, _ = self._find(session, id_)
            require_fit(certificate, identity)
            replaced = select(StoredCertificate).where(
                StoredCertificate.slot == _slot(certificate), StoredCertificate.state == ACTIVE
            )
            for row in session.scalars(replaced):
                row.state = STORED
            session.flush()  # before another becomes active
            self._decide(session, id_, ACTIVE)
            return Guarantees(identity, self._active(session, identity))

    def deactivate(self, id_: str, identity: EngineIdentity) -> Guarantees:
        """Takes a certificate out of force, for good if it is a file's; a file takes over, if any.

        Returns:
            What is in force from now on.

        Raises:
            NotFound: there is no such certificate.
            Conflict: it is not in force.
            CertificateMismatch: two files would take over; nothing changes.
        """
        with self._lock, self._database.session() as session:
            self._find(session, id_)
            if id_ not in {one.id for one in self._active(session, identity)}:
                raise Conflict(f"certificate {id_} is not in force, so there is nothing to end")
            self._decide(session, id_, WITHDRAWN)
            return Guarantees(identity, self._active(session, identity))

    def _find(self, session: Session, id_: str) -> tuple[Certificate, str]:
        """The certificate and its origin."""
        if row := session.get(StoredCertificate, id_):
            return _parsed(row), row.origin
        if id_ in self._files:
            return self._files[id_]
        raise _unknown(id_)

    def _decide(self, session: Session, id_: str, state: str) -> None:
        """Notes a decision; a file's certificate is kept from then on."""
        row = session.get(StoredCertificate, id_)
        if row is None:
            certificate, origin = self._files[id_]
            row = _row(certificate, origin, _slot(certificate), state)
            session.add(row)
        row.state = state
        session.flush()

    def _active(self, session: Session, identity: EngineIdentity) -> list[Certificate]:
        decided = {row.id: row for row in session.scalars(select(StoredCertificate))}
        activated = [_parsed(row) for row in decided.values() if row.state == ACTIVE]
        served = [one for one in activated if _misfit(one, identity) is None]
        taken = {ServedProcedure.of_certificate(one) for one in served}
        return served + [
            certificate
            for id_, (certificate, _) in self._files.items()
            if ServedProcedure.of_certificate(certificate) not in taken
            and not (id_ in decided and decided[id_].state == WITHDRAWN)
        ]


def _unknown(id_: str) -> NotFound:
    return NotFound(f"there is no certificate {id_!r}: GET /certificates lists those there are")


def _parsed(row: StoredCertificate) -> Certificate:
    return Certificate.from_json(json.loads(row.content))


def _row(certificate: Certificate, origin: str, slot: str, state: str) -> StoredCertificate:
    return StoredCertificate(
        id=certificate.id,
        content=json.dumps(certificate.to_json(), ensure_ascii=False),
        origin=origin,
        added=time.time(),
        slot=slot,
        state=state,
    )


def _misfit(certificate: Certificate, identity: EngineIdentity) -> str | None:
    try:
        require_fit(certificate, identity)
    except CertificateMismatch as error:
        return str(error)
    return None


def _slot(certificate: Certificate) -> str:
    """Engine and procedure as one text: another engine's certificates have slots of their own."""
    procedure = ServedProcedure.of_certificate(certificate)  # raises without a fingerprint
    fitted = certificate.fingerprint
    engine = {} if fitted is None else fitted.to_json()
    named = json.dumps([procedure, engine | {"vote": procedure.vote}], sort_keys=True)
    return hashlib.sha256(named.encode()).hexdigest()
