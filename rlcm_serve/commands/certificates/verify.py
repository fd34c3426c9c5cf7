"""`rlcm verify` and `rlcm replay`: a certificate against traces."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer
from rich.console import Console

from rlcm_serve.commands.certificates.fit import order_of
from rlcm_serve.commands.certificates.options import (
    CertificateArgument,
    LossOption,
    OrderOption,
    TracesArgument,
    risk_of,
    say,
    traces_of,
)
from rlcm_serve.commands.evidence import without_record
from rlcm_serve.commands.options import JsonOption
from rlcm_serve.errors import RequestRefused

if TYPE_CHECKING:
    from calibration import Certificate

DIFFERENT = 1
"""Exit status of a verification that found a difference."""


def verify(
    certificate: CertificateArgument,
    traces: Annotated[
        Path | None, typer.Argument(help="Traces: a Parquet file, or a folder of them.")
    ] = None,
    order: OrderOption = None,
    probe: Annotated[
        Path | None,
        typer.Option(help="Folder of the probe, if the certificate was fitted with --probe."),
    ] = None,
    loss: LossOption = None,
    public_key: Annotated[
        list[Path] | None,
        typer.Option(help="Public key (PEM) that must have signed it; with several, one of them."),
    ] = None,
    signature: Annotated[
        Path | None,
        typer.Option(help="Signature file. Default: NAME.dsse.json beside the certificate."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Recompute a certificate from its traces, with independent code, and list differences.

    With --public-key, check its signature too, or alone if no traces are given. Ends with status 1
    if there is a difference, or if the signature is missing or wrong.
    """
    from calibration import Certificate

    if traces is None and not public_key:
        raise typer.BadParameter("give traces, or --public-key to check the signature alone")
    if signature is not None and not public_key:
        raise RequestRefused(
            "signature",
            f"--signature is {signature}, and there is no key to check it with: give --public-key "
            "FILE too, or leave it out",
        )
    if traces is None:
        _refuse_without_traces(order=order, probe=probe, loss=loss)
    loaded = Certificate.load(certificate)
    signer = _signer(loaded, certificate, signature, public_key) if public_key else None
    if not as_json:  # said before the differences, which take long
        _say_facts(loaded, signer)
    found = _Found(None, None)
    if traces is not None:
        found = _recomputed(loaded, traces, order, probe, loss)
    if as_json:
        said = {"certificate": loaded.id, "signed_by": signer, **found._asdict()}
        typer.echo(json.dumps(said, indent=2))
    else:
        _say(loaded, found)
    if found.differences:
        raise typer.Exit(DIFFERENT)


def _refuse_without_traces(**given: object) -> None:
    """Refuses what only says how traces are read."""
    for name, value in given.items():
        if value is not None:
            raise RequestRefused(
                name,
                f"--{name} is {value}, and there are no traces: give them too, or leave it out",
            )


def _say_facts(loaded: Certificate, signer: str | None) -> None:
    if signer is not None:
        say(f"certificate {loaded.id}: signed by key {signer}")
    if facts := _facts(loaded):
        say(f"certificate {loaded.id}: holds for an engine with {facts}")


class _Found(NamedTuple):
    """What recomputing gave, and whether it saw the problems of the order; None without traces."""

    differences: list[str] | None
    sees_order: bool | None


def _recomputed(
    loaded: Certificate, traces: Path, order: Path | None, probe: Path | None, loss: str | None
) -> _Found:
    from calibration.certificate.verify import sees_order
    from calibration.certificate.verify import verify as differences_of

    with Console(stderr=True).status("recomputing"):
        tested = traces_of(loaded, traces, keep_unlabelled=loaded.sequential is not None)
        given = order_of(tested, order, probe)
        differences = differences_of(loaded, tested, order=given, risk=risk_of(loaded, loss))
        return _Found(differences, sees_order(loaded, tested, given))


def _say(loaded: Certificate, found: _Found) -> None:
    for difference in found.differences or ():
        say(f"differs: {difference}")
    if found.differences == []:
        say(f"certificate {loaded.id}: no differences")
    if found.sees_order is False:
        say(
            f"not checked: that the {loaded.n_order_problems} problems which gave the order of the "
            "policies are not among those of the test; give their traces with --order, or the "
            "folder of their probe with --probe"
        )


def _facts(loaded: Certificate) -> str:
    """What vLLM computed with, in one line, with what a difference does; empty if not recorded."""
    from calibration.traces.fingerprint import EFFECTS, Effect

    recorded = loaded.fingerprint.to_json() if loaded.fingerprint else {}
    voids, warns = (
        ", ".join(
            f"{name} {recorded[name]}"
            for name in EFFECTS
            if EFFECTS[name] is effect and name in recorded
        )
        for effect in (Effect.VOIDS, Effect.WARNS)
    )
    if not voids:
        return ""
    return voids + (f" (and {warns}, which change numbers by rounding alone)" if warns else "")


def _signer(
    loaded: Certificate, certificate: Path, signature: Path | None, public_keys: list[Path]
) -> str:
    from rlcm_serve.signing import TrustedKeys, envelope_path, load_envelope

    envelope = load_envelope(signature or envelope_path(certificate))
    return TrustedKeys.load(public_keys).signer_of(loaded, envelope)


def replay(
    certificate: CertificateArgument,
    traces: TracesArgument,
    live: Annotated[
        bool,
        typer.Option(
            "--live", help="TRACES is the folder of records that `rlcm serve --evidence` writes."
        ),
    ] = False,
    as_json: JsonOption = False,
    loss: LossOption = None,
) -> None:
    """Replay a certificate's policies on other traces: realised risk, tokens, exits.

    With --live, replay the readings of live answers: the tokens it would have saved, at most, and
    how often it would have abstained. These say nothing about its risk.
    """
    from calibration import Certificate
    from calibration.certificate.evaluate import replay_certificate

    if live and loss is not None:
        raise RequestRefused(
            "loss", f"--loss is {loss}, and live answers have no labels: leave it out with --live"
        )
    loaded = Certificate.load(certificate)
    if live:
        _replay_live(loaded, traces, as_json)
        return
    levels = replay_certificate(loaded, traces_of(loaded, traces), risk_of(loaded, loss))
    if as_json:
        typer.echo(json.dumps({"levels": [level.to_json() for level in levels]}, indent=2))
        return
    for level in levels:
        say(level.in_words())


def _replay_live(loaded: Certificate, folder: Path, as_json: bool) -> None:
    from rlcm_serve.evidence.live_replay import replay_records

    if not folder.is_dir():
        raise RequestRefused(
            "traces",
            f"there is no folder {folder}: give the folder of records that `rlcm serve --evidence` "
            "writes",
        )
    try:
        found = replay_records(loaded, folder)
    except ValueError as error:
        raise RequestRefused("traces", str(error)) from error
    if not found.others and not any(level.questions for level in found.levels):
        raise without_record("traces", folder)
    if as_json:
        typer.echo(json.dumps(asdict(found), indent=2))
        return
    for level in found.levels:
        say(level.in_words())
    if found.others:
        say(
            f"left out: {found.others} answers of other engines, asked in another way, to "
            "unfamiliar questions, or without a sample"
        )
