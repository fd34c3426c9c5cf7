"""`rlcm rehearsal` and `rlcm activate`: judge a certificate on live answers, then serve it."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from rlcm_serve.commands.calling.client import SERVICE, KeyOption, ServiceOption, call, client_of
from rlcm_serve.commands.options import JsonOption

_NO_LABEL = "no audited answer has a label yet"
_FIGURES = {
    "saved": ("tokens saved", "", "not known yet"),
    "answered": ("answered", "", "not known: readings of several samples do not tell"),
    "lost": ("lost", " labelled", _NO_LABEL),
    "wrong": ("wrong", " labelled that it answers", _NO_LABEL),
}
"""Of each figure: its name, what it is a share of besides questions, and why there may be none."""
_MEANING = """\
Intervals are of 95%. Lost: right answers where the level would have abstained
or changed the answer. Wrong: at most so many, because a changed answer may be
right."""
_CertificateId = Annotated[str, typer.Argument(help="Id of a stored certificate.")]


def rehearsal(
    certificate: _CertificateId,
    start: Annotated[bool, typer.Option("--start", help="Start the rehearsal.")] = False,
    stop: Annotated[
        bool, typer.Option("--stop", help="End the rehearsal; its figures stay.")
    ] = False,
    service: ServiceOption = SERVICE,
    key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what a certificate would have saved, answered and lost on live questions.

    The service answers them as before.
    """
    if start and stop:
        raise typer.BadParameter("give --start or --stop, not both")
    method = "POST" if start else "DELETE" if stop else "GET"
    with client_of(service, key) as client:
        body = call(client, method, f"/certificates/{certificate}/rehearsal", "certificate")
    _show(body, as_json)


def activate(
    certificate: _CertificateId,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the rehearsal, and activate nothing.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    service: ServiceOption = SERVICE,
    key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Activate a stored certificate, after showing what its rehearsal says."""
    path = f"/certificates/{certificate}/activate"
    with client_of(service, key) as client:
        body = call(client, "POST", path, "rehearsal", params={"dry_run": "true"})
        if not as_json:
            _show(body["rehearsal"], as_json)
        if not dry_run:
            if not yes:
                typer.confirm(f"activate certificate {certificate}?", abort=True, err=True)
            body = call(client, "POST", path, "rehearsal")
    if as_json:
        typer.echo(json.dumps(body))
    elif not dry_run:
        typer.echo(f"certificate {certificate} is active")


def _show(body: dict[str, Any] | None, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(body))
    elif body is None:
        typer.echo("the certificate was never rehearsed, so nothing is known of live questions")
    else:
        typer.echo("\n".join(_lines(body)))


def _lines(body: dict[str, Any]) -> list[str]:
    started = _minute(body["started"])
    when = f"since {started}" if body["running"] else f"from {started} to {_minute(body['ended'])}"
    lines = [f"rehearsal of {body['certificate']}, {when}"]
    if not body["levels"]:
        return [*lines, "no question yet"]
    return [*lines, *(line for level in body["levels"] for line in _level(level)), _MEANING]


def _level(level: dict[str, Any]) -> list[str]:
    lines = [f"alpha {level['alpha']:g}, questions: {level['questions']}"]
    lines += [f"  {name:<13} {_figure(level, key)}" for key, (name, *_) in _FIGURES.items()]
    if level["undecided"]:
        lines.append(
            f"  {'undecided':<13} {level['undecided']} stopped before this level would have; the "
            f"other\n{'':<16}figures leave them out"
        )
    if level["missing"]:
        lines.append(
            f"  {'missing':<13} {level['missing']} of unknown outcome count as lost and wrong; "
            f"the lower\n{'':<16}ends of both intervals count them as neither"
        )
    return lines


def _figure(level: dict[str, Any], key: str) -> str:
    figure = level[key]
    _, of, nothing = _FIGURES[key]
    if figure["value"] is None:
        return nothing
    ends = "" if figure["low"] is None else f" ({figure['low']:.1%} to {figure['high']:.1%})"
    most = "at most " if key == "saved" and level["undecided"] else ""
    return f"{most}{figure['value']:.1%}{ends} of {figure['of']}{of}"


def _minute(time: str) -> str:
    """An ISO 8601 time in UTC, to the minute."""
    return f"{time[:10]} {time[11:16]} UTC"
