"""`rlcm feedback` and `rlcm audit`: labels for a running service."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from http import HTTPStatus
from pathlib import Path
from typing import IO, Annotated, Any

import typer
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from rlcm_serve.commands.calling.client import (
    JSON_LINES,
    SERVICE,
    TRIES,
    KeyOption,
    ServiceOption,
    ServiceRefused,
    call,
    client_of,
)
from rlcm_serve.commands.options import JsonOption
from rlcm_serve.errors import RequestRefused

AT_ONCE = 1000
"""Labels of one request."""
LARGEST = 2**19
"""Bytes of one request, unless a single label has more."""


def feedback(
    file: Annotated[
        Path,
        typer.Argument(
            help="Labels (JSONL): `id` with `right`, `reference` or `skip`, or - for stdin.",
            exists=True,
            dir_okay=False,
            allow_dash=True,
        ),
    ],
    service: ServiceOption = SERVICE,
    key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Send labels of answers to a running service.

    Lines may repeat what was sent before, so an interrupted file can be sent again. The exit status
    is 1 if a label was not taken: its answer is unknown, or the label is refused.
    """
    total: dict[str, Any] = {}
    with client_of(service, key) as client, _opened(file) as lines:
        for first, part in _parts(lines):
            try:
                said = call(
                    client,
                    "POST",
                    "/feedback",
                    "labelled",
                    tries=TRIES,
                    content=part,
                    headers=JSON_LINES,
                )
            except ServiceRefused as error:
                if error.status != HTTPStatus.UNPROCESSABLE_ENTITY:
                    raise
                raise RequestRefused(
                    error.field, f"{error} (line 1 of the body is line {first} of the file)"
                ) from error
            total = {name: value + total.get(name, type(value)()) for name, value in said.items()}
    if as_json:
        typer.echo(json.dumps(total))
    else:
        _print(total)
    if total.get("unknown") or total.get("refused"):
        raise typer.Exit(1)


def _print(total: dict[str, Any]) -> None:
    console = Console(markup=False, highlight=False, soft_wrap=True)
    for refused in total.get("refused", []):
        console.print(f"{refused['id']}: refused: {refused['why']}")
    for unknown in total.get("unknown", []):
        console.print(f"{unknown}: no answer that this caller may label")
    console.print(
        f"{total.get('labelled', 0)} answers labelled, {total.get('audited', 0)} of them in the "
        f"test; {total.get('corrected', 0)} corrected, {total.get('unchanged', 0)} unchanged, "
        f"{total.get('skipped', 0)} skipped, {len(total.get('unknown', []))} unknown, "
        f"{len(total.get('refused', []))} refused"
    )


def audit(
    limit: Annotated[int, typer.Option(min=0, max=1000, help="Most answers to list.")] = 100,
    service: ServiceOption = SERVICE,
    key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """List answers of a running service that wait for a label, the oldest first."""
    with client_of(service, key) as client:
        said = call(client, "GET", "/audit", "answers", params={"limit": limit})
    if as_json:
        typer.echo(json.dumps(said))
        return
    console = Console()
    if said["answers"]:
        console.print(waiting_table(said["answers"]))
    waiting = said["waiting"]
    counted = "1 answer waits" if waiting == 1 else f"{waiting} answers wait"
    console.print(f"{counted} for a label", highlight=False)
    if any(one["question"] is None for one in said["answers"]):
        console.print(
            "Texts are not kept: start the service with --audit-texts to see questions and answers",
            highlight=False,
            soft_wrap=True,
        )


def waiting_table(answers: list[dict[str, Any]]) -> Table:
    """Answers of `GET /audit`, one below the other, so that no id is broken at 80 columns."""
    table = Table(
        Column(no_wrap=True), Column(overflow="fold"), box=None, pad_edge=False, show_header=False
    )
    for one in answers:
        level = "" if one["alpha"] is None else f", alpha {one['alpha']:g}"
        rows = {
            "id": one["id"],
            "due": one["due"][:16].replace("T", " ") + level,
            "question": one["question"],
            "answer": _none(one) if one.get("abstained") else one["answer"],
            "full budget": one.get("full_budget_answer") or _full_budget(one),
        }
        for title, value in rows.items():
            if value:
                table.add_row(title, Text(value))
        table.add_row()
    return table


def _none(one: dict[str, Any]) -> str:
    """What to send where there is no answer."""
    tells = one.get("full_budget_differs") and not one["question"]
    return f"none: send {'full_budget_right' if tells else 'the reference'}"


def _full_budget(one: dict[str, Any]) -> str | None:
    """What is known of the full budget's answer, where its text is not."""
    differs = one.get("full_budget_differs")
    if differs is None:
        return None
    return "another answer; under regret also send full_budget_right" if differs else "the same"


def _opened(file: Path) -> AbstractContextManager[IO[bytes]]:
    return nullcontext(sys.stdin.buffer) if str(file) == "-" else file.open("rb")


def _parts(lines: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """The lines, joined to bodies of requests; each with the number of its first line.

    Blank lines within a body stay, so that the service counts lines as the file does.
    """
    part: list[bytes] = []
    size = labels = 0
    for number, line in enumerate(lines, start=1):
        is_label = bool(line.strip())
        if not part and not is_label:
            continue
        if part and (labels == AT_ONCE or size + len(line) > LARGEST):
            yield number - len(part), b"".join(part)
            part, size, labels = [], 0, 0
        part.append(line.strip() + b"\n")
        size += len(line)
        labels += is_label
    if part:
        yield number - len(part) + 1, b"".join(part)
