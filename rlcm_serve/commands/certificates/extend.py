"""`rlcm extend` and `rlcm labels`: what can be done with the design of a test."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from rlcm_serve.commands.certificates.fit import order_of, write_certificates
from rlcm_serve.commands.certificates.options import (
    LossOption,
    OrderOption,
    ProbeOption,
    TokenPriceOption,
    risk_of,
)
from rlcm_serve.commands.options import JsonOption, require_other


def extend(
    start: Annotated[
        Path,
        typer.Argument(help="Sequential certificate, or the design of one that `rlcm plan` wrote."),
    ],
    traces: Annotated[
        Path,
        typer.Argument(
            help="Traces: a Parquet file, or a folder of them. Those of earlier batches and new "
            "ones, which become the next batch."
        ),
    ],
    out: Annotated[Path, typer.Option(help="File for the new certificate.")],
    loss: LossOption = None,
    order: OrderOption = None,
    probe: ProbeOption = None,
    token_price: TokenPriceOption = 0.05,
    as_json: JsonOption = False,
) -> None:
    """Add problems to a sequential certificate, as often as you like; its design stays fixed.

    Ends with status 3 if no level is certified yet.
    """
    from calibration import read_traces
    from calibration.certificate.sequential import certify_sequential, read_start

    require_other(out, traces, order)
    begun, recorded = read_start(start), read_traces(traces, keep_unlabelled=True)
    with Console(stderr=True).status("fitting"):
        certificate = certify_sequential(
            recorded,
            begun,
            risk=risk_of(begun, loss),
            order=order_of(recorded, order, probe),
            token_price=token_price,
            created=date.today().isoformat(),
        )
    write_certificates([certificate], [out], as_json=as_json)


def labels(
    start: Annotated[
        Path,
        typer.Argument(help="Certificate, or the design of one that `rlcm plan` wrote."),
    ],
    traces: Annotated[
        Path,
        typer.Argument(
            help='Traces, recorded with "?" in the place of unknown answers: a Parquet file, or a '
            "folder of them."
        ),
    ],
    loss: LossOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the problems that need a label.

    The loss of the others follows from their answers. Under a design with --label-share, only
    problems that were drawn are listed. Label all that are listed, and grade the traces again with
    `rlcm regrade`, where the others keep the answer "?".
    """
    from calibration import read_traces
    from calibration.certificate.evaluate import resolve_risk
    from calibration.certificate.sequential import problems_to_label, read_start, require_others

    begun, recorded = read_start(start), read_traces(traces, keep_unlabelled=True)
    require_others(begun, recorded)
    risk = resolve_risk(begun, risk_of(begun, loss))
    ids = problems_to_label(begun, recorded, risk)
    if as_json:
        typer.echo(json.dumps({"problems": recorded.n_problems, "needed": ids}, indent=2))
        return
    for problem_id in ids:
        typer.echo(problem_id)
    typer.echo(f"{len(ids)} of {recorded.n_problems} problems need a label", err=True)
