"""`rlcm evidence`: verifies the records of answers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from rlcm_serve.commands.options import JsonOption
from rlcm_serve.errors import RequestRefused

if TYPE_CHECKING:
    from rlcm_serve.evidence.verify import ChainReport

evidence = typer.Typer(
    name="evidence",
    help="Verify the records of answers.\n\n"
    "Example: rlcm evidence verify /var/lib/rlcm-serve/evidence --public-key signing.pub.pem",
    no_args_is_help=True,
)


@evidence.callback()
def _group() -> None:
    """Makes `verify` a subcommand, although it is the only one."""


@evidence.command()
def verify(
    folder: Annotated[
        Path, typer.Argument(help="Evidence folder of the service.", exists=True, file_okay=False)
    ],
    public_key: Annotated[
        Path | None, typer.Option(help="Public key that must have signed every head (PEM file).")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Verify that no record was changed, removed or inserted. Needs no service.

    The exit status is 1 if a chain is broken, or if the folder holds no record.
    """
    from rlcm_serve.evidence.verify import as_json as reports_as_json
    from rlcm_serve.evidence.verify import verify as verify_folder
    from rlcm_serve.signing import NO_KEYS, TrustedKeys

    trusted = NO_KEYS if public_key is None else TrustedKeys.load([public_key])
    reports = verify_folder(folder, trusted)
    if not any(report.records or report.broken for report in reports):
        raise without_record("folder", folder)
    if as_json:
        typer.echo(reports_as_json(reports))
    else:
        console = Console(markup=False, highlight=False, soft_wrap=True)
        for report in reports:
            console.print(_said(report, signed=public_key is not None))
        answers, broken = sum(r.answers for r in reports), [r for r in reports if r.broken]
        console.print(f"{len(reports)} chains, {answers} answers, {len(broken)} broken")
    if any(report.broken for report in reports):
        raise typer.Exit(1)


def _said(report: ChainReport, *, signed: bool) -> str:
    if report.broken:
        return f"{report.chain}: BROKEN: {report.broken}"
    sequence, digest = report.head
    said = f"{report.chain}: whole, {report.answers} answers in {report.records} records"
    if report.cut:
        said += f", records 1 to {report.cut} were deleted"
    said += f", last record {sequence} {digest}"
    how = "signed" if signed else "closed"
    if (rest := sequence - report.covered) > 0:
        said += f"; the last {rest} records are not {how} yet"
    if report.incomplete:
        said += f"; an unfinished line of {report.incomplete} bytes at the end (a killed process)"
    return said


def without_record(name: str, folder: Path) -> RequestRefused:
    """The error for a folder in which no answer was recorded; `name` is the argument's."""
    return RequestRefused(
        name,
        f"{folder} holds no record: give the service's evidence_folder, by default `evidence` in "
        "its state folder",
    )
