"""`rlcm plan`: how many problems a certificate will take."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from calibration.errors import CalibrationError
from rlcm_serve.commands.certificates.options import (
    ALPHAS,
    AlphaOption,
    AnsweredOption,
    AverageOption,
    BoundOption,
    ByOption,
    DeltaOption,
    LossOption,
    MaxGroupSizeOption,
    NextOption,
    PromiseOption,
    RiskOption,
    SamplesOption,
    VoteOption,
    require_alone,
    risk_to_fit,
    say,
    warn,
)
from rlcm_serve.commands.options import JsonOption, require_other

if TYPE_CHECKING:
    from calibration import KindsPlan, Plan, Traces
    from calibration.testing.until import Until

LEAST_PILOT = 50
"""Problems or groups of a pilot, below which a forecast comes with a warning."""


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
    by: ByOption = None,
    bound: BoundOption = None,
    answered_at_least: AnsweredOption = None,
    next_questions: NextOption = None,
    design: Annotated[
        Path | None,
        typer.Option(
            help="File for the design of a sequential certificate, which `rlcm extend` starts. Its "
            "scale is learned from the pilot, whose problems are not tested."
        ),
    ] = None,
    label_share: Annotated[
        float | None,
        typer.Option(
            help="With --design: share of the problems that get a label, drawn at random. The "
            "others count by predicted losses."
        ),
    ] = None,
    least_share: Annotated[
        float | None,
        typer.Option(
            help="Smallest probability of a label. Below --label-share, doubtful problems get more "
            "labels. Default: all are drawn evenly."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Forecast how many labelled problems a calibration needs and how many tokens it saves.

    With --by, forecast a certificate for each kind in the pilot. Give at least 50 problems of each;
    kinds with too few for any certificate of their own are left out.
    """
    from calibration import KindsPlan, read_traces
    from calibration.certificate.sequential import sequential_design
    from calibration.simulation.label_share import require_shares
    from calibration.testing.joint import parse_bounds

    bounds = parse_bounds(bound or [], answered_at_least)
    shares: dict[str, Any] = {"label_share": label_share, "least_share": least_share}
    if design is None:
        _require_design(shares)
    else:
        require_alone("--design", {"by": by, "bounds": bounds or None, "next": next_questions})
        require_shares(label_share, least_share)
        require_other(design, pilot, name="design")
    recorded = read_traces(pilot, by=by or "kind")
    if recorded.n_units < LEAST_PILOT:
        warn(
            f"the pilot has {recorded.n_units} problems or groups, whose losses say little: give "
            f"{LEAST_PILOT} or more"
        )
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
    how: dict[str, Any] = {"bounds": bounds, "next_questions": next_questions}
    if label_share is not None:
        how |= shares
    found = _forecast(recorded, by, **asked, **how)
    if as_json:
        typer.echo(json.dumps(found.to_json(), indent=2))
    elif isinstance(found, KindsPlan):
        _print_kinds(found)
    else:
        print_plan(found, label_share)
    if design is None or isinstance(found, KindsPlan):
        return
    begun = sequential_design(recorded, found.expected_units, order=recorded, **asked, **shares)
    begun.save(design)
    if not as_json:
        say(f"the design is in {design}; start with `rlcm extend {design} TRACES --order {pilot}`")


def _require_design(shares: Mapping[str, float | None]) -> None:
    for name, value in shares.items():
        if value is not None:
            option = name.replace("_", "-")
            raise CalibrationError(
                f"--{option} is {value:g} without --design: which problems get a label is drawn by "
                "the design of a sequential certificate; give --design FILE"
            )


def _forecast(recorded: Traces, by: str | None, **asked: Any) -> Plan | KindsPlan:
    from calibration import plan as forecast
    from calibration import plan_kinds
    from rlcm_serve.terminal import shown_progress

    with shown_progress(Console(stderr=True), "simulating calibrations") as show:
        if by is None:
            return forecast(recorded, on_progress=show, **asked)
        return plan_kinds(recorded, by=by, on_progress=show, **asked)


def print_plan(found: Plan, label_share: float | None = None) -> None:
    """Prints a forecast as a table that fits the terminal, and what it means, in sentences.

    Args:
        found: the forecast.
        label_share: of the problems, if a share was asked for: then labels are of those drawn.
    """
    _print_table(found)
    for alpha in found.enough:
        say(f"alpha {alpha:g}: {_in_words(found, alpha)}")
    if label_share is not None:
        return
    if found.labelled == 1:
        say("every problem needs a label")
    else:
        say(
            f"{found.labelled:.0%} of the problems need a label; the loss of the others is known "
            "from their answers (`rlcm labels`)"
        )


def _print_kinds(found: KindsPlan) -> None:
    from calibration.certificate.kinds import named

    _print_table(found.pooled)
    for kind, own in (("all kinds", found.pooled), *found.of_kinds.items()):
        name = kind if own is found.pooled else f"kind {kind!r}"
        say(f"{name}, forecast from {own.n_pilot} problems or groups:")
        for alpha in own.enough:
            say(f"  alpha {alpha:g}: {_in_words(own, alpha)}")
    if found.skipped:
        say(f"no forecast, because the pilot has too few problems: {named(found.skipped)}")
    say(f"a kind has a certificate of its own from {found.labels} labelled problems on")
    each = "each of the kinds forecast" if found.skipped else "each kind"
    for alpha, enough in found.enough.items():
        said = (
            f"about {enough} labelled problems of all kinds, drawn with the pilot's shares, "
            f"certify {each} taken alone in 9 of 10 cases, and all of them at once in fewer"
            if enough
            else f"no number tried certifies {each} in 9 of 10 cases"
        )
        say(f"alpha {alpha:g}: {said}")


def _print_table(found: Plan) -> None:
    from rich.table import Table

    table = Table(title=f"{found.risk} risk, forecast from {found.n_pilot} problems or groups")
    for name in ("n", "alpha", "certified", "tokens saved", "answered", "answered and right"):
        table.add_column(name, justify="right")
    for each in found.forecasts:
        shares = (each.certified, 1 - each.tokens_share, each.answered_share, each.right_share)
        table.add_row(str(each.n), f"{each.alpha:g}", *(f"{share:.0%}" for share in shares))
    Console().print(table)


def _in_words(found: Plan, alpha: float) -> str:
    """How many problems certify a level."""
    enough = found.enough[alpha]
    said = (
        f"about {enough} labelled problems certify it in 9 of 10 cases"
        if enough
        else "no number tried certifies it in 9 of 10 cases; the pilot's risk may be above it"
    )
    floor = f"no test of fewer than {found.fewest[alpha]} can"
    if alpha not in found.sequential:
        return "; ".join((said, floor))
    drawn = f"with labels of {found.label_share:.0%} of the problems"
    return "; ".join(
        (
            said,
            floor,
            _until("a sequential certificate", found.sequential[alpha]),
            _until(f"{drawn}, drawn evenly, it", found.predicted[alpha]),
            _until(f"{drawn}, doubtful ones more often, it", found.active[alpha]),
        )
    )


def _until(subject: str, until: Until) -> str:
    """How many labels a sequential certificate takes, in words."""
    if until.half is None:
        return f"{subject} takes more than the largest number in most cases"
    most = "more than the largest number" if until.most is None else f"{until.most} labels"
    return (
        f"{subject} ends after {until.half} labels in half of the cases, and after {most} in 9 of "
        "10"
    )
