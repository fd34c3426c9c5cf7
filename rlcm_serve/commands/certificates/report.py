"""`rlcm report` and `rlcm report-data`: what a page shows of a certificate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperGroup

from rlcm_serve.commands.certificates.options import (
    CertificateArgument,
    LossOption,
    TestOption,
    TracesArgument,
    risk_of,
    say,
    traces_of,
)
from rlcm_serve.commands.options import require_other

if TYPE_CHECKING:
    from calibration import Certificate, Traces


class _OrOfACertificate(TyperGroup):
    """Its arguments go to `certificate`, unless the first one names a command or asks for help."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # versions of typer differ in ctx
        """Of `rlcm report ...`."""
        if not args or args[0] not in {*self.commands, *ctx.help_option_names}:
            args = ["certificate", *args]
        return super().parse_args(ctx, args)


def report_group() -> typer.Typer:
    """`rlcm report`, to which other packages may add pages of theirs."""
    group = typer.Typer(
        name="report",
        cls=_OrOfACertificate,
        help="Write a report page with figures.\n\n"
        "Example: rlcm report certificate.json traces.parquet --out report",
    )
    group.command("certificate")(report)
    return group


def _with_labels(certificate: Certificate, path: Path) -> Traces:
    """The traces of a certificate; a sequential one may not need every label."""
    return traces_of(certificate, path, keep_unlabelled=certificate.sequential is not None)


def report(
    certificate: CertificateArgument,
    traces: TracesArgument,
    out: Annotated[Path, typer.Option(help="Folder for the page and its figures.")],
    test: TestOption = None,
    loss: LossOption = None,
) -> None:
    """Write the report of a certificate. The word `certificate` may be left out."""
    from calibration import Certificate
    from calibration.report import write_report

    loaded = Certificate.load(certificate)
    recorded, unseen = _with_labels(loaded, traces), traces_of(loaded, test) if test else None
    with Console(stderr=True).status("computing and plotting"):
        page = write_report(loaded, recorded, out, test=unseen, risk=risk_of(loaded, loss))
    say(page)


def report_data(
    certificate: CertificateArgument,
    traces: TracesArgument,
    out: Annotated[
        Path | None,
        typer.Option(help="File to write. Default: in reports/ next to the certificate."),
    ] = None,
    test: TestOption = None,
    loss: LossOption = None,
    questions: Annotated[
        Path | None,
        typer.Option(
            help="JSON Lines with the texts of the problems, as for `rlcm collect --data`, so that "
            "the page can show them."
        ),
    ] = None,
) -> None:
    """Write the report data of a certificate as JSON, for the service and its page."""
    from calibration import Certificate
    from calibration.certificate.report_data import report_data_path
    from calibration.report.build_data import build_report_data
    from rlcm_serve.recording.problems import read_problems

    written = out or report_data_path(certificate)
    require_other(written, certificate, traces, test, questions)
    loaded = Certificate.load(certificate)
    recorded, unseen = _with_labels(loaded, traces), traces_of(loaded, test) if test else None
    texts = {one.id: one.problem for one in read_problems(questions)} if questions else None
    with Console(stderr=True).status("computing"):
        build_report_data(loaded, recorded, unseen, risk_of(loaded, loss), texts).save(written)
    say(written)
