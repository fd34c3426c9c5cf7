"""From a certificate and its traces to a page and its figures."""

from pathlib import Path

from calibration.certificate.certificate import Certificate
from calibration.errors import CalibrationError
from calibration.report.page import page
from calibration.report.summary import summarize
from calibration.report_kit.page import write_page
from calibration.simulation.risks import Risk
from calibration.traces.traces import Traces

PAGE = "report.html"


def write_report(
    certificate: Certificate,
    traces: Traces,
    out: Path,
    test: Traces | None = None,
    risk: Risk | None = None,
) -> Path:
    """Write a report: `report.html`, which needs nothing else, and its figures as PNGs.

    Figures of test traces are honest estimates. Without them everything is measured on the
    problems on which the policies were chosen, tends to be optimistic, and says so. Only what the
    certificate certifies is promised: no figure adds to it. The files depend on the arguments
    alone; those of an earlier report in the folder are replaced once all is drawn. Figures are
    drawn with settings that matplotlib shares between threads: write one report at a time.

    Args:
        certificate: what to report on.
        traces: those it was fitted on; with or without the part that only put policies in order.
        out: folder for the files; created if it does not exist.
        test: other problems of the same recording, which had no part in the fit.
        risk: needed if the certificate bounds a loss of your own.

    Returns:
        Path of the page.

    Raises:
        CertificateError: traces of another recording than the certificate's.
        CalibrationError: `traces` are not those it was fitted on, `test` shares problems or groups
            with them, a user's loss is missing, or a problem has too few rollouts.
    """
    out = Path(out)
    if out.exists() and not out.is_dir():
        raise CalibrationError(f"{out} is a file: give a folder for the report")
    content = page(summarize(certificate, traces, test, risk))
    return write_page(content, out / PAGE)
