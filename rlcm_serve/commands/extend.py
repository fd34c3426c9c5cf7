"""`rlcm extend`: problems are added to a sequential certificate."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Annotated

import typer

from rlcm_serve.commands.certificates import (
    LossOption,
    OrderOption,
    ProbeOption,
    TokenPriceOption,
    risk_of,
    validation_of,
    write_certificates,
)


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
) -> None:
    """Add problems to a sequential certificate, as often as you like; its design stays fixed.

    Ends with status 3 if no level is certified yet.
    """
    from calibration import read_traces
    from calibration.certificate.sequential import certify_sequential, read_start

    begun, recorded = read_start(start), read_traces(traces)
    certificate = certify_sequential(
        recorded,
        begun,
        risk=risk_of(begun, loss),
        order=read_traces(order) if order else validation_of(recorded, probe),
        token_price=token_price,
        created=date.today().isoformat(),
    )
    write_certificates([certificate], [out])
