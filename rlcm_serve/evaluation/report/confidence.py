"""Section: what each source of confidence is worth at the end of a rollout."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from calibration.report.labels import Caption
from calibration.report.wording import NB, count, percent
from rlcm_serve.evaluation.measuring.measures import (
    METRICS,
    BenchmarkMeasures,
    RunMeasures,
    SourceMeasures,
)
from rlcm_serve.evaluation.report import confidence_figures, html
from rlcm_serve.evaluation.report.html import Cell, Row
from rlcm_serve.evaluation.report.section import (
    Plate,
    Section,
    of_benchmark,
    own_source,
    per_benchmark,
)
from rlcm_serve.evaluation.report.style import is_probability, title_of
from rlcm_serve.evaluation.report.wording import (
    listed,
    number,
    number_in_full,
    number_interval,
    tokens,
)

TITLES = {
    "ece": "ECE",
    "pce": "PCE",
    "adaptive_ece": "adaptive ECE",
    "brier": "Brier",
    "nll": "NLL",
    "auroc": "AUROC",
    "aurc": "AURC",
    "within_auroc": "within-question AUROC",
}
_OF_TRUTH, _OF_ORDER = METRICS[:5], METRICS[5:]
_HIGHER_IS_BETTER = ("auroc", "within_auroc")
_FIGURES = (
    "95 % intervals by resampling problems. The best figure of a column is bold, which does not "
    "say that it differs from the next."
)


def section(run: RunMeasures) -> Section:
    """Reliability, distributions, risk-coverage, ranking, and every metric with its interval."""
    return Section(
        "confidence",
        "Confidence at the end of a rollout",
        "When the model says how sure it is, what is that worth? Two things can be asked: is the "
        "number true (calibration), and is it higher where the model is right (ranking)? Neither "
        "follows from the other.",
        tuple(_content(run)),
    )


def _content(run: RunMeasures) -> Iterator[Plate | str]:
    benchmarks = [benchmark for benchmark in run.benchmarks if benchmark.sources]
    if not benchmarks:
        yield html.empty(
            "No source of confidence was measured. A model without a probe still has those that "
            "are read from its token probabilities: choose one with --confidence."
        )
        return
    for benchmark in benchmarks:
        yield _calibration_table(benchmark)
        yield _ranking_table(benchmark)
    yield from (_reliability(run, benchmark) for benchmark in benchmarks)
    yield from (_distributions(run, benchmark) for benchmark in benchmarks)
    yield Plate(
        "risk-coverage", partial(confidence_figures.draw_coverage, benchmarks), _of_coverage(run)
    )
    if any(_ranked(found) for benchmark in benchmarks for found in benchmark.sources):
        yield Plate(
            "ranking", partial(confidence_figures.draw_ranking, benchmarks), _of_ranking(run)
        )
    else:
        yield html.empty(
            "All rollouts are right, or all wrong: whether confidence ranks them is undefined."
        )


def _calibration_table(benchmark: BenchmarkMeasures) -> str:
    unclaimed = [title_of(s.source) for s in benchmark.sources if not is_probability(s.source)]
    verb = "does" if len(unclaimed) == 1 else "do"
    dagger = (
        f" † {listed(unclaimed)} {verb} not claim to be a probability: these figures say only how "
        "far its scale is from one."
        if unclaimed
        else ""
    )
    return html.table(
        f"{benchmark.title}, {count(benchmark.n_problems, 'problem')}: is the number true? Lower "
        f"is better in every column; {_FIGURES}{dagger}",
        ["source", *(TITLES[name] for name in _OF_TRUTH)],
        [
            Row(_name(found), _metric_cells(found, _OF_TRUTH, benchmark.sources))
            for found in benchmark.sources
        ],
    )


def _ranking_table(benchmark: BenchmarkMeasures) -> str:
    return html.table(
        f"{benchmark.title}, {count(benchmark.n_problems, 'problem')}: is it higher where the "
        "model is right? For both AUROC higher is better, for AURC lower; "
        f"{_FIGURES} Reading tokens: what all readings of a rollout cost. Missing: rollouts of "
        "which the source says nothing; they count as a confidence of 0.",
        ["source", *(TITLES[name] for name in _OF_ORDER), "reading tokens", "missing"],
        [
            Row(
                title_of(found.source),
                [
                    *_metric_cells(found, _OF_ORDER, benchmark.sources),
                    Cell(tokens(found.reading_tokens)),
                    Cell(percent(found.missing)),
                ],
            )
            for found in benchmark.sources
        ],
    )


def _metric_cells(
    found: SourceMeasures, names: tuple[str, ...], sources: tuple[SourceMeasures, ...]
) -> list[Cell]:
    return [
        Cell(
            number(found.metrics[name]),
            number_interval(found.metrics[name]),
            "best" if found.source in _best(name, sources) else "",
        )
        for name in names
    ]


def _name(found: SourceMeasures) -> str:
    return title_of(found.source) + ("" if is_probability(found.source) else f"{NB}†")


def _best(name: str, sources: tuple[SourceMeasures, ...]) -> set[str]:
    """The sources with the best figure, as far as it is printed; none if only one has a figure."""
    known = {
        found.source: round(value, 3)
        for found in sources
        if (value := found.metrics[name].value) is not None
    }
    if len(known) < 2:
        return set()
    best = (max if name in _HIGHER_IS_BETTER else min)(known.values())
    return {source for source, value in known.items() if value == best}


def _reliability(run: RunMeasures, benchmark: BenchmarkMeasures) -> Plate:
    said = "; ".join(
        f"{title_of(found.source)} ECE {number(found.metrics['ece'])}, "
        f"PCE {number(found.metrics['pce'])}"
        for found in benchmark.sources
    )
    return Plate(
        per_benchmark("reliability", run, benchmark),
        partial(confidence_figures.draw_reliability, benchmark),
        Caption(
            of_benchmark("Reliability", run, benchmark),
            "Rollouts in ten bins of equal width by their confidence: how many of a bin are right. "
            "On the line, confidence is true; the gaps to it, weighted by the rollouts of each bin "
            "(grey), are the ECE, and those where confidence is too high (squares) the PCE. Bins "
            "with few rollouts move by chance. They have no intervals here, since rollouts of one "
            "question depend on each other; that of the ECE resamples whole questions.",
            f"Reliability of {len(benchmark.sources)} sources on {benchmark.title}: {said}.",
        ),
    )


def _distributions(run: RunMeasures, benchmark: BenchmarkMeasures) -> Plate:
    said = "; ".join(
        f"{title_of(found.source)} mean {found.mean:.3f}, median {found.median:.3f}"
        for found in benchmark.sources
    )
    return Plate(
        per_benchmark("distribution", run, benchmark),
        partial(confidence_figures.draw_distributions, benchmark),
        Caption(
            of_benchmark("Distribution of confidence", run, benchmark),
            "Rollouts by confidence, those with a right answer upwards, those with a wrong one "
            "downwards; every panel has its own scale. Few bars or a narrow heap leave little to "
            "choose a threshold from. A wide spread alone is no merit: what counts is that up and "
            "down lie apart.",
            f"Confidence of right and wrong rollouts on {benchmark.title}: {said}.",
        ),
    )


def _of_coverage(run: RunMeasures) -> Caption:
    said = "; ".join(
        f"{benchmark.title}: "
        + ", ".join(
            f"{title_of(found.source)} {number(found.metrics['aurc'])}"
            for found in benchmark.sources
        )
        for benchmark in run.benchmarks
        if benchmark.sources
    )
    return Caption(
        "Risk and coverage",
        "If only the surest rollouts were answered, how many of them would be wrong? At the right "
        "end all are answered, and every line meets. The lower, the better the ranking; the area "
        "under a line (AURC, in brackets where there is one benchmark) is its mean. It depends on "
        "how often the model is right, so it compares sources of one model, not models. No point "
        "was tested: a threshold picked by its risk here has a larger one on new questions.",
        f"Share wrong against share answered. Area under each line: {said}.",
    )


def _of_ranking(run: RunMeasures) -> Caption:
    said = "; ".join(
        f"{benchmark.title}: {title_of(own.source)} {number_in_full(own.metrics['auroc'])} overall,"
        f" {number_in_full(own.metrics['within_auroc'])} within a question"
        for benchmark in run.benchmarks
        if (own := own_source(run, benchmark))
    )
    return Caption(
        "Ranking, over all rollouts and within a question",
        "How often a right rollout has more confidence than a wrong one; 0.5 is chance. Over all "
        "rollouts it is enough to know which questions are hard. Within a question, both rollouts "
        "are of the same one: this is what a confidence-weighted vote needs, and what ECE cannot "
        "see (RLCM App. F). It is measured on questions that have both right and wrong rollouts, "
        "and missing where there are none.",
        f"AUROC with 95 % intervals. {said or 'The run has no source of its own here'}.",
    )


def _ranked(found: SourceMeasures) -> bool:
    return any(found.metrics[name].value is not None for name in _HIGHER_IS_BETTER)
