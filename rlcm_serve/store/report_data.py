"""Where the report data of certificates is kept: in files beside them, and in the database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from sqlalchemy.orm import Session

from calibration.certificate.certificate import Certificate
from calibration.certificate.report_data import ReportData
from calibration.errors import CertificateError
from rlcm_serve.errors import NoReport
from rlcm_serve.store.certificate_table import StoredReport


class StoredReports:
    """Report data by the id of its certificate. It never changes, so it is read once.

    Attributes:
        files: paths that a certificate's report data may have; none need exist. A file is preferred
            to the database: it may also cover test problems, which the service never sees.
    """

    def __init__(self) -> None:
        self.files: Mapping[str, Sequence[Path]] = {}
        self._read: dict[str, ReportData] = {}

    def find(self, session: Session, certificate: Certificate) -> ReportData:
        """The report data of a certificate.

        Raises:
            NoReport: it has none that can be used; the message says why, and how to create it.
        """
        if certificate.id not in self._read:
            try:
                report = ReportData.from_text(self._text(session, certificate.id))
            except CertificateError as error:
                raise _none(certificate, str(error)) from error
            except OSError as error:
                raise _none(certificate, f"its file cannot be read ({error.strerror})") from error
            if report.certificate != certificate.digest:
                raise _none(certificate, "its report data belongs to another certificate")
            self._read[certificate.id] = report
        return self._read[certificate.id]

    def keep(self, session: Session, certificate: Certificate, report: ReportData) -> None:
        """Stores report data in the database, replacing what is there."""
        session.merge(StoredReport(certificate=certificate.id, content=report.to_text()))
        self._read.pop(certificate.id, None)

    def _text(self, session: Session, id_: str) -> str | bytes:
        for file in self.files.get(id_, ()):
            if file.exists():
                return file.read_bytes()
        row = session.get(StoredReport, id_)
        if row is None:
            raise CertificateError("it was neither fitted nor recomputed from traces here")
        return row.content


def _none(certificate: Certificate, why: str) -> NoReport:
    return NoReport(
        f"certificate {certificate.id} has no report data: {why}. POST the certificate to "
        "/certificates together with its traces, or write report data beside its file with "
        "`rlcm report-data`"
    )
