"""The commands around certificates: fit, verify, replay, plan, report, report-data.

None starts an engine.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import re
from collections.abc import Callable, Mapping
from datetime import date
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperGroup

from calibration.errors import CalibrationError
from rlcm_serve.commands.options import JsonOption

if TYPE_CHECKING:
    from calibration import Certificate, Grid, Kind, Level, Plan, Risk, Traces
    from calibration.certificate.design import Design
    from calibration.certificate.plan import Until

NOTHING_CERTIFIED = 3
"""Exit status of a fit that certified no level; the certificate is written nonetheless."""
MANY = 1000
"""Units that a design expects if the forecast does not say how many are enough."""
DIFFERENT = 1
"""Exit status of a verification that found a difference."""

TracesArgument = Annotated[
    Path, typer.Argument(help="Traces: a Parquet file, or a folder of them.")
]
CertificateArgument = Annotated[
    Path, typer.Argument(help="Certificate file, written by `rlcm fit`.")
]
RiskOption = Annotated[
    str, typer.Option(help="What alpha limits: selective, error, regret, or a name for --loss.")
]
LossOption = Annotated[
    str | None,
    typer.Option(
        help="Loss of your own, module:function or module:risk (docs/concepts/guarantee.md)."
    ),
]
AlphaOption = Annotated[
    list[float], typer.Option("--alpha", help="Risk level between 0 and 1; may be repeated.")
]
DeltaOption = Annotated[float, typer.Option(help="Probability that the guarantee fails.")]
PromiseOption = Annotated[
    str,
    typer.Option(
        help="simultaneous: all levels hold at once; pointwise: one level chosen in advance."
    ),
]
SamplesOption = Annotated[
    int, typer.Option("--n", "-n", min=1, help="Number of samples per question.")
]
VoteOption = Annotated[str, typer.Option(help="How samples are merged: confidence or majority.")]
DrawsOption = Annotated[int | None, typer.Option(help="Simulated draws of n samples per problem.")]
MethodOption = Annotated[
    str,
    typer.Option(
        help="How policies are tested: auto, fixed-sequence, chains, rescaled-chains, split, "
        "holm or bonferroni."
    ),
]
AverageOption = Annotated[
    str,
    typer.Option(
        help="What counts the same in the risk: problems, so that a group counts by its size; or "
        "groups."
    ),
]
MaxGroupSizeOption = Annotated[
    int | None,
    typer.Option(
        help="Most problems that a group can have, decided before labels are seen. Required if "
        "groups differ in size and problems count the same."
    ),
]
ByOption = Annotated[
    str | None,
    typer.Option(
        help="Column of the traces that holds the kinds of the questions, such as topics. Each "
        "kind with enough labels gets a certificate of its own, all under one delta."
    ),
]
BoundOption = Annotated[
    list[str] | None,
    typer.Option(
        help="Another risk to bound under the same delta: declined, wrong or lost (shares of all "
        "questions). With a limit, as in declined=0.4, no policy is served that may exceed it. May "
        "be repeated."
    ),
]
AnsweredOption = Annotated[
    float | None,
    typer.Option(help="Share of the questions that every policy served must answer: declined=1-X."),
]
NextOption = Annotated[
    int | None,
    typer.Option("--next", help="Say how many of so many next questions go wrong at most."),
]
TestOption = Annotated[
    Path | None,
    typer.Option(help="Traces of problems that had no part in the fit, for unbiased figures."),
]
OrderOption = Annotated[
    Path | None,
    typer.Option(help="Traces of other problems, which order the policies before testing."),
]
ProbeOption = Annotated[
    Path | None,
    typer.Option(
        help="Folder of the probe. What it read on its validation problems then sets the scale, "
        "which costs no label of the traces."
    ),
]
TokenPriceOption = Annotated[
    float, typer.Option(help="Share of right answers that a full budget of tokens is worth.")
]

ALPHAS = [0.05, 0.1, 0.2]


def fit(
    traces: TracesArgument,
    out: Annotated[Path, typer.Option(help="File for the certificate.")],
    profile: Annotated[
        Path | None,
        typer.Option(help="Prompt profile that the traces must have been recorded under."),
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
            "--sequential", help="A certificate to which `rlcm extend` may add problems later."
        ),
    ] = False,
    bound: BoundOption = None,
    answered_at_least: AnsweredOption = None,
    next_questions: NextOption = None,
) -> None:
    """Fit exit thresholds for each risk level and write a certificate.

    With --by, the certificate for questions of all kinds is in --out, and those of single kinds
    are beside it. Ends with status 3 if no level is certified; the certificate says why.
    """
    from calibration import read_traces

    recorded = read_traces(traces, by=by or "kind")
    if profile is not None:
        _require_profile(recorded, profile)
    own_options = {
        "p_value": p_value,
        "bounds": _bounds(bound or [], answered_at_least),
        "next_questions": next_questions,
    }
    fitted = _fitting(by, sequential, own_options)(
        recorded,
        risk=_risk(risk, loss),
        alphas=alpha,
        delta=delta,
        promise=promise,
        samples=n,
        vote=vote,
        draws=draws,
        method=method,
        order=read_traces(order) if order else validation_of(recorded, probe),
        grid=_grid(recorded, pool, smoothing, method),
        token_price=token_price,
        average=average,
        max_group_size=max_group_size,
        created=date.today().isoformat(),
    )
    certificates = fitted if isinstance(fitted, list) else [fitted]
    write_certificates(certificates, _files(certificates, out))


def _fitting(by: str | None, sequential: bool, options: Mapping[str, Any]) -> Callable[..., Any]:
    """The function that fits, with the options that only some have."""
    from calibration import certify, certify_kinds
    from calibration.certificate.sequential import begin_sequential

    if not sequential:
        return (
            partial(certify, **options) if by is None else partial(certify_kinds, by=by, **options)
        )
    given = {"p-value": options["p_value"] != "auto", "by": by is not None}
    given |= {"bound": bool(options["bounds"]), "next": options["next_questions"] is not None}
    for option, is_given in given.items():
        if is_given:
            raise CalibrationError(
                f"--sequential has a test of its own, of one risk over all kinds: leave out "
                f"--{option}, or --sequential"
            )
    return begin_sequential


def write_certificates(certificates: list[Certificate], files: list[Path]) -> None:
    """Writes certificates and says what they certify.

    Raises:
        Exit: with status 3 if that is nothing.
    """
    for certificate, file in zip(certificates, files, strict=True):
        certificate.save(file)
        _describe(certificate, file)
    if not any(level.certified for one in certificates for level in one.levels):
        raise typer.Exit(NOTHING_CERTIFIED)


def _bounds(given: list[str], answered_at_least: float | None) -> dict[str, float | None]:
    """The risks to bound beside the levels, with their limits."""
    if answered_at_least is not None:
        given = [*given, f"declined={1 - answered_at_least:.12g}"]
    found: dict[str, float | None] = {}
    for one in given:
        name, limited, most = one.partition("=")
        if name in found:
            raise CalibrationError(f"{name} is bounded twice: give one bound on it")
        try:
            found[name] = float(most) if limited else None
        except ValueError as error:
            raise CalibrationError(
                f"--bound is {one!r}: give a risk, or a risk and a share as in declined=0.4"
            ) from error
    return found


def _files(certificates: list[Certificate], out: Path) -> list[Path]:
    """`out`, and beside it a file for each single kind, with the kind in its name."""
    names = [
        _file_name(one.kind.name) if one.kind and one.kind.name else "" for one in certificates
    ]
    return [out.with_name(f"{out.stem}-{name}{out.suffix}") if name else out for name in names]


def _file_name(kind: str) -> str:
    """A kind as a part of a file's name; a short digest replaces what not every system allows."""
    plain = re.sub(r"[^\w.-]+", "-", kind, flags=re.ASCII)
    if plain == kind:
        return kind
    return f"{plain[:40]}-{hashlib.sha256(kind.encode()).hexdigest()[:6]}"


def validation_of(recorded: Traces, probe: Path | None) -> Traces | None:
    """What a probe read on its validation problems; None if it left nothing."""
    from calibration.traces.probe_readings import read_validation
    from rlcm_serve.recording.trained import require_untrained_ids

    if probe is not None:
        require_untrained_ids(recorded.problem_ids, probe)
    if probe is None or recorded.fingerprint is None:
        return None
    return read_validation(probe, recorded.fingerprint)


def _require_profile(traces: Traces, file: Path) -> None:
    from rlcm_serve.errors import CertificateMismatch
    from rlcm_serve.profiles.profile_file import load_profile
    from rlcm_serve.solving.fingerprints import require_profile

    profile = load_profile(file)
    if traces.fingerprint is None:
        raise CertificateMismatch(
            f"the traces have no fingerprint, so they may be of any profile: leave "
            f"--profile {file} out, or record with `rlcm collect --profile`"
        )
    require_profile(traces.fingerprint, profile)


def _say(line: object) -> None:
    """Prints a line as it is."""
    Console().print(str(line), markup=False, highlight=False, soft_wrap=True)


def _describe(certificate: Certificate, out: Path) -> None:
    if certificate.kind is not None:
        _say(_what_kind(certificate.kind, certificate.n_problems))
    for level in certificate.levels:
        _say(_in_words(certificate, level))
    if certificate.sequential is not None:
        number = len(certificate.sequential.batches)
        _say(f"batch {number} under the design {certificate.sequential.design}")
    for line in _jointly(certificate):
        _say(line)
    if not certificate.servable:
        _say("not servable: the traces have no fingerprint")
    _say(f"certificate {certificate.id} is in {out}")


def _jointly(certificate: Certificate) -> list[str]:
    """What holds jointly with each certified level, in lines of text."""
    joint = certificate.joint
    if joint is None:
        return []
    lines = []
    for number, level in enumerate(certificate.levels):
        if level.certified:
            said = [f"{one.risk} at most {one.bounds[number]:.3g}" for one in joint.bounds]
            if joint.next is not None:
                said.append(f"of the next {joint.next.questions} at most {joint.next.most[number]}")
            lines.append(f"alpha {level.alpha:g}, at once: {'; '.join(said)}")
    return lines


def _what_kind(kind: Kind, n_problems: int) -> str:
    """Which questions a certificate is for, and on how many it was tested."""
    from calibration.certificate.kinds import named

    on = f"{n_problems} problems"
    if kind.name is not None:
        return f"{kind.by} {kind.name!r}, on {on}:"
    few = f"; too few labels for certificates of {named(kind.pooled)}" if kind.pooled else ""
    return f"all kinds, on {on}{few}:"


def _in_words(certificate: Certificate, level: Level) -> str:
    """One level of a certificate in one line."""
    from calibration import CertifiedLevel

    if not isinstance(level, CertifiedLevel):
        return f"alpha {level.alpha:g}: not certified. {level.reason}"
    saved = 1 - level.expected_tokens / level.full_budget_tokens
    answered = (
        f"{level.share_answered:.0%} of the questions are answered, "
        if certificate.risk == "selective"
        else ""
    )
    smaller = [
        other.alpha
        for other in certificate.levels
        if isinstance(other, CertifiedLevel)
        and other.alpha < level.alpha
        and other.policy == level.policy
    ]
    same = f"; the same policy as at alpha {smaller[0]:g}" if smaller else ""
    return (
        f"alpha {level.alpha:g}: certified. On the calibration problems the {certificate.risk} "
        f"risk is {level.risk:.3f}, {answered}{saved:.0%} of the tokens are saved{same}"
    )


def _risk(name: str, loss: str | None) -> str | Risk:
    if loss is None:
        return name
    return _own_risk(loss, None if name == "selective" else name)


def risk_of(certificate: Certificate | Design, loss: str | None) -> Risk | None:
    """The risk to give along with a certificate or design; None if it is a built-in one."""
    from calibration.simulation.risks import RISKS

    if loss is None:
        return None
    if certificate.risk in RISKS:
        raise CalibrationError(
            f"{certificate.id} bounds the built-in risk {certificate.risk!r}: leave out --loss"
        )
    return _own_risk(loss, certificate.risk)


def _own_risk(loss: str, name: str | None) -> Risk:
    """The risk at module:name, or that of the function there, called `name` or as the function."""
    from calibration import Risk

    module, _, attribute = loss.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        raise CalibrationError(
            f"--loss is {loss!r} ({error}): give module:function of something importable, for "
            "example my_losses:tokens_and_errors with PYTHONPATH=."
        ) from error
    if isinstance(found, Risk):
        return found
    if not callable(found):
        raise CalibrationError(f"--loss is {loss!r}, {found!r}: give a function or a Risk")
    return Risk.custom(name or attribute, found)


GRID_METHODS = ("split", "holm", "bonferroni")
"""Those that choose among thresholds; the others have their own."""


def _grid(
    recorded: Traces, pool: Path | None, smoothing: list[float] | None, method: str
) -> Grid | None:
    if pool is None and not smoothing:
        return None
    from calibration import Grid, read_traces
    from calibration.testing.families import interval_of

    weights = smoothing or [0.0]
    if pool is None:
        budget = recorded.fingerprint.max_tokens if recorded.fingerprint else None
        return Grid.absolute(interval_of(recorded), budget, smoothing=weights)
    if method not in GRID_METHODS:
        raise CalibrationError(
            f"--pool gives thresholds to choose from, and the method {method!r} has its own: "
            f"give --method {', '.join(GRID_METHODS)}, or leave out --pool"
        )
    others = read_traces(pool)
    if shared := sorted({*others.units} & {*recorded.units}):
        raise CalibrationError(
            f"{len(shared)} problems or groups of --pool are calibration problems, {shared[0]!r} "
            "among them: take thresholds from other problems than those that test them"
        )
    return Grid.quantiles(others, smoothing=weights)


def verify(
    certificate: CertificateArgument,
    traces: Annotated[
        Path | None, typer.Argument(help="Traces: a Parquet file, or a folder of them.")
    ] = None,
    order: OrderOption = None,
    loss: LossOption = None,
    public_key: Annotated[
        list[Path] | None,
        typer.Option(help="Public key (PEM) that must have signed it; with several, one of them."),
    ] = None,
    signature: Annotated[
        Path | None,
        typer.Option(help="Signature file. Default: NAME.dsse.json beside the certificate."),
    ] = None,
) -> None:
    """Recompute a certificate from its traces, with independent code, and list differences.

    With --public-key, check its signature too, or alone if no traces are given. Ends with status 1
    if there is a difference, or if the signature is missing or wrong.
    """
    from calibration import Certificate

    if traces is None and not public_key:
        raise typer.BadParameter("give traces, or --public-key to check the signature alone")
    loaded = Certificate.load(certificate)
    if public_key:
        signer = _signer(loaded, certificate, signature, public_key)
        _say(f"certificate {loaded.id}: signed by key {signer}")
    if facts := _facts(loaded):
        _say(f"certificate {loaded.id}: holds for an engine with {facts}")
    if traces is not None and _print_differences(loaded, traces, order, loss):
        raise typer.Exit(DIFFERENT)


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


def _print_differences(
    loaded: Certificate, traces: Path, order: Path | None, loss: str | None
) -> bool:
    """Whether there are any."""
    from calibration import read_traces
    from calibration.certificate.verify import verify as differences_of

    differences = differences_of(
        loaded,
        _traces_of(loaded, traces),
        order=read_traces(order) if order else None,
        risk=risk_of(loaded, loss),
    )
    for difference in differences:
        _say(f"differs: {difference}")
    if not differences:
        _say(f"certificate {loaded.id}: no differences")
    return bool(differences)


def _traces_of(certificate: Certificate, path: Path) -> Traces:
    """Traces with the kinds that a certificate distinguishes."""
    from calibration import read_traces

    return read_traces(path, by=certificate.kinds_column)


def replay(
    certificate: CertificateArgument,
    traces: TracesArgument,
    as_json: JsonOption = False,
    loss: LossOption = None,
) -> None:
    """Replay a certificate's policies on other traces: realised risk, tokens, exits."""
    from calibration import Certificate
    from calibration.certificate.evaluate import replay_certificate

    loaded = Certificate.load(certificate)
    levels = replay_certificate(loaded, _traces_of(loaded, traces), risk_of(loaded, loss))
    if as_json:
        typer.echo(json.dumps({"levels": [level.to_json() for level in levels]}, indent=2))
        return
    for level in levels:
        _say(level.in_words())


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
        "risk": _risk(risk, loss),
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
        _say(f"the design is in {design}; start with `rlcm extend {design} TRACES --order {pilot}`")


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
        _say(f"alpha {alpha:g}: {said}; {floor}; {_until(found.sequential[alpha])}")
    _say(
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


class _OrOfACertificate(TyperGroup):
    """Its arguments go to `certificate`, unless the first one names a command or asks for help."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # versions of typer differ in ctx
        """Of `rlcm report ...`."""
        if not args or args[0] not in {*self.commands, *ctx.help_option_names}:
            args = ["certificate", *args]
        return super().parse_args(ctx, args)


def report_group() -> typer.Typer:
    """`rlcm report`, to which other packages may add pages of theirs."""
    group = typer.Typer(
        name="report",
        cls=_OrOfACertificate,
        help="Write a report page with figures.\n\n"
        "Example: rlcm report certificate.json traces.parquet --out report",
    )
    group.command("certificate")(report)
    return group


def report(
    certificate: CertificateArgument,
    traces: TracesArgument,
    out: Annotated[Path, typer.Option(help="Folder for the page and its figures.")],
    test: TestOption = None,
    loss: LossOption = None,
) -> None:
    """Write the report of a certificate. The word `certificate` may be left out."""
    from calibration import Certificate
    from calibration.report import write_report

    loaded = Certificate.load(certificate)
    recorded, unseen = _traces_of(loaded, traces), _traces_of(loaded, test) if test else None
    _say(write_report(loaded, recorded, out, test=unseen, risk=risk_of(loaded, loss)))


def report_data(
    certificate: CertificateArgument,
    traces: TracesArgument,
    out: Annotated[
        Path | None,
        typer.Option(help="File to write. Default: in reports/ next to the certificate."),
    ] = None,
    test: TestOption = None,
    loss: LossOption = None,
) -> None:
    """Write the report data of a certificate as JSON, for the service and its page."""
    from calibration import Certificate
    from calibration.certificate.report_data import report_data_path
    from calibration.report.build_data import build_report_data

    loaded = Certificate.load(certificate)
    recorded, unseen = _traces_of(loaded, traces), _traces_of(loaded, test) if test else None
    written = out or report_data_path(certificate)
    build_report_data(loaded, recorded, unseen, risk_of(loaded, loss)).save(written)
    _say(written)
