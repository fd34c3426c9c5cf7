"""`rlcm recalibrate`: a fresh certificate in place of one whose guarantee was withdrawn."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

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

if TYPE_CHECKING:
    import httpx

_ENDED = ("done", "failed", "cancelled")
_LOOK_EVERY = 1.0
OUTAGE = 120.0
"""Seconds for which the service may be out of reach, as at a restart, while its job runs on."""
_OUT_OF_REACH = 502
"""Lowest HTTP status with which a proxy says that it does not reach the service."""


def recalibrate(
    certificate: Annotated[str, typer.Argument(help="Id of the certificate to replace.")],
    data: Annotated[
        Path | None,
        typer.Option(
            help="JSONL of labelled problems drawn after the alarm. Default: the audited questions "
            "since then whose reference answer the service has.",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
    wait: Annotated[bool, typer.Option(help="Wait for the job to end.")] = True,
    service: ServiceOption = SERVICE,
    key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Fit a fresh certificate after a risk alarm, and activate it.

    The service records the problems anew at the full budget, and fits with the settings of the
    withdrawn certificate, at a smaller delta each time. Interrupting this command does not
    interrupt the job.
    """
    console = Console(stderr=True)
    with client_of(service, key) as client:
        content: dict[str, Any] = (
            {} if data is None else {"content": data.read_bytes(), "headers": JSON_LINES}
        )
        replaced = {"replace": certificate}
        job = call(client, "POST", "/calibrations", "state", params=replaced, **content)
        console.print(f"job {job['id']}", highlight=False)
        shown = set[tuple[str, str]]()
        while wait and job["state"] not in _ENDED:
            time.sleep(_LOOK_EVERY)
            job = _look(client, job["id"])
            for line in job["log"]:  # the latest ones
                if (told := (line["time"], line["text"])) not in shown:
                    console.print(told[1], markup=False, highlight=False, soft_wrap=True)
                    shown.add(told)
    _report(job, as_json)
    if job["state"] in ("failed", "cancelled"):
        raise typer.Exit(1)


def _look(client: httpx.Client, id_: str) -> Any:
    """The job as it is now.

    Raises:
        RequestRefused: the service refuses to say, or is out of reach for `OUTAGE` seconds.
    """
    until = time.monotonic() + OUTAGE
    while True:
        try:
            return call(client, "GET", f"/calibrations/{id_}", "state", tries=TRIES)
        except RequestRefused as error:
            is_refused = isinstance(error, ServiceRefused) and error.status < _OUT_OF_REACH
            if is_refused or time.monotonic() > until:
                raise
        time.sleep(_LOOK_EVERY)


def _report(job: dict[str, Any], as_json: bool) -> None:
    if as_json:
        Console().print_json(data=job)
        return
    made = (
        f"certificate {job['certificate']}"
        if job["certificate"]
        else job["error"] or "no result yet"
    )
    Console().print(
        f"job {job['id']} is {job['state']}: {made}", markup=False, highlight=False, soft_wrap=True
    )
