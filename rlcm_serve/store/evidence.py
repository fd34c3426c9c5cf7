"""What speaks for a certificate besides itself: its traces were seen here, or a trusted key signed.

Evidence belongs to the full digest of a certificate, and outlives its row and its file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.orm import Session

from calibration.certificate.certificate import Certificate
from rlcm_serve.core import Verified
from rlcm_serve.errors import SignatureRefused
from rlcm_serve.signing import Envelope, TrustedKeys, load_envelope
from rlcm_serve.store.certificate_table import StoredCertificate, StoredEvidence

RECOMPUTED_UPLOAD = "upload, recomputed from its traces"
"""Origin of an uploaded certificate whose traces came with it."""
JOB = "job "
"""Beginning of the origin of a certificate that a job fitted."""


class Evidence:
    """The evidence in the database and in the files beside certificate files.

    Attributes:
        trusted: the keys whose signatures count now, and whether one is demanded.
        files: by digest, the path that the signature of a certificate file may have.
    """

    def __init__(self, trusted: TrustedKeys) -> None:
        self.trusted = trusted
        self.files: Mapping[str, Path] = {}

    def keep(
        self,
        session: Session,
        certificate: Certificate,
        *,
        recomputed: bool = False,
        envelope: Envelope | None = None,
    ) -> None:
        """Adds evidence to what is stored."""
        known = session.get(StoredEvidence, certificate.digest)
        if known is None:
            known = StoredEvidence(digest=certificate.digest, recomputed=False, envelope=None)
            session.add(known)
        known.recomputed = known.recomputed or recomputed
        if envelope is not None:
            known.envelope = envelope.to_text()

    def all(self, session: Session) -> list[tuple[str, str]]:
        """All stored evidence, in one order: a digest each, and what there is of it."""
        is_signed = StoredEvidence.envelope.is_not(None)
        columns = StoredEvidence.digest, StoredEvidence.recomputed, is_signed
        rows = session.execute(select(*columns).order_by(StoredEvidence.digest))
        return [(digest, f"traces {traces}, signed {signed}") for digest, traces, signed in rows]

    def verified(self, session: Session, certificate: Certificate) -> Verified:
        """How the figures of a certificate were verified; traces say more than a signature."""
        known = session.get(StoredEvidence, certificate.digest)
        if (known is not None and known.recomputed) or _from_traces(session, certificate):
            return Verified.TRACES
        signed = self.trusted.keys and self.why_unsigned(session, certificate) is None
        return Verified.SIGNATURE if signed else Verified.NONE

    def refusal(self, session: Session, certificate: Certificate) -> str | None:
        """Why a certificate must not be served; None if no signature is demanded, or it has one."""
        return self.why_unsigned(session, certificate) if self.trusted.required else None

    def why_unsigned(self, session: Session, certificate: Certificate) -> str | None:
        """Why a certificate does not count as signed; None if a trusted key signed it."""
        why = (
            f"certificate {certificate.id} has no signature: sign it with `rlcm keys sign`, and "
            "upload both to /certificates, or keep the signature beside the certificate's file"
        )
        for read in self._envelopes(session, certificate):
            try:
                self.trusted.signer_of(certificate, read())
            except SignatureRefused as error:
                why = str(error)
            else:
                return None
        return why

    def _envelopes(
        self, session: Session, certificate: Certificate
    ) -> Iterator[Callable[[], Envelope]]:
        """What reads each of its envelopes, or says why it is none."""
        file = self.files.get(certificate.digest)
        if file is not None and file.exists():
            yield partial(load_envelope, file)
        known = session.get(StoredEvidence, certificate.digest)
        if known is not None and known.envelope is not None:
            yield partial(Envelope.from_text, known.envelope)


def _from_traces(session: Session, certificate: Certificate) -> bool:
    """Whether the origin says so: releases up to 0.2 stored no other evidence."""
    row = session.get(StoredCertificate, certificate.id)
    if row is None or f'"digest": "{certificate.digest}"' not in row.content:
        return False
    return row.origin == RECOMPUTED_UPLOAD or row.origin.startswith(JOB)
