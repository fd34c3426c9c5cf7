"""Tables of controlled risk: by target, at equal error, and all of it."""

from __future__ import annotations

from collections.abc import Sequence

from calibration.metrics.estimates import Estimate
from calibration.report_kit.tables import Cell, Row, Table
from calibration.report_kit.wording import (
    UNDEFINED,
    listed,
    percent,
    share,
    share_in_full,
    target,
    tokens,
)
from rlcm_serve.evaluation.measuring.measures import BenchmarkMeasures, Controlled, Origin
from rlcm_serve.evaluation.report.equal_error import ALLOWED, error_levels, full_error, tokens_at
from rlcm_serve.evaluation.report.risk_figures import certified_sources, tokens_share
from rlcm_serve.evaluation.report.style import title_of


def by_target(benchmark: BenchmarkMeasures, risk: str) -> Table:
    """Tokens by source and target: which source is cheapest at an equal target."""
    certified = [found for found in benchmark.controlled if found.reason is None]
    alphas = sorted({found.alpha for found in benchmark.controlled})
    lines = dict.fromkeys((found.source, found.origin) for found in certified)
    by_place = {(f.source, f.origin, f.alpha): f for f in benchmark.controlled}
    all_answer = all(found.answered in (None, 1.0) for found in certified)
    cheapest = {alpha: _cheapest(certified, alpha) if all_answer else None for alpha in alphas}
    marked = (
        "Bold: the fewest tokens among the policies fitted for this report, so the cheapest source "
        "at that target."
        if all_answer
        else "Below: the share of questions answered. Fewer tokens are no gain if fewer questions "
        "are answered, so no figure is marked as best."
    )
    return Table(
        f"{benchmark.title}, {risk} risk: tokens including those of the readings, as a share of "
        f"the full budget's, and the realised risk. {marked}",
        ["source, policies", *(target(alpha) for alpha in alphas)],
        [
            Row(
                f"{title_of(source)}, {kind_of(origin)}",
                [
                    _target_cell(by_place.get((source, origin, alpha)), cheapest[alpha])
                    for alpha in alphas
                ],
                small=str(origin),
            )
            for source, origin in lines
        ],
    )


def nowhere_certified(benchmark: BenchmarkMeasures, risk: str) -> str:
    """Names the sources for which no policy passed at any target; empty if there are none."""
    certified = certified_sources(benchmark)
    sources = dict.fromkeys(found.source for found in benchmark.controlled)
    without = [title_of(source) for source in sources if source not in certified]
    if not without:
        return ""
    return (
        f"{benchmark.title}, {risk} risk: for {listed(without)} no policy passed the test at any "
        "target. The table below has the reasons; more problems make a test stronger."
    )


def every_target(benchmark: BenchmarkMeasures) -> Table:
    """All measures of every target, one target per line."""
    rows = [
        Row(f"{title_of(found.source)}, {found.risk}, {target(found.alpha)}", _full_cells(found))
        for found in benchmark.controlled
    ]
    return Table(
        f"{benchmark.title}: realised risk with its 95% interval; tokens per question including "
        "those of the readings; tokens saved against the full budget without readings.",
        [
            "source, risk, target",
            "policies",
            "realised risk",
            "answered",
            "right",
            "tokens",
            "saved",
            "remark",
        ],
        rows,
    )


def at_equal_error(benchmark: BenchmarkMeasures) -> Table:
    """Tokens that each source needs at the same error."""
    levels = error_levels(benchmark)
    spent = {
        frontier.source: [tokens_at(frontier, error) for error in levels]
        for frontier in benchmark.frontiers
    }
    least = [
        min((part for row in spent.values() if (part := row[i]) is not None), default=None)
        for i in range(len(levels))
    ]
    rows = [
        Row(
            title_of(source),
            [
                Cell(
                    UNDEFINED if part is None else percent(part),
                    rank="best" if part is not None and part == least[i] and len(spent) > 1 else "",
                )
                for i, part in enumerate(row)
            ],
        )
        for source, row in spent.items()
    ]
    more = [f"+{100 * extra:g} points" for extra in ALLOWED[1:]]
    return Table(
        f"{benchmark.title}: tokens at equal error, as a share of the full budget's, interpolated "
        f"on the lines above. The full budget has {percent(full_error(benchmark))} wrong; each "
        "further column allows more errors by that many points. The fewest tokens are bold.",
        ["source", "as at the full budget", *more],
        rows,
    )


def kind_of(origin: Origin) -> str:
    """An origin in one word."""
    return "certified" if origin.certificate else "fitted"


def _target_cell(found: Controlled | None, cheapest: str | None) -> Cell:
    spent = tokens_share(found) if found else None
    if found is None or spent is None:
        return Cell("", "not certified" if found else "")
    realised = found.realised or Estimate(None)
    small = [f"risk {share(realised)}"]
    if found.answered is not None and found.answered < 1:
        small.append(f"answers {percent(found.answered, 0)}")
    best = found.source == cheapest and not found.origin.certificate
    return Cell(percent(spent), "\n".join(small), "best" if best else "")


def _cheapest(controlled: Sequence[Controlled], alpha: float) -> str | None:
    """The source that spends the fewest tokens, if several were fitted for this report."""
    spent = {
        found.source: part
        for found in controlled
        if found.alpha == alpha
        and not found.origin.certificate
        and (part := tokens_share(found)) is not None
    }
    return min(spent, key=lambda source: spent[source]) if len(spent) > 1 else None


def _full_cells(found: Controlled) -> list[Cell]:
    spent = tokens_share(found)

    def part(value: float | None) -> str:
        return UNDEFINED if value is None else percent(value)

    return [
        Cell(str(found.origin), kind="words"),
        Cell(share_in_full(found.realised) if found.realised else UNDEFINED),
        Cell(part(found.answered)),
        Cell(part(found.right)),
        Cell(UNDEFINED if found.tokens is None else tokens(found.tokens)),
        Cell(UNDEFINED if spent is None else percent(1 - spent)),
        Cell(found.reason or "", kind="words"),
    ]
