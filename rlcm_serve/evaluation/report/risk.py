"""Section: exits at a risk target, realised risk and tokens, and the cheapest source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from calibration.report_kit.content import Caption, Folded, Part, Plate, Section, Text
from calibration.report_kit.wording import count, listed, percent, share_in_full, target
from rlcm_serve.evaluation.measuring.measures import BenchmarkMeasures, RunMeasures
from rlcm_serve.evaluation.report import risk_figures, risk_tables
from rlcm_serve.evaluation.report.benchmarks import of_benchmark, per_benchmark
from rlcm_serve.evaluation.report.equal_error import full_error
from rlcm_serve.evaluation.report.risk_figures import tokens_share
from rlcm_serve.evaluation.report.risk_tables import kind_of
from rlcm_serve.evaluation.report.style import title_of

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
        "If the model stops thinking once its confidence is high enough, does the risk stay below "
        "its target, and how many tokens does that save? Every source of confidence uses the same "
        "two thresholds, calibrated by the same test (Learn then Test).",
        tuple(_content(run)),
    )


def _content(run: RunMeasures) -> Iterator[Part]:
    controlled = [benchmark for benchmark in run.benchmarks if benchmark.controlled]
    if not controlled:
        yield Text(
            "No target was tested: no certified policy is for this engine, and there are too few "
            "problems to fit policies on one part and measure them on the other.",
            "empty",
        )
    for risk in dict.fromkeys(found.risk for b in controlled for found in b.controlled):
        yield from _one_risk(run, risk, list(_of_risk(controlled, risk)))
    for benchmark in controlled:
        yield Folded(
            f"{benchmark.title}: every target, source and origin",
            [risk_tables.every_target(benchmark)],
        )
    frontiers = [benchmark for benchmark in run.benchmarks if benchmark.frontiers]
    if not frontiers:
        yield Text(
            "Rollouts have no readings before their end, so there is nothing to stop at and no "
            "frontier.",
            "empty",
        )
        return
    yield Plate("frontier", partial(risk_figures.draw_frontier, frontiers), _of_frontier(frontiers))
    yield from map(risk_tables.at_equal_error, frontiers)


def _one_risk(
    run: RunMeasures, risk: str, benchmarks: Sequence[BenchmarkMeasures]
) -> Iterator[Part]:
    for benchmark in benchmarks:
        if risk_figures.certified_sources(benchmark):
            yield risk_tables.by_target(benchmark, risk)
            yield _target_risk(run, benchmark, risk)
        if text := risk_tables.nowhere_certified(benchmark, risk):
            yield Text(text, "empty")
    spending = [b for b in benchmarks if any(tokens_share(found) for found in b.controlled)]
    if spending:
        yield Plate(
            f"target-tokens-{risk}",
            partial(risk_figures.draw_target_tokens, spending),
            _of_tokens(spending, risk),
        )


def _of_risk(benchmarks: Iterable[BenchmarkMeasures], risk: str) -> Iterator[BenchmarkMeasures]:
    """The benchmarks that have targets of this risk, with these targets alone."""
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
            f"{measured_on or 'no problem'} that had no part in its fit (for certificates: if they "
            "were fitted on other problems). Bars are 95% intervals: exact for losses of 0 or 1, "
            "otherwise approximate. The promise is about new questions like the problems of the "
            "fit. With few problems, a point or bar may lie above the line although the true risk "
            "keeps the target. A cross: no policy passed the test at that target, so nothing stops "
            f"early. Policies: {listed(origins)}.",
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
        "Left: reasoning and answer tokens per question plus the tokens of the readings, as a "
        "share of the tokens without early exits and readings. A line above 100% costs more than "
        "it saves. Right: share of questions answered; fewer tokens are no gain if fewer questions "
        "are answered. Filled: under a certificate; hollow: fitted for this report. Means, without "
        "intervals.",
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
        "and more answers are wrong. Lower left is better. A source that generates text for its "
        "readings pays for it: its line begins right of 100%. The ring is the full budget without "
        "readings. Lines end where the error is more than 15 points above that of the full "
        "budget. All thresholds are measured and none is tested: none of them promises anything, "
        "and the best of many is partly luck.",
        f"Tokens against error for every source. {said}.",
    )
