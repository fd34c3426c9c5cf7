"""Where exhibits are found: in files beside their certificates, and in the database."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sqlalchemy.orm import Session

from calibration.certificate.certificate import Certificate
from calibration.certificate.report_data import ReportData
from calibration.errors import CertificateError
from rlcm_serve.errors import NoReport
from rlcm_serve.store.report_data_table import StoredReport


class StoredReports:
    """StoredReports by the id of their certificate; what was read once is kept, for it never
    changes.

    Attributes:
        files: where a certificate's exhibit would lie. A file goes before the database: it may also
            tell of test problems, which the service never sees.
    """

    def __init__(self) -> None:
        self.files: Mapping[str, Path] = {}
        self._read: dict[str, ReportData] = {}

    def find(self, session: Session, certificate: Certificate) -> ReportData:
        """The exhibit of a certificate.

        Raises:
            NoReport: there is none that could be used; the message says why, and how to have one.
        """
        if certificate.id not in self._read:
            try:
                exhibit = ReportData.from_text(self._text(session, certificate.id))
            except CertificateError as error:
                raise _none(certificate, str(error)) from error
            except OSError as error:
                raise _none(certificate, f"its file cannot be read ({error.strerror})") from error
            if exhibit.certificate != certificate.digest:
                raise _none(certificate, "the one beside its file is of another certificate")
            self._read[certificate.id] = exhibit
        return self._read[certificate.id]

    def keep(self, session: Session, certificate: Certificate, exhibit: ReportData) -> None:
        """Puts an exhibit into the database, in the place of any that is there."""
        session.merge(StoredReport(certificate=certificate.id, content=exhibit.to_text()))
        self._read.pop(certificate.id, None)

    def _text(self, session: Session, id_: str) -> str | bytes:
        file = self.files.get(id_)
        if file is not None and file.exists():
            return file.read_bytes()
        row = session.get(StoredReport, id_)
        if row is None:
            raise CertificateError("nothing here was fitted on or recomputed from its traces")
        return row.content


def _none(certificate: Certificate, why: str) -> NoReport:
    return NoReport(
        f"certificate {certificate.id} has no exhibit: {why}. POST it to /certificates together "
        "with its traces, or write one beside its file with `rlcm exhibit`"
    )
