"""`rlcm plan`: how many problems a certificate will take."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from rlcm_serve.commands.certificates.options import (
    ALPHAS,
    AlphaOption,
    AverageOption,
    DeltaOption,
    LossOption,
    MaxGroupSizeOption,
    PromiseOption,
    RiskOption,
    SamplesOption,
    VoteOption,
    risk_to_fit,
    say,
)
from rlcm_serve.commands.options import JsonOption

if TYPE_CHECKING:
    from calibration import Plan
    from calibration.certificate.plan import Until

MANY = 1000
"""Units that a design expects if the forecast does not say how many are enough."""


def plan(
    pilot: Annotated[Path, typer.Argument(help="Traces of a pilot: 50 to 200 labelled problems.")],
    risk: RiskOption = "selective",
    loss: LossOption = None,
    alpha: AlphaOption = ALPHAS,
    delta: DeltaOption = 0.1,
    promise: PromiseOption = "simultaneous",
    n: SamplesOption = 1,
    vote: VoteOption = "confidence",
    average: AverageOption = "problems",
    max_group_size: MaxGroupSizeOption = None,
    design: Annotated[
        Path | None,
        typer.Option(
            help="File for the design of a sequential certificate, which `rlcm extend` starts. Its "
            "scale is learned from the pilot, whose problems are not tested."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Forecast how many labelled problems a calibration needs and how many tokens it saves."""
    from rich.progress import Progress

    from calibration import plan as forecast
    from calibration import read_traces
    from calibration.certificate.sequential import sequential_design

    recorded = read_traces(pilot)
    asked: dict[str, Any] = {
        "risk": risk_to_fit(risk, loss),
        "alphas": alpha,
        "delta": delta,
        "promise": promise,
        "samples": n,
        "vote": vote,
        "average": average,
        "max_group_size": max_group_size,
    }
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("simulating calibrations", total=None)
        found = forecast(
            recorded,
            on_progress=lambda done, of: progress.update(task, completed=done, total=of),
            **asked,
        )
    if design is not None:
        expected = max((enough for enough in found.enough.values() if enough), default=MANY)
        sequential_design(recorded, expected, order=recorded, **asked).save(design)
    if as_json:
        typer.echo(json.dumps(found.to_json(), indent=2))
        return
    _print_plan(found)
    if design is not None:
        say(f"the design is in {design}; start with `rlcm extend {design} TRACES --order {pilot}`")


def _print_plan(found: Plan) -> None:
    from rich.table import Table

    table = Table(title=f"{found.risk} risk, forecast from {found.n_pilot} problems or groups")
    for name in ("n", "alpha", "certified", "tokens saved", "answered", "answered and right"):
        table.add_column(name, justify="right")
    for each in found.forecasts:
        shares = (each.certified, 1 - each.tokens_share, each.answered_share, each.right_share)
        table.add_row(str(each.n), f"{each.alpha:g}", *(f"{share:.0%}" for share in shares))
    Console().print(table)
    for alpha, enough in found.enough.items():
        said = (
            f"about {enough} labelled problems certify it in 9 of 10 cases"
            if enough
            else "no number tried certifies it in 9 of 10 cases; the pilot's risk may be above it"
        )
        floor = f"no test can with fewer than {found.fewest[alpha]}"
        say(f"alpha {alpha:g}: {said}; {floor}; {_until(found.sequential[alpha])}")
    say(
        f"{found.labelled:.0%} of the problems need a label; the loss of the others is known from "
        "their answers (`rlcm labels`)"
    )


def _until(sequential: Until) -> str:
    """How many labels a sequential certificate takes, in words."""
    if sequential.half is None:
        return "a sequential certificate takes more than the largest number in most cases"
    most = "more than the largest number" if sequential.most is None else f"{sequential.most}"
    return (
        f"a sequential certificate ends after {sequential.half} in half of the cases, and after "
        f"{most} in 9 of 10"
    )
