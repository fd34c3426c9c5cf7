"""A comparison on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from calibration.metrics.estimates import Estimate
from calibration.report_kit.wording import (
    UNDEFINED,
    excludes_zero,
    in_points,
    number,
    number_interval,
    share,
    signed,
)
from rlcm_serve.evaluation.compare.base import COLUMNS, Comparison, Place
from rlcm_serve.evaluation.report.style import title_of

_STYLES = {"best": "bold", "second": "underline", "": ""}


def to_text(comparison: Comparison) -> RenderableType:
    """Main table, differences in accuracy and ECE, and warnings, for `rich`."""
    shown: list[RenderableType] = [_main(comparison), _differences(comparison)]
    shown += [Text(f"! {warning}", style="yellow") for warning in comparison.warnings]
    return Group(*shown)


def _main(comparison: Comparison) -> Table:
    """Benchmarks below each other, because a terminal is narrow."""
    table = Table(
        title="Best in bold" + (", second underlined" if len(comparison.names) > 2 else ""),
        title_justify="left",
    )
    for column in ("benchmark", "run", "confidence"):
        table.add_column(column)
    for column in ("accuracy ↑", "PCE ↓", "ECE ↓"):
        table.add_column(column, justify="right")
    rows = [(benchmark.title, benchmark.table) for benchmark in comparison.benchmarks]
    if comparison.overall:
        rows.append(("overall", comparison.overall))
    for title, places in rows:
        for number_of, (name, source, found) in enumerate(
            zip(comparison.names, comparison.sources, places, strict=True)
        ):
            head = title if number_of == 0 else ""
            table.add_row(head, Text(name), title_of(source), *_places(found))
        table.add_section()
    return table


def _places(places: dict[str, Place] | None) -> Sequence[RenderableType]:
    if places is None:
        return [UNDEFINED] * len(COLUMNS)
    return [
        Text(
            (share if column == "accuracy" else number)(places[column].estimate),
            style=_STYLES[places[column].rank],
        )
        for column in COLUMNS
    ]


def _difference(estimate: Estimate, digits: int) -> Text:
    text = f"{signed(estimate, digits)} ({number_interval(estimate, digits)})"
    return Text(text, style="bold" if excludes_zero(estimate) else "")


def _differences(comparison: Comparison) -> Table:
    table = Table(
        title=f"Differences to {comparison.names[0]}, 95% intervals; bold: 0 is excluded",
        title_justify="left",
    )
    for column in ("benchmark", "run"):
        table.add_column(column)
    for column in ("problems", "accuracy, points", "ECE"):
        table.add_column(column, justify="right")
    for benchmark in comparison.benchmarks:
        for found in benchmark.differences:
            cells: list[RenderableType] = [Text(found.reason or "")] * 2
            if found.reason is None:
                cells = [
                    _difference(in_points(found.metrics["accuracy"]), 1),
                    _difference(found.metrics["ece"], 3),
                ]
            table.add_row(benchmark.title, Text(found.run), f"{found.n_problems:,}", *cells)
        table.add_section()
    return table
