"""A comparison on a terminal."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Column, Table
from rich.text import Text

from calibration.report_kit.tables import Cell
from rlcm_serve.evaluation.compare.base import Comparison
from rlcm_serve.evaluation.compare.tables import (
    ARROWED,
    DIFFERENCE_TITLES,
    difference_cells,
    main_columns,
    place_cells,
)
from rlcm_serve.evaluation.report.style import title_of

_STYLES = {"best": "bold", "second": "underline", "": ""}


def to_text(comparison: Comparison) -> RenderableType:
    """Main table, differences in accuracy and ECE, and warnings, for `rich`."""
    shown: list[RenderableType] = [_main(comparison), _differences(comparison)]
    shown += [Text(f"! {warning}", style="yellow") for warning in comparison.warnings]
    return Group(*shown)


def _main(comparison: Comparison) -> Table:
    """Benchmarks below each other, because a terminal is narrow."""
    title = "Best in bold" + (", second underlined" if len(comparison.names) > 2 else "")
    table = _table(title, ("benchmark", "run", "confidence"), ARROWED)
    for title, by_run in main_columns(comparison, "overall"):
        for name, source, places in zip(comparison.names, comparison.sources, by_run, strict=True):
            figures = [_text(cell) for cell in place_cells(places)]
            table.add_row(Text(title), Text(name), title_of(source), *figures)
            title = ""
        table.add_section()
    return table


def _differences(comparison: Comparison) -> Table:
    title = f"Differences to {comparison.names[0]}, 95% intervals; bold: 0 is excluded"
    names = ("accuracy", "ece")
    titles = [DIFFERENCE_TITLES[name] for name in names]
    table = _table(title, ("benchmark", "run"), ("problems", *titles))
    for benchmark in comparison.benchmarks:
        for found in benchmark.differences:
            figures = [Text(found.reason or "")] * len(names)
            if found.reason is None:
                cells = difference_cells(found, names)
                figures = [_text(cell, f"\n{cell.small}") for cell in cells]
            table.add_row(Text(benchmark.title), Text(found.run), f"{found.n_problems:,}", *figures)
        table.add_section()
    return table


def _table(title: str, names: tuple[str, ...], numbers: tuple[str, ...]) -> Table:
    columns = [Column(name, justify="right", no_wrap=True) for name in numbers]
    folded = [Column(name, overflow="fold") for name in names]
    return Table(
        *folded,
        *columns,
        title=Text(title, style="table.title"),
        title_justify="left",
        box=SIMPLE_HEAD,
    )


def _text(cell: Cell, more: str = "") -> Text:
    return Text(cell.text + more, style=_STYLES[cell.rank])
