"""Accuracy and calibration of the compared methods, and their differences (RLCM Table 1)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from calibration.metrics.bootstrap import estimate_metrics
from calibration.metrics.estimates import Estimate
from calibration.report_kit.tables import ranked
from rlcm_serve.evaluation.report.metrics import COLUMNS, HIGHER_IS_BETTER
from rlcm_serve.evaluation.report.style import title_of as source_title
from studies.paper.report.markdown import NOT_RUN, Block, difference, in_full, table
from studies.paper.report.results_index import (
    ResultsIndex,
    fewest_rollouts,
    one_or_mean,
    over_seeds,
    scored_alike,
    title_of,
)
from studies.paper.report.seeds import COMPARED as METRICS
from studies.paper.report.seeds import mean_difference
from studies.paper.result import Result
from studies.paper.runs import AUTHORS, BASE, COMPARED

METHODS = (BASE, *COMPARED, *AUTHORS)
"""Those of Table 1, and the authors' code where a study runs it."""
TITLES = {"accuracy": "accuracy", "pce": "PCE", "ece": "ECE", "auroc": "AUROC"}
_PAIRS = ((BASE, "grpo"), (BASE, "rlcm"), ("grpo", "rlcm"))
"""Compared methods; the difference is the second minus the first."""

Seeds = Mapping[str, Sequence[Result]]
"""Results by method."""


def main(index: ResultsIndex) -> Block:
    """The main table: overall, and by family."""
    every = {method: index.of(method) for method in index.among(METHODS)}
    n_rollouts = fewest_rollouts(result for seeds in every.values() for result in seeds)
    intro = (
        f"{len(index.any.rollouts.problems)} problems, the first {n_rollouts} rollouts of each in "
        "every run, because fewer rollouts give a higher calibration error; at the full budget. "
        "Methods with several seeds: the mean, and below it the lowest and the highest seed. "
        "Methods with one seed: its value and, in the first table, the 95% interval over "
        "problems. Best in bold, second best underlined. The counterpart in the paper is Table 1."
    )
    head = ["method", "confidence", "seeds", *(arrow(name) for name in METRICS)]
    overall = table(head, _overall(every, n_rollouts), names=2)
    columns = [f"{family}<br>{arrow(name)}" for family in index.families for name in COLUMNS]
    by_family = table(["method", *columns], _by_family(every, index.families, n_rollouts))
    return Block("main", (intro, overall, by_family))


def gain(index: ResultsIndex) -> Block:
    """Paired differences, per seed and averaged over the seeds."""
    intro = (
        "On the same problems, with paired 95% intervals; bold if they exclude 0. That of one seed "
        "covers other problems, and no other seed. That of all seeds together, whose difference is "
        "the mean of theirs, covers other seeds and other problems, which are crossed; it is wide, "
        "because the seeds are few. Both runs of a seed use equally many rollouts. The paper's "
        "Table 1 has no intervals."
    )
    head = ["difference", "seed", *(TITLES[name] for name in METRICS)]
    rows = [row for one, other in _PAIRS for row in _pair(index, one, other)]
    return Block("gain", (intro, table(head, rows, names=2)))


def rollouts_said(results: Iterable[Result]) -> str:
    """The number of rollouts per problem in these evaluations, as text."""
    found = {len(right) for result in results for right in result.rollouts.right}
    return f"{' or '.join(map(str, sorted(found))) or 'no'} rollouts each"


def _overall(every: Seeds, n_rollouts: int) -> Iterator[list[str]]:
    """Rows over all problems; one seed has its interval, several seeds have their range."""
    measured = {
        result.name: estimate_metrics(scored_alike(result, n_rollouts), METRICS)
        for seeds in every.values()
        for result in seeds
    }
    columns = [
        ranked_column(
            [one_or_mean([measured[r.name][name] for r in seeds]) for seeds in every.values()], name
        )
        for name in METRICS
    ]
    for (method, seeds), *cells in zip(every.items(), *columns, strict=True):
        source = source_title(seeds[0].source) if seeds else ""
        yield [
            title_of(method),
            source,
            str(len(seeds)),
            *(cells if seeds else [NOT_RUN] * len(cells)),
        ]


def _by_family(every: Seeds, families: Sequence[str], n_rollouts: int) -> Iterator[list[str]]:
    """Rows for each family of problems."""
    columns = []
    for family in families:
        for name in COLUMNS:
            of = metric_within(f"{family},", name, n_rollouts)
            columns.append(ranked_column([over_seeds(seeds, of) for seeds in every.values()], name))
    for (method, seeds), *cells in zip(every.items(), *columns, strict=True):
        yield [title_of(method), *(cells if seeds else [NOT_RUN] * len(cells))]


def ranked_column(found: Sequence[Estimate], name: str) -> list[str]:
    """One metric of all methods, ranked."""
    ranks = ranked(found, name in HIGHER_IS_BETTER)
    return [in_full(estimate, rank=rank) for estimate, rank in zip(found, ranks, strict=True)]


def metric_within(
    part: str | tuple[str, ...], name: str, n_rollouts: int
) -> Callable[[Result], float | None]:
    """A metric without interval, on the problems whose part begins with `part`, or one of them."""

    def of(result: Result) -> float | None:
        scored = scored_alike(result, n_rollouts, part)
        return estimate_metrics(scored, [name], resamples=1)[name].value

    return of


def _pair(index: ResultsIndex, one: str, other: str) -> Iterator[list[str]]:
    """A row for each common seed, and a row for all common seeds."""
    title = f"{title_of(other)} − {title_of(one)}"
    pairs = index.pairs(one, other)
    if not pairs:
        yield [title, "", *[NOT_RUN] * len(METRICS)]
        return
    for seed in pairs:
        yield [title, str(seed[0].seed), *_differences([seed])]
    if len(pairs) > 1:
        yield [title, f"all {len(pairs)}", *_differences(pairs)]


def _differences(pairs: Sequence[tuple[Result, Result]]) -> list[str]:
    found = mean_difference(pairs)
    return [difference(found[name]) for name in METRICS]


def arrow(name: str) -> str:
    """A metric's title with the direction that is better."""
    return f"{TITLES[name]} {'↑' if name in HIGHER_IS_BETTER else '↓'}"
