"""What the commands around certificates share: options, and how their values are read."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from calibration.errors import CalibrationError

if TYPE_CHECKING:
    from calibration import Certificate, Grid, Risk, Traces
    from calibration.certificate.design import Design

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
    typer.Option(help="Loss of your own, module:function or module:risk (docs/concepts/risks.md)."),
]
AlphaOption = Annotated[
    list[float], typer.Option("--alpha", help="Risk level between 0 and 1; may be repeated.")
]
DeltaOption = Annotated[float, typer.Option(help="Largest probability that the guarantee fails.")]
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
        help="What the risk averages over: problems (a group counts by its size) or groups (each "
        "counts once)."
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
        "questions). With a limit, as in declined=0.4, only policies that are shown to keep it are "
        "served. May be repeated."
    ),
]
AnsweredOption = Annotated[
    float | None,
    typer.Option(
        help="Smallest share of the questions that every served policy must answer; the same as "
        "--bound declined=1-X."
    ),
]
NextOption = Annotated[
    int | None,
    typer.Option(
        "--next", help="Number of next questions. The certificate says how many go wrong at most."
    ),
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
    float,
    typer.Option(
        help="What the tokens of a full budget are worth, in right answers per question: 0.05 "
        "stands for 5 right answers in 100 questions. A larger value stops earlier."
    ),
]

ALPHAS = [0.05, 0.1, 0.2]


def require_alone(asked: str, options: Mapping[str, object]) -> None:
    """Refuses what no sequential certificate can have.

    Args:
        asked: the option that asks for a sequential certificate.
        options: the values of others, by the names in `WHY_ALONE`; those without one are None.
    """
    from calibration.certificate.sequential import WHY_ALONE

    for name, value in options.items():
        if value is not None:
            option = "bound" if name == "bounds" else name
            raise CalibrationError(
                f"--{option} cannot be combined with {asked}: {WHY_ALONE[name]}. Leave out "
                f"--{option}, or leave out {asked} and fix the number of problems beforehand"
            )


def say(line: object) -> None:
    """Prints a line as it is."""
    Console().print(str(line), markup=False, highlight=False, soft_wrap=True)


def warn(line: str) -> None:
    """Prints a warning in one line, where it is no part of the result."""
    Console(stderr=True, style="yellow", soft_wrap=True).print(
        f"warning: {line}", markup=False, highlight=False
    )


def risk_to_fit(name: str, loss: str | None) -> str | Risk:
    """The risk by its name, or the one at `loss`."""
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


def grid_of(
    recorded: Traces, pool: Path | None, smoothing: list[float] | None, method: str
) -> Grid | None:
    """The thresholds to choose from; None for those of the method."""
    if pool is None and not smoothing:
        return None
    from calibration import Grid, read_traces
    from calibration.certificate.certify import names_of
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
    others = read_traces(pool, keep_unlabelled=True)
    if shared := sorted(names_of(others) & names_of(recorded)):
        raise CalibrationError(
            f"{len(shared)} problems or groups of --pool are calibration problems, {shared[0]!r} "
            "among them: take thresholds from other problems than those that test them"
        )
    return Grid.quantiles(others, smoothing=weights)


def traces_of(certificate: Certificate, path: Path, *, keep_unlabelled: bool = False) -> Traces:
    """Traces with the kinds that a certificate distinguishes; see `calibration.read_traces`."""
    from calibration import read_traces

    return read_traces(path, by=certificate.kinds_column, keep_unlabelled=keep_unlabelled)
