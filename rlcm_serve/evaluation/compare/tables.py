"""Cells of a comparison's tables, the same on its page and on a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from calibration.report_kit.tables import Cell
from calibration.report_kit.wording import UNDEFINED
from rlcm_serve.evaluation.compare.base import DIFFERENCES, Comparison, Difference, Place
from rlcm_serve.evaluation.report.metrics import COLUMNS, METRICS

ARROWED = tuple(
    f"{METRICS[name].title} {'↑' if METRICS[name].higher_is_better else '↓'}" for name in COLUMNS
)
"""Titles of the main table's columns."""
DIFFERENCE_TITLES = {name: METRICS[name].title for name in DIFFERENCES}
DIFFERENCE_TITLES["accuracy"] = "accuracy, points"


def main_columns(
    comparison: Comparison, overall: str
) -> Iterator[tuple[str, Sequence[Mapping[str, Place] | None]]]:
    """Titles and figures, by run, of the benchmarks and of their mean under the name `overall`."""
    for benchmark in comparison.benchmarks:
        yield benchmark.title, benchmark.table
    if comparison.overall:
        yield overall, comparison.overall


def place_cells(places: Mapping[str, Place] | None) -> list[Cell]:
    """A run's figures on one benchmark; dashes if it lacks that."""
    if places is None:
        return [Cell(UNDEFINED)] * len(COLUMNS)
    return [METRICS[name].cell(places[name].estimate, places[name].rank) for name in COLUMNS]


def difference_cells(found: Difference, names: Sequence[str] = DIFFERENCES) -> list[Cell]:
    """The differences in these metrics, or the reason why there are none."""
    if found.reason is not None:
        return [Cell("", found.reason), *[Cell("")] * (len(names) - 1)]
    return [METRICS[name].difference_cell(found.metrics[name]) for name in names]
