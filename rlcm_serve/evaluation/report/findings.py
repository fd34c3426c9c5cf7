"""The result of each section in one line, which is seen while the section is folded."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from calibration.metrics.estimates import Estimate
from rlcm_serve.evaluation.measuring.measures import (
    BenchmarkMeasures,
    Controlled,
    RunMeasures,
    SourceMeasures,
)
from rlcm_serve.evaluation.report.style import is_probability
from rlcm_serve.evaluation.report.words import words


def confidence(run: RunMeasures) -> str:
    """The sources with the lowest ECE and the highest AUROC."""
    benchmark = _first(run, lambda each: bool(each.sources))
    if benchmark is None:
        return words("finding_nothing")
    return words(
        "finding_confidence",
        of=_of(run, benchmark),
        sources=benchmark.sources,
        calibrated=_best(
            [one for one in benchmark.sources if is_probability(one.source)], "ece", lower=True
        ),
        ranking=_best(benchmark.sources, "auroc", lower=False),
    )


def budgets(run: RunMeasures) -> str:
    """The share right at the smallest and at the largest budget."""
    benchmark = _first(run, lambda each: len(each.budgets) > 1)
    if benchmark is None:
        return words("finding_nothing")
    first, last = benchmark.budgets[0], benchmark.budgets[-1]
    return words("finding_on_the_way", of=_of(run, benchmark), first=first, last=last)


def risk(run: RunMeasures) -> str:
    """How many tested targets were kept on problems that had no part in the fit."""
    benchmark = _first(run, lambda each: bool(each.controlled))
    if benchmark is None:
        return words("finding_nothing")
    measured = [found for found in benchmark.controlled if found.measured_risk.value is not None]
    kept = sum((found.measured_risk.value or 0.0) <= found.alpha for found in measured)
    return words(
        "finding_risk",
        of=_of(run, benchmark),
        measured=measured,
        kept=kept,
        shown=_shown(run, measured),
    )


def voting(run: RunMeasures) -> str:
    """The majority of all rollouts, and what weights add to it."""
    benchmark = _first(
        run, lambda each: any(max(found.votes.n, default=0) > 1 for found in each.sources)
    )
    if benchmark is None:
        return words("finding_nothing")
    found = benchmark.by_source(run.source) or benchmark.sources[0]
    gain = found.votes.gain[-1] if found.votes.gain else Estimate(None)
    return words("finding_voting", of=_of(run, benchmark), found=found, gain=gain)


def doubt(run: RunMeasures) -> str:
    """Markers per rollout, by category."""
    benchmark = _first(run, lambda each: bool(each.categories))
    if benchmark is None:
        return words("finding_nothing")
    return words("finding_doubt", of=_of(run, benchmark), categories=benchmark.categories)


def _first(run: RunMeasures, has: Callable[[BenchmarkMeasures], bool]) -> BenchmarkMeasures | None:
    return next(filter(has, run.benchmarks), None)


def _of(run: RunMeasures, benchmark: BenchmarkMeasures) -> str:
    """The benchmark's name before its finding, if there are several."""
    return f"{benchmark.title}: " if len(run.benchmarks) > 1 else ""


def _best(sources: Sequence[SourceMeasures], metric: str, *, lower: bool) -> SourceMeasures | None:
    known = [found for found in sources if found.metrics[metric].value is not None]

    def value(found: SourceMeasures) -> float:
        return found.metrics[metric].value or 0.0

    return (min if lower else max)(known, key=value) if known else None


def _shown(run: RunMeasures, measured: Sequence[Controlled]) -> Controlled | None:
    """One target as an example: of the run's own source, certified if any is, nearest to 10%."""
    own = [found for found in measured if found.source == run.source] or list(measured)
    certified = [found for found in own if found.origin.certificate] or own
    return min(certified, key=lambda found: abs(found.alpha - 0.1), default=None)
