"""What a page is made of: sections of prose, tables and figures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from matplotlib.figure import Figure

from calibration.report.labels import Caption
from rlcm_serve.evaluation.measuring.measures import BenchmarkMeasures, RunMeasures, SourceMeasures


@dataclass(frozen=True, slots=True)
class Plate:
    """A figure before it is drawn.

    Attributes:
        name: its anchor, and the stem of its PNG.
        draw: makes it.
        caption: what stands beside it.
    """

    name: str
    draw: Callable[[], Figure]
    caption: Caption


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page.

    Attributes:
        anchor: its id.
        title: its heading.
        intro: the question it answers, as text.
        content: figures, and HTML of tables and notes, in order.
    """

    anchor: str
    title: str
    intro: str
    content: tuple[Plate | str, ...]


def own_source(run: RunMeasures, benchmark: BenchmarkMeasures) -> SourceMeasures | None:
    """What the run's own source of confidence measures on a benchmark, if it was read there."""
    return next((found for found in benchmark.sources if found.source == run.source), None)


def per_benchmark(stem: str, run: RunMeasures, benchmark: BenchmarkMeasures) -> str:
    """Name of a figure of which every benchmark has one."""
    return stem if len(run.benchmarks) == 1 else f"{stem}-{benchmark.name}"


def of_benchmark(title: str, run: RunMeasures, benchmark: BenchmarkMeasures) -> str:
    """Title of such a figure."""
    return title if len(run.benchmarks) == 1 else f"{title}: {benchmark.title}"
