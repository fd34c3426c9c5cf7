"""Tables of controlled risk: by target, at equal error, beside the oracle, and all of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from calibration.metrics.early_exits import REGRETS
from calibration.metrics.estimates import Estimate
from calibration.report_kit.tables import (
    Cell,
    Rank,
    Row,
    Table,
    number_cell,
    ranked,
    share_cell,
)
from calibration.report_kit.wording import (
    UNDEFINED,
    percent,
    rate,
    share,
    share_in_full,
    target,
    tokens,
)
from rlcm_serve.evaluation.measuring.equal_error import ALLOWED, error_levels, tokens_at
from rlcm_serve.evaluation.measuring.measures import BenchmarkMeasures, Controlled, Frontier
from rlcm_serve.evaluation.report.risk_figures import certified_sources
from rlcm_serve.evaluation.report.style import title_of
from rlcm_serve.evaluation.report.words import words

_EVERYTHING: dict[str, Callable[[Controlled], Cell]] = {
    "policies": lambda found: Cell(str(found.origin), kind="words"),
    "realised risk": lambda found: Cell(share_in_full(found.measured_risk)),
    "answered": lambda found: Cell(share(Estimate(found.answered))),
    "right": lambda found: Cell(share(Estimate(found.right))),
    "tokens": lambda found: Cell(UNDEFINED if found.tokens is None else tokens(found.tokens)),
    "saved": lambda found: Cell(
        UNDEFINED if found.tokens_share is None else percent(1 - found.tokens_share)
    ),
    "remark": lambda found: Cell(found.reason or "", kind="words"),
}
"""The columns of the table of every target."""


def by_target(benchmark: BenchmarkMeasures, risk: str) -> Table:
    """Tokens by source and target: which source is cheapest at an equal target."""
    certified = [found for found in benchmark.controlled if found.reason is None]
    alphas = sorted({found.alpha for found in benchmark.controlled})
    by_place = {(f.source, f.origin, f.alpha): f for f in benchmark.controlled}
    all_answer = all(found.answered in (None, 1.0) for found in certified)
    cheapest = {alpha: _cheapest(certified, alpha) if all_answer else None for alpha in alphas}
    rows = []
    for source, origin in dict.fromkeys((found.source, found.origin) for found in certified):
        cells = [
            _target_cell(by_place.get((source, origin, alpha)), cheapest[alpha]) for alpha in alphas
        ]
        rows.append(Row(f"{title_of(source)}, {origin.kind}", cells, small=str(origin)))
    caption = words("by_target", benchmark=benchmark, risk=risk, all_answer=all_answer)
    return Table(caption, ["source, policies", *map(target, alphas)], rows)


def nowhere_certified(benchmark: BenchmarkMeasures, risk: str) -> str:
    """Names the sources for which no policy passed at any target; empty if there are none."""
    certified = certified_sources(benchmark)
    sources = dict.fromkeys(found.source for found in benchmark.controlled)
    without = [title_of(source) for source in sources if source not in certified]
    if not without:
        return ""
    return words("nowhere_certified", benchmark=benchmark, risk=risk, sources=without)


def every_target(benchmark: BenchmarkMeasures) -> Table:
    """All measures of every target, one target per line."""
    rows = [
        Row(
            f"{title_of(found.source)}, {found.risk}, {target(found.alpha)}",
            [cell(found) for cell in _EVERYTHING.values()],
        )
        for found in benchmark.controlled
    ]
    caption = words("every_target", benchmark=benchmark)
    return Table(caption, ["source, risk, target", *_EVERYTHING], rows)


def at_equal_error(benchmark: BenchmarkMeasures) -> Table:
    """The error that is spent, and the tokens that each source needs then."""
    levels = [level for level in error_levels(benchmark) if level <= 1]
    spent = [_at_levels(each, levels) for each in benchmark.frontiers]
    fewest = [
        min((found.value for found in column if found.value is not None), default=None)
        for column in zip(*spent, strict=True)
    ]
    rows = []
    for frontier, found in zip(benchmark.frontiers, spent, strict=True):
        cells = []
        for tokens_left, least in zip(found, fewest, strict=True):
            is_best = tokens_left.value is not None and tokens_left.value == least
            rank: Rank = "best" if is_best and len(spent) > 1 else ""
            has_intervals = bool(frontier.at_error)
            text = share(tokens_left)
            cells.append(share_cell(tokens_left, rank) if has_intervals else Cell(text, rank=rank))
        rows.append(Row(_joined(frontier), cells, indented=not frontier.is_plain))
    extra = [f"+{100 * more:g}" if more else "none" for more in ALLOWED[: len(levels)]]
    columns = [f"{head} ({percent(level)})" for head, level in zip(extra, levels, strict=True)]
    caption = words(
        "at_equal_error",
        benchmark=benchmark,
        counts_suffix=all(each.counts_suffix for each in benchmark.frontiers),
        has_joined=not all(each.is_plain for each in benchmark.frontiers),
    )
    spends = "error spent, in points above the full budget's (share wrong)"
    return Table(caption, ["source"], rows, {spends: columns})


def _at_levels(frontier: Frontier, levels: Sequence[float]) -> Sequence[Estimate]:
    """Tokens at each level of error; without intervals in files of older evaluations."""
    return frontier.at_error[: len(levels)] or [
        Estimate(tokens_at(frontier, level)) for level in levels
    ]


def _joined(frontier: Frontier) -> str:
    """The source, or what its exits are joined with."""
    if frontier.samples > 1:
        return f"{title_of(frontier.source)}, vote of {frontier.samples}"
    if frontier.only_familiar:
        return f"{title_of(frontier.source)}, familiar questions alone"
    return title_of(frontier.source)


def before_the_end(benchmark: BenchmarkMeasures) -> Table:
    """Ranking of readings at equal depth, and the distance of exits to the oracle exit."""
    sources = benchmark.sources
    columns = [("AUROC within question and depth", [each.depth_auroc for each in sources], 3)]
    for regret in REGRETS:
        distances = [each.oracle_distance[f"{regret:g}"] for each in sources]
        columns.append((f"tokens beyond the oracle, regret {rate(regret)}", distances, 0))
    cells: list[list[Cell]] = [[] for _ in sources]
    for name, estimates, digits in columns:
        ranks = ranked(estimates, higher_is_better=name.startswith("AUROC"))
        for of_source, estimate, rank in zip(cells, estimates, ranks, strict=True):
            best: Rank = "best" if rank == "best" else ""
            of_source.append(number_cell(estimate, digits, best))
    rows = [Row(title_of(each.source), of) for each, of in zip(sources, cells, strict=True)]
    head = ["source", *(name for name, _, _ in columns)]
    return Table(words("before_the_end", benchmark=benchmark), head, rows)


def _target_cell(found: Controlled | None, cheapest: str | None) -> Cell:
    if found is None or found.tokens_share is None:
        return Cell("", "not certified" if found else "")
    small = [f"risk {share(found.measured_risk)}"]
    if found.answered is not None and found.answered < 1:
        small.append(f"answers {percent(found.answered, 0)}")
    best = found.source == cheapest and not found.origin.certificate
    return Cell(percent(found.tokens_share), "\n".join(small), "best" if best else "")


def _cheapest(controlled: Sequence[Controlled], alpha: float) -> str | None:
    """The source that spends the fewest tokens, if several were fitted for this report."""
    spent = {
        found.source: found.tokens_share
        for found in controlled
        if found.alpha == alpha and not found.origin.certificate and found.tokens_share is not None
    }
    return min(spent, key=lambda source: spent[source]) if len(spent) > 1 else None
