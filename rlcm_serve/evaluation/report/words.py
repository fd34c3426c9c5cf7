"""The words of the report, and names of figures that every benchmark has."""

from __future__ import annotations

from collections.abc import Callable

from matplotlib.figure import Figure

from calibration.report_kit.content import Plate
from calibration.report_kit.wording import percent
from calibration.report_kit.words import Words
from rlcm_serve.evaluation.measuring.equal_error import full_error
from rlcm_serve.evaluation.measuring.measures import BenchmarkMeasures, RunMeasures
from rlcm_serve.evaluation.report.style import CATEGORY_TITLES, title_of

FILTERS = {
    "category_title": CATEGORY_TITLES.__getitem__,
    "full_error": lambda benchmark: percent(full_error(benchmark)),
    "title_of": title_of,
}
words = Words("rlcm_serve.evaluation.report", "report.txt.j2", FILTERS)


def plate_of(
    run: RunMeasures,
    benchmark: BenchmarkMeasures,
    block: str,
    draw: Callable[[], Figure],
    name: str = "",
    **values: object,
) -> Plate:
    """A figure of one benchmark; if there are several, its name and its title say which."""
    name, of = name or block, ""
    if len(run.benchmarks) > 1:
        name, of = f"{name}-{benchmark.name}", f": {benchmark.title}"
    return words.plate(block, draw, name, of=of, benchmark=benchmark, **values)
