"""`rlcm fit`: certificates from traces."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import date
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from rlcm_serve.commands.certificates.described import describe, to_json
from rlcm_serve.commands.certificates.options import (
    ALPHAS,
    AlphaOption,
    AnsweredOption,
    AverageOption,
    BoundOption,
    ByOption,
    DeltaOption,
    DrawsOption,
    LossOption,
    MaxGroupSizeOption,
    MethodOption,
    NextOption,
    OrderOption,
    ProbeOption,
    PromiseOption,
    RiskOption,
    SamplesOption,
    TokenPriceOption,
    TracesArgument,
    VoteOption,
    grid_of,
    require_alone,
    risk_to_fit,
    warn,
)
from rlcm_serve.commands.options import JsonOption, require_other
from rlcm_serve.errors import CertificateMismatch, RequestRefused

if TYPE_CHECKING:
    from calibration import Certificate, Traces

NOTHING_CERTIFIED = 3
"""Exit status of a fit that certified no level; the certificate is written nonetheless."""
LONGEST_KIND = 40
"""Characters of a kind in a file's name."""


def fit(
    traces: TracesArgument,
    out: Annotated[Path, typer.Option(help="File for the certificate.")],
    profile: Annotated[
        Path | None,
        typer.Option(help="Prompt profile. The traces must have been recorded under it."),
    ] = None,
    risk: RiskOption = "selective",
    loss: LossOption = None,
    alpha: AlphaOption = ALPHAS,
    delta: DeltaOption = 0.1,
    promise: PromiseOption = "simultaneous",
    n: SamplesOption = 1,
    vote: VoteOption = "confidence",
    draws: DrawsOption = None,
    method: MethodOption = "auto",
    p_value: Annotated[
        str,
        typer.Option(help="Statistical test: auto, binomial, betting, hoeffding-bentkus or clt."),
    ] = "auto",
    order: OrderOption = None,
    probe: ProbeOption = None,
    pool: Annotated[
        Path | None,
        typer.Option(
            help="Traces of other problems, whose confidences are the candidate thresholds. For "
            "--method split, holm or bonferroni."
        ),
    ] = None,
    smoothing: Annotated[
        list[float] | None,
        typer.Option(
            help="Weight of earlier readings in the smoothed confidence; may be repeated."
        ),
    ] = None,
    token_price: TokenPriceOption = 0.05,
    average: AverageOption = "problems",
    max_group_size: MaxGroupSizeOption = None,
    by: ByOption = None,
    sequential: Annotated[
        bool,
        typer.Option(
            "--sequential",
            help="A certificate to which `rlcm extend` may add problems later. With labels of a "
            "share of the problems, start with `rlcm plan --design FILE --label-share S` instead.",
        ),
    ] = False,
    bound: BoundOption = None,
    answered_at_least: AnsweredOption = None,
    next_questions: NextOption = None,
    as_json: JsonOption = False,
) -> None:
    """Fit exit thresholds for each risk level and write a certificate.

    With --by, the certificate for questions of all kinds is in --out, and those of single kinds
    are beside it. Ends with status 3 if no level is certified; the certificate says why.
    """
    from calibration import read_traces
    from calibration.testing.joint import parse_bounds

    require_other(out, traces, order, pool)
    recorded = read_traces(traces, by=by or "kind")
    if by is not None:
        _require_free(out, {kind for kind in recorded.kinds or () if kind is not None})
    if profile is not None:
        _require_profile(recorded, profile)
    own_options = {
        "p_value": p_value,
        "bounds": parse_bounds(bound or [], answered_at_least),
        "next_questions": next_questions,
    }
    asked: dict[str, Any] = {
        "risk": risk_to_fit(risk, loss),
        "alphas": alpha,
        "delta": delta,
        "promise": promise,
        "samples": n,
        "vote": vote,
        "draws": draws,
        "method": method,
        "order": order_of(recorded, order, probe),
        "grid": grid_of(recorded, pool, smoothing, method),
        "token_price": token_price,
        "average": average,
        "max_group_size": max_group_size,
        "created": date.today().isoformat(),
    }
    with _shown(by) as shown:
        fitted = _fitting(by, sequential, own_options)(recorded, **asked, **shown)
    certificates = fitted if isinstance(fitted, list) else [fitted]
    write_certificates(certificates, _files(certificates, out), as_json=as_json)


@contextmanager
def _shown(by: str | None) -> Iterator[dict[str, Any]]:
    """Shows that a fit goes on, and how many kinds are done; the option that counts them."""
    from rlcm_serve.terminal import shown_progress

    console = Console(stderr=True)
    if by is None:
        with console.status("fitting"):
            yield {}
    else:
        with shown_progress(console, "fitting kinds") as progress:
            yield {"on_progress": progress}


def _fitting(by: str | None, sequential: bool, options: Mapping[str, Any]) -> Callable[..., Any]:
    """The function that fits, with the options that only some have."""
    from calibration import certify, certify_kinds
    from calibration.certificate.sequential import begin_sequential

    if not sequential:
        return (
            partial(certify, **options) if by is None else partial(certify_kinds, by=by, **options)
        )
    others = {
        "p-value": options["p_value"] if options["p_value"] != "auto" else None,
        "by": by,
        "bounds": options["bounds"] or None,
        "next": options["next_questions"],
    }
    require_alone("--sequential", others)
    return begin_sequential


def write_certificates(
    certificates: list[Certificate], files: list[Path], *, as_json: bool = False
) -> None:
    """Writes certificates and says what they certify.

    Raises:
        Exit: with status 3 if that is nothing.
    """
    for certificate, file in zip(certificates, files, strict=True):
        certificate.save(file)
    if as_json:
        found = [to_json(one, file) for one, file in zip(certificates, files, strict=True)]
        typer.echo(json.dumps({"certificates": found}, indent=2))
    else:
        for certificate, file in zip(certificates, files, strict=True):
            describe(certificate, file)
    if not any(level.certified for one in certificates for level in one.levels):
        raise typer.Exit(NOTHING_CERTIFIED)


def _files(certificates: list[Certificate], out: Path) -> list[Path]:
    """`out`, and beside it a file for each single kind, with the kind in its name."""
    return [out if one.about is None else _file_of(one.about, out) for one in certificates]


def _file_of(kind: str, out: Path) -> Path:
    return out.with_name(f"{out.stem}-{_file_name(kind)}{out.suffix}")


def _require_free(out: Path, kinds: Iterable[str]) -> None:
    """Returns if the certificates of kinds replace nothing but earlier ones of the same kinds.

    Raises:
        RequestRefused: one would replace another file.
    """
    from calibration import Certificate
    from calibration.errors import CertificateError

    for kind in sorted(kinds):
        file = _file_of(kind, out)
        if not file.exists():
            continue
        try:
            about = Certificate.load(file).about
        except (CertificateError, OSError):
            about = None
        if about != kind:
            raise RequestRefused(
                "out",
                f"the certificate of kind {kind!r} would replace {file}, which is no certificate "
                "of this kind: give --out another name",
            )


def _file_name(kind: str) -> str:
    """A kind as a part of a file's name; a short digest replaces what not every system allows."""
    plain = re.sub(r"[^\w.-]+", "-", kind, flags=re.ASCII)[:LONGEST_KIND]
    if plain == kind:
        return kind
    return f"{plain}-{hashlib.sha256(kind.encode()).hexdigest()[:6]}"


def order_of(recorded: Traces, order: Path | None, probe: Path | None) -> Traces | None:
    """The traces to learn from: of the file, or else what the probe left; None without either.

    Raises:
        RequestRefused, ModelRefused: as `_validation_of`, also if there is a file.
    """
    from calibration import read_traces

    validation = _validation_of(recorded, probe)
    return read_traces(order) if order else validation


def _validation_of(recorded: Traces, probe: Path | None) -> Traces | None:
    """What a probe read on its validation problems; None if it left nothing, with a warning.

    Raises:
        RequestRefused, ModelRefused: there is no such probe, or it was trained on the problems.
    """
    from calibration.traces.probe_readings import read_validation
    from rlcm_serve.recording.trained import require_probe, require_untrained_ids

    if probe is None:
        return None
    if warning := require_probe(probe):
        warn(warning)
    require_untrained_ids(recorded.problem_ids, probe)
    if recorded.fingerprint is None:
        return None
    return read_validation(probe, recorded.fingerprint)


def _require_profile(traces: Traces, file: Path) -> None:
    from rlcm_serve.profiles.profile_file import load_profile
    from rlcm_serve.solving.fingerprints import require_profile

    profile = load_profile(file)
    if traces.fingerprint is None:
        raise CertificateMismatch(
            f"the traces have no fingerprint, so they may be of any profile: leave "
            f"--profile {file} out, or record with `rlcm collect --profile`"
        )
    require_profile(traces.fingerprint, profile)
