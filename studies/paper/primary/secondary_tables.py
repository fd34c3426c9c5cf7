"""The secondary figures as tables, and seconds by method."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

from calibration.metrics.estimates import Estimate
from calibration.report_kit.wording import UNDEFINED, number_in_full, number_interval, signed
from studies.paper.primary.design import (
    COMPARED,
    JOINT,
    LEAST_COMMON,
    METHODS,
    POSTHOC,
    REFERENCE,
    RICHER,
)
from studies.paper.primary.result import PrimaryResult
from studies.paper.primary.secondary import (
    BETTER_LOW,
    FIGURES,
    TRAINED,
    Panel,
    PanelFigures,
    Reading,
)
from studies.paper.report.markdown import table
from training.rl.rewards.methods import METHODS as TRAINING_METHODS

PROBES = {POSTHOC: "post-hoc probe", JOINT: "joint probe", RICHER: "richer probe"}

_OF_PROBES = (
    *((Reading(method, RICHER), Reading(REFERENCE, RICHER)) for method in COMPARED),
    (Reading("rlcm", JOINT), Reading(REFERENCE, POSTHOC)),
    (Reading("rlcm", JOINT), Reading("rlcm", POSTHOC)),
    *((Reading(method, RICHER), Reading(method, POSTHOC)) for method in METHODS),
)
"""Does a method still help a probe that reads more, or one that was trained beside it?"""


def secondary_text(found: Mapping[Panel, PanelFigures]) -> str:
    """Values and differences on every panel by the post-hoc probe; then the other probes."""
    parts = ["### Secondary figures", _NOTE]
    for panel, figures in found.items():
        parts.append(
            f"**{panel.title.capitalize()}**, by the post-hoc probe: {figures.n_problems} "
            f"problems, {figures.n_common} of them mixed in every run."
        )
        parts.append(values_table(figures, [Reading(method, POSTHOC) for method in METHODS]))
        pairs = [(Reading(name, POSTHOC), Reading(REFERENCE, POSTHOC)) for name in COMPARED]
        parts.append(differences_table(figures, pairs))
    own = found[TRAINED]
    others = [reading for reading in own.figure_ST if reading.probe != POSTHOC]
    pairs = [pair for pair in _OF_PROBES if all(reading in own.figure_ST for reading in pair)]
    if others:
        parts += [f"**Other probes**, {TRAINED.title}.", values_table(own, others)]
        parts.append(differences_table(own, pairs))
    return "\n\n".join(parts)


def seconds_text(results: Sequence[PrimaryResult]) -> str:
    """Seconds by method: of each stage in the mean over its runs, and of each run."""
    head = ["method", "runs", "training", "probe", "test", "a run", "each run, by seed"]
    rows = []
    for method in METHODS:
        own = [one for one in results if one.method == method]
        if own:
            stages = ("training", "probe", "test")
            means = [fmean(getattr(one, stage).seconds for one in own) for stage in stages]
            whole = [one.seconds for one in sorted(own, key=lambda one: one.seed)]
            cells = (*means, fmean(whole))
            each = ", ".join(f"{seconds:.0f}" for seconds in whole)
            rows.append([title_of(method), str(len(own)), *(f"{one:,.0f}" for one in cells), each])
    return (
        "Seconds, with whatever else the machine did. Those of the training are of its steps, "
        "without the start. Those of a killed session of probe or test are missing."
        f"\n\n{table(head, rows)}"
    )


def title_of(method: str) -> str:
    """The method's display name."""
    return TRAINING_METHODS[method].title


_NOTE = (
    "Means over seeds with 95% intervals that cover other seeds and other problems. They are not "
    "corrected for their number, and no verdict follows from them. The post-hoc and the richer "
    "probe were made at the test's temperature; the joint one learned at the training's. Exits are "
    "those of the post-hoc probe, certified for the trained kinds as a whole: on a part of them, "
    "and out of domain, no risk is certified. Below "
    f"{LEAST_COMMON} common problems no figure within a question is given."
)


def values_table(figures: PanelFigures, readings: Sequence[Reading]) -> str:
    """A row of figures with intervals for each reading."""
    rows = [
        [_name(reading), *(_value(figures.value(reading, title), title) for title in FIGURES)]
        for reading in readings
    ]
    return table(["", *map(_headed, FIGURES)], rows)


def differences_table(figures: PanelFigures, pairs: Sequence[tuple[Reading, Reading]]) -> str:
    """A row of differences with intervals for each pair, the first reading minus the second."""
    return table(["difference", *map(_headed, FIGURES)], _difference_rows(figures, pairs))


def _difference_rows(
    figures: PanelFigures, pairs: Sequence[tuple[Reading, Reading]]
) -> Iterator[list[str]]:
    for one, other in pairs:
        cells = [_difference(figures.difference(one, other, title), title) for title in FIGURES]
        yield [f"{_name(one)} − {_name(other)}", *cells]


def _headed(title: str) -> str:
    """The title with the direction that is better."""
    return f"{title} {'↓' if title in BETTER_LOW else '↑'}"


def _name(reading: Reading) -> str:
    return f"{title_of(reading.method)}, {PROBES[reading.probe]}"


def _digits(title: str) -> int:
    return 1 if title.startswith("tokens") else 3


def _value(estimate: Estimate, title: str) -> str:
    return number_in_full(estimate, _digits(title))


def _difference(estimate: Estimate, title: str) -> str:
    if estimate.value is None:
        return UNDEFINED
    digits = _digits(title)
    return f"{signed(estimate, digits)} ({number_interval(estimate, digits)})"
