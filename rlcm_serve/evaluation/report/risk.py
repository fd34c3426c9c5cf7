"""Section: exits at a risk target, what they really cost, and which source is cheapest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from calibration.report.labels import Caption
from calibration.report.wording import count, percent, target
from rlcm_serve.evaluation.measuring.measures import BenchmarkMeasures, RunMeasures
from rlcm_serve.evaluation.report import html, risk_figures, risk_tables
from rlcm_serve.evaluation.report.equal_error import full_error
from rlcm_serve.evaluation.report.risk_figures import tokens_share
from rlcm_serve.evaluation.report.risk_tables import kind_of
from rlcm_serve.evaluation.report.section import Plate, Section, of_benchmark, per_benchmark
from rlcm_serve.evaluation.report.style import title_of
from rlcm_serve.evaluation.report.wording import listed, share_in_full

BOUNDED = {
    "selective": "the share of the answers given that are wrong",
    "error": "the share of all questions answered wrong",
    "regret": "the share of all questions answered wrong but right at the full budget",
}


def section(run: RunMeasures) -> Section:
    """Target against realised risk, tokens against target, and the frontier of every source."""
    return Section(
        "risk",
        "Stopping early at a risk target",
        "If the model stops thinking once it is sure enough, does the risk stay below its target, "
        "and how many tokens does that save? Every source of confidence drives the same two "
        "thresholds, calibrated by the same test (Learn then Test).",
        tuple(_content(run)),
    )


def _content(run: RunMeasures) -> Iterator[Plate | str]:
    controlled = [benchmark for benchmark in run.benchmarks if benchmark.controlled]
    if not controlled:
        yield html.empty(
            "No target was tested: there are neither certified policies for this engine nor "
            "problems enough to fit some on one part and measure them on another."
        )
    for risk in dict.fromkeys(found.risk for b in controlled for found in b.controlled):
        yield from _one_risk(run, risk, list(_of_risk(controlled, risk)))
    for benchmark in controlled:
        yield html.folded(
            f"{benchmark.title}: every target, source and origin",
            risk_tables.every_target(benchmark),
        )
    frontiers = [benchmark for benchmark in run.benchmarks if benchmark.frontiers]
    if not frontiers:
        yield html.empty(
            "Rollouts have no readings on the way, so there is nothing to stop at and no frontier."
        )
        return
    yield Plate("frontier", partial(risk_figures.draw_frontier, frontiers), _of_frontier(frontiers))
    yield from map(risk_tables.at_equal_error, frontiers)


def _one_risk(
    run: RunMeasures, risk: str, benchmarks: Sequence[BenchmarkMeasures]
) -> Iterator[Plate | str]:
    for benchmark in benchmarks:
        if risk_figures.certified_sources(benchmark):
            yield risk_tables.by_target(benchmark, risk)
            yield _target_risk(run, benchmark, risk)
        yield risk_tables.nowhere_certified(benchmark, risk)
    spending = [b for b in benchmarks if any(tokens_share(found) for found in b.controlled)]
    if spending:
        yield Plate(
            f"target-tokens-{risk}",
            partial(risk_figures.draw_target_tokens, spending),
            _of_tokens(spending, risk),
        )


def _of_risk(benchmarks: Iterable[BenchmarkMeasures], risk: str) -> Iterator[BenchmarkMeasures]:
    """The benchmarks with those targets alone that bound this risk."""
    for benchmark in benchmarks:
        chosen = tuple(found for found in benchmark.controlled if found.risk == risk)
        if chosen:
            yield replace(benchmark, controlled=chosen)


def _bounded(risk: str) -> str:
    return BOUNDED.get(risk, f"the mean loss {risk!r}")


def _target_risk(run: RunMeasures, benchmark: BenchmarkMeasures, risk: str) -> Plate:
    origins = list(dict.fromkeys(str(found.origin) for found in benchmark.controlled))
    numbers = sorted({found.n_problems for found in benchmark.controlled if found.n_problems})
    measured_on = listed([count(number, "problem") for number in numbers])
    met = [
        (found, found.realised)
        for found in benchmark.controlled
        if found.realised is not None and found.realised.value is not None
    ]
    kept = sum(
        realised.value <= found.alpha for found, realised in met if realised.value is not None
    )
    return Plate(
        per_benchmark(f"target-risk-{risk}", run, benchmark),
        partial(risk_figures.draw_target_risk, benchmark),
        Caption(
            of_benchmark(f"Target against realised {risk} risk", run, benchmark),
            f"Risk: {_bounded(risk)}. Points below the line keep their target. Each is measured on "
            f"{measured_on or 'no problem'} that had no part in its fit (of certificates, if they "
            "were fitted on other problems), with 95 % intervals (exact for losses of 0 or 1, else "
            "approximate). The promise is about new questions like those of the fit; with few "
            "problems a point or bar may lie above the line although the true risk keeps the "
            "target. A cross says that no policy passed the test "
            f"at that target, and so nothing is stopped early. Policies: {listed(origins)}.",
            f"Realised risk against target α on {benchmark.title}: {kept} of {len(met)} "
            "certified targets have a realised risk at or below the target. "
            + "; ".join(
                f"{title_of(found.source)} ({kind_of(found.origin)}) at {target(found.alpha)}: "
                f"{share_in_full(realised)}"
                for found, realised in met[:8]
            )
            + ".",
        ),
    )


def _of_tokens(benchmarks: Sequence[BenchmarkMeasures], risk: str) -> Caption:
    said = []
    for benchmark in benchmarks:
        spent = [
            (found, part)
            for found in benchmark.controlled
            if (part := tokens_share(found)) is not None
        ]
        least, part = min(spent, key=lambda pair: pair[1])
        said.append(
            f"{benchmark.title}: the fewest are {percent(part)}, by {title_of(least.source)} at "
            f"{target(least.alpha)}"
        )
    return Caption(
        f"Tokens against target of the {risk} risk",
        "Left: reasoning and answer tokens per question, and what the readings cost, as a share of "
        "what the same questions take without early exits or readings. A line above 100 % costs "
        "more than it saves. Right: questions that get an answer; fewer tokens are no gain if "
        "fewer questions are answered. Filled: under a certificate; hollow: fitted for this "
        "report. Means, without intervals.",
        "Tokens and answers against target. " + "; ".join(said) + ".",
    )


def _of_frontier(benchmarks: Sequence[BenchmarkMeasures]) -> Caption:
    said = "; ".join(
        f"{benchmark.title}: {percent(full_error(benchmark))} wrong at the full budget"
        for benchmark in benchmarks
    )
    return Caption(
        "Which source is cheapest",
        "Each line is one source: from right to left its threshold falls, rollouts stop earlier, "
        "and more answers are wrong. The lower left, the better. A source that must generate text "
        "to be read pays for it: its line begins right of 100 %. The ring is the full budget "
        "without readings. Where more than 15 points more answers are wrong the lines are cut "
        "off. These are all thresholds there are, measured and not tested: none of them promises "
        "anything, and the best of many is partly luck.",
        f"Tokens against error for every source. {said}.",
    )
