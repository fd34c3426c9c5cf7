"""Section: calibration and ranking of each source of confidence at the end of a rollout."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from calibration.report_kit.content import Caption, Part, Plate, Section, Text
from calibration.report_kit.tables import Cell, Row, Table, number_cell, ranked
from calibration.report_kit.wording import (
    NB,
    count,
    listed,
    number,
    number_in_full,
    percent,
    tokens,
)
from rlcm_serve.evaluation.measuring.measures import (
    METRICS,
    BenchmarkMeasures,
    RunMeasures,
    SourceMeasures,
)
from rlcm_serve.evaluation.report import confidence_figures
from rlcm_serve.evaluation.report.benchmarks import of_benchmark, own_source, per_benchmark
from rlcm_serve.evaluation.report.style import is_probability, title_of

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
    "95% intervals by resampling problems. The best figure of a column is bold; it need not differ "
    "from the next one by more than chance."
)


def section(run: RunMeasures) -> Section:
    """Reliability, distributions, risk-coverage, ranking, and every metric with its interval."""
    return Section(
        "confidence",
        "Confidence at the end of a rollout",
        "Two questions about a confidence: does it match the share of right answers (calibration), "
        "and is it higher where the model is right (ranking)? Neither follows from the other.",
        tuple(_content(run)),
    )


def _content(run: RunMeasures) -> Iterator[Part]:
    benchmarks = [benchmark for benchmark in run.benchmarks if benchmark.sources]
    if not benchmarks:
        yield Text(
            "No source of confidence was measured. A model without a probe still has sources that "
            "use its token probabilities: choose one with --confidence.",
            "empty",
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
        yield Text(
            "All rollouts are right, or all are wrong, so ranking by confidence is undefined.",
            "empty",
        )


def _calibration_table(benchmark: BenchmarkMeasures) -> Table:
    unclaimed = [title_of(s.source) for s in benchmark.sources if not is_probability(s.source)]
    dagger = (
        f" † {listed(unclaimed)}: not a probability by definition; these figures only show how far "
        "its scale is from one."
        if unclaimed
        else ""
    )
    return Table(
        f"{benchmark.title}, {count(benchmark.n_problems, 'problem')}: calibration. Lower is "
        f"better in every column. {_FIGURES}{dagger}",
        ["source", *(TITLES[name] for name in _OF_TRUTH)],
        [
            Row(_name(found), _metric_cells(found, _OF_TRUTH, benchmark.sources))
            for found in benchmark.sources
        ],
    )


def _ranking_table(benchmark: BenchmarkMeasures) -> Table:
    return Table(
        f"{benchmark.title}, {count(benchmark.n_problems, 'problem')}: ranking. For both AUROCs "
        f"higher is better, for AURC lower. {_FIGURES} Reading tokens: the cost of all readings of "
        "a rollout. Missing: rollouts for which the source has no reading; they count as a "
        "confidence of 0.",
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
        number_cell(
            found.metrics[name], rank="best" if found.source in _best(name, sources) else ""
        )
        for name in names
    ]


def _name(found: SourceMeasures) -> str:
    return title_of(found.source) + ("" if is_probability(found.source) else f"{NB}†")


def _best(name: str, sources: tuple[SourceMeasures, ...]) -> set[str]:
    """The sources with the best figure as printed; none if only one has a figure."""
    ranks = ranked([found.metrics[name] for found in sources], name in _HIGHER_IS_BETTER)
    return {found.source for found, rank in zip(sources, ranks, strict=True) if rank == "best"}


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
            "Share of right rollouts in ten bins of equal width by confidence. On the line, "
            "confidence equals accuracy. The mean gap to the line, weighted by the rollouts of "
            "each bin (grey), is the ECE; the gaps of overconfident bins (squares) are the PCE. "
            "Bins with few rollouts vary by chance. Bins have no intervals, because rollouts of "
            "one problem depend on each other; the interval of the ECE resamples whole problems.",
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
            "Rollouts by confidence: right answers upwards, wrong answers downwards; every panel "
            "has its own scale. A threshold can separate right from wrong only if the two parts "
            "lie apart. A wide spread alone does not help, and few bars leave few thresholds to "
            "choose from.",
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
        "Share of wrong answers if only the most confident rollouts are answered. At the right end "
        "all are answered, and all lines meet. A lower line is a better ranking. The area under a "
        "line (AURC, in brackets if there is one benchmark) is its mean. It depends on the model's "
        "accuracy, so it compares sources of one model, not models. No point was tested: a "
        "threshold that is picked by its risk here has a higher risk on new questions.",
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
        "Probability that a right rollout has more confidence than a wrong one; 0.5 is chance. "
        "Over all rollouts, knowing which problems are hard is enough for a high value. Within a "
        "question, both rollouts answer the same problem: a confidence-weighted vote needs this, "
        "and ECE does not measure it (RLCM App. F). It uses problems that have both right and "
        "wrong rollouts, and is missing if there are none.",
        f"AUROC with 95% intervals. {said or 'The run has no source of its own here'}.",
    )


def _ranked(found: SourceMeasures) -> bool:
    return any(found.metrics[name].value is not None for name in _HIGHER_IS_BETTER)
