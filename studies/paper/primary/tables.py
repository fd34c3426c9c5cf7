"""The primary comparison's report as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from studies.paper.primary.design import METHODS, REFERENCE, SEEDS
from studies.paper.primary.inference import Crossed
from studies.paper.primary.result import PrimaryResult
from studies.paper.primary.verdicts import (
    RESAMPLES,
    Verdict,
    n_common,
    verdicts,
    whole_seeds,
)

HEAD = (
    "| method | endpoint | difference | 95% interval | p | Holm | verdict | power |",
    "| --- | --- | ---: | ---: | ---: | ---: | --- | ---: |",
)
"""Of the hypotheses: a method's endpoint minus that of the method it is compared with.

Power: the smallest difference that ten seeds find four times in five, or, of a margin, how often
they show that it is kept if there is no difference.
"""


def report_text(
    results: Mapping[str, PrimaryResult], seeds: Sequence[int], number: int = RESAMPLES
) -> str:
    """Seconds, and a line per primary hypothesis; verdicts only once every seed is there."""
    whole = whole_seeds(results, seeds)
    lines = [f"{len(whole)} of {len(seeds)} seeds have all of {', '.join(METHODS)}."]
    if whole:
        lines.append(_seconds([results[f"{name}-{seed}"] for name in METHODS for seed in whole]))
    if len(whole) < 2:
        return "\n".join([*lines, "A comparison needs two seeds or more."])
    is_complete = tuple(whole) == SEEDS
    lines.append(
        f"{n_common(results, whole)} problems are mixed in every run. Differences are to "
        f"{REFERENCE}."
    )
    if not is_complete:
        lines.append("This is no verdict: verdicts need all ten seeds of the design.")
    rows = [verdict_row(one, is_complete) for one in verdicts(results, whole, number=number)]
    return "\n".join([*lines, "", *HEAD, *rows])


def verdict_row(one: Verdict, is_complete: bool) -> str:
    """A line of the table of hypotheses; the verdict only once every seed is there."""
    cells = [
        one.method,
        one.endpoint.name,
        *_of_difference(one.difference),
        f"{one.p:.3g}",
        f"{one.adjusted:.3g}",
        one.text if is_complete else "–",
        _power(one),
    ]
    return f"| {' | '.join(cells)} |"


def _of_difference(found: Crossed | None) -> tuple[str, str]:
    if found is None:
        return "not defined", "–"
    low, high = found.interval()
    return f"{found.mean:+.4g}", f"{low:+.4g} to {high:+.4g}"


def _power(one: Verdict) -> str:
    if one.detectable is None:
        return "–"
    if one.endpoint.margin is not None:
        return f"{one.detectable:.0%} if equal"
    condition = ", if the accuracy is kept" if one.endpoint.keeps_accuracy else ""
    return f"{one.detectable:.3g} at 80%{condition}"


def _seconds(found: Sequence[PrimaryResult]) -> str:
    means = [
        fmean(stage.seconds for stage in stages)
        for stages in zip(*((one.training, one.probe, one.test) for one in found), strict=True)
    ]
    whole = [one.seconds for one in found]
    training, probe, test = (f"{mean:.0f}" for mean in means)
    return (
        f"Seconds of a run: {fmean(whole):.0f} in the mean, {max(whole):.0f} at most; "
        f"training {training}, probe {probe}, test {test}."
    )
