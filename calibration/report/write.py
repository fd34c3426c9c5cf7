"""From a certificate and its traces to a page and its figures."""

from collections.abc import Iterator
from pathlib import Path

from matplotlib.figure import Figure

from calibration.certificate.certificate import Certificate
from calibration.errors import CalibrationError
from calibration.report import figures, policy_figures
from calibration.report import labels as captions
from calibration.report.labels import Caption
from calibration.report.page import Plate, page
from calibration.report.summary import Findings, find
from calibration.report_kit.files import replace_files
from calibration.report_kit.palette import inline_svg, png, settings
from calibration.simulation.risks import Risk
from calibration.traces.traces import Traces

PAGE = "report.html"
FIGURES = ("risk", "tokens", "risk-coverage", "reliability", "p-values", "samples")
"""Stems of the PNGs, in the order of the page."""


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
        out: folder for the files; made if need be.
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
    findings = find(certificate, traces, test, risk)
    files: dict[str, bytes] = {}
    plates = []
    with settings():
        for name, figure, caption in _drawn(findings):
            files[f"{name}.png"] = png(figure)
            figure.set_layout_engine("none")  # as laid out for the PNG
            plates.append(Plate(name, inline_svg(figure, name, caption.alt), caption))
    files[PAGE] = page(findings, plates).encode()
    replace_files(out, files, former=[f"{name}.png" for name in FIGURES])
    return out / PAGE


def _drawn(findings: Findings) -> Iterator[tuple[str, Figure, Caption]]:
    yield "risk", figures.draw_risk(findings), captions.of_risk(findings)
    yield "tokens", figures.draw_tokens(findings), captions.of_tokens(findings)
    if findings.coverage is not None:
        yield (
            "risk-coverage",
            figures.draw_coverage(findings, findings.coverage),
            captions.of_coverage(findings, findings.coverage),
        )
    yield "reliability", figures.draw_reliability(findings), captions.of_reliability(findings)
    yield "p-values", policy_figures.draw_p_values(findings), captions.of_p_values(findings)
    yield "samples", policy_figures.draw_samples(findings.samples), captions.of_samples(findings)
