"""Figures of policies: the p-value map, and sample rollouts under one policy."""

import math
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colorbar import Colorbar
from matplotlib.colors import LinearSegmentedColormap, TwoSlopeNorm
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from calibration.policy.exit_rule import ExitPolicy, ExitReason
from calibration.report.pvalue_map import NEVER_LOW, PValueMap, high_of, low_of
from calibration.report.samples import OUTCOMES, PER_OUTCOME, Sample, Samples
from calibration.report.summary import Summary
from calibration.report_kit.palette import BLUE, INK, MUTED, ORANGE, PAPER
from calibration.report_kit.panels import tokens_axis
from calibration.report_kit.style import DASHES, DOTS, WIDTH
from calibration.report_kit.wording import target

SMALLEST = 1e-6
"""p-values below it look the same."""
MOST_COLUMNS = 3
MOST_TICKS = 14

# Map and marks keep their colours on dark paper.
_PASSES = ("#0b3c73", "#3f7fc0", "#cfe2f3")
_FAILS = ("#fae3d3", "#e39a63", "#8c3a0a")
_MARK, _MARK_EDGE = "#fffffe", "#101316"
_MARKS: dict[str, dict[str, Any]] = {
    "served": {
        "marker": "*", "markersize": 12, "markerfacecolor": "#ffd84d",
        "markeredgecolor": _MARK_EDGE, "markeredgewidth": 0.8,
    },
    "certified": {
        "marker": "o", "markersize": 5.5, "markerfacecolor": _MARK,
        "markeredgecolor": _MARK_EDGE, "markeredgewidth": 0.9,
    },
    "failed": {
        "marker": "x", "markersize": 5, "markeredgecolor": _MARK_EDGE, "markeredgewidth": 1.3,
    },
    "elsewhere": {
        "marker": ".", "markersize": 5, "markerfacecolor": _MARK,
        "markeredgecolor": _MARK_EDGE, "markeredgewidth": 0.5,
    },
}  # fmt: skip


def draw_p_values(summary: Summary) -> Figure:
    """p-values over λ1 x λ2 for every level, with the tested and the certified policies."""
    maps, delta = summary.maps, summary.certificate.delta
    n_columns = min(len(maps), MOST_COLUMNS)
    n_rows = math.ceil(len(maps) / n_columns)
    height = 1.3 + n_rows * (3.0 if len(maps[0].high_Y) <= 24 else 4.2)
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    grid = figure.subplots(n_rows, n_columns, squeeze=False, sharey=True)
    positions = (0, 0.25, 0.5, 0.5, 0.75, 1)
    colors = LinearSegmentedColormap.from_list(
        "passes", list(zip(positions, (*_PASSES, *_FAILS), strict=True))
    )
    smallest = min(SMALLEST, delta / 1000)
    norm = TwoSlopeNorm(math.log10(delta), math.log10(smallest), 0)
    for axes, found in zip(grid.flat, maps, strict=False):
        image = axes.imshow(
            np.log10(np.maximum(found.p_YX, smallest)),
            cmap=colors,
            norm=norm,
            origin="lower",
            aspect="auto",
            interpolation="none",
        )
        axes.grid(visible=False)
        _draw_tested(axes, found)
        _label_thresholds(axes, found)
        axes.set_title(f"{target(found.alpha)}{'' if found.certified else ', not certified'}")
    for axes in grid.flat[len(maps) :]:
        axes.set_axis_off()
    for axes in grid[:, 0]:
        axes.set_ylabel("λ2: high exit at or above")
    bar = figure.colorbar(image, ax=grid, location="bottom", shrink=0.7, aspect=45, pad=0.02)
    _label_bar(bar, smallest, delta)
    figure.legend(handles=_map_legend(), loc="outside upper left", ncols=2)
    return figure


def draw_samples(samples: Samples) -> Figure:
    """Confidence by tokens for some rollouts, thresholds, and where each stops."""
    outcomes = [name for name in OUTCOMES if any(s.outcome == name for s in samples.rollouts)]
    figure = Figure(figsize=(WIDTH, 1.0 + 2.0 * len(outcomes)), layout="constrained")
    grid = figure.subplots(len(outcomes), PER_OUTCOME, squeeze=False, sharey=True)
    for row, outcome in zip(grid, outcomes, strict=True):
        shown = [sample for sample in samples.rollouts if sample.outcome == outcome]
        for axes, sample in zip(row, shown, strict=False):
            _draw_sample(axes, sample, samples.policy)
        for axes in row[len(shown) :]:
            axes.set_visible(False)
        row[0].set_ylabel("confidence")
    for axes in grid.flat:
        axes.set_ylim(-0.03, 1.06)
    for axes in grid[-1]:
        axes.set_xlabel("reasoning tokens")
    figure.legend(handles=_sample_legend(samples.policy), loc="outside upper left", ncols=3)
    return figure


def _draw_tested(axes: Axes, found: PValueMap) -> None:
    """A mark for each place; thresholds between two of the map's lie between its cells."""
    kinds = {
        "elsewhere": [t for t in found.tested if t.certified and not t.in_plane],
        "failed": [t for t in found.tested if not t.certified and t.in_plane],
        "certified": [t for t in found.tested if t.certified and t.in_plane],
    }
    for kind, policies in kinds.items():
        places = {found.place(t.lambda_low, t.lambda_high) for t in policies}
        if places:
            axes.plot(*zip(*sorted(places), strict=True), linestyle="", **_mark(kind, found))
    if found.certified:
        x, y = found.place(low_of(found.centre), high_of(found.centre))
        axes.plot([x], [y], linestyle="", **_mark("served", found))


def _mark(kind: str, found: PValueMap) -> dict[str, Any]:
    """Smaller marks where rows are many."""
    shrink = 1.0 if len(found.high_Y) <= 24 else 0.75
    return {**_MARKS[kind], "markersize": shrink * _MARKS[kind]["markersize"]}


def _label_thresholds(axes: Axes, found: PValueMap) -> None:
    n_lows, n_highs = len(found.low_X), len(found.high_Y)
    step = math.ceil(n_highs / MOST_TICKS)
    # From the top, so that "never" always has its label.
    rows = range(n_highs - 1, -1, -step)
    labels = ["never" if row == n_highs - 1 else f"{found.high_Y[row]:.4g}" for row in rows]
    axes.set_yticks(list(rows), labels)
    labels = ["never" if low == NEVER_LOW else f"{low:.3g}" for low in found.low_X]
    axes.set_xticks(range(n_lows), labels, rotation=90)
    axes.set_xlabel("λ1: low exit at or below")


def _label_bar(bar: Colorbar, smallest: float, delta: float) -> None:
    between = [tick for tick in (1e-4, 1e-2) if smallest * 20 < tick < delta / 20]
    names = [f"10$^{{{round(math.log10(tick))}}}$" for tick in between]
    bar.set_ticks(
        [math.log10(tick) for tick in (smallest, *between, delta, 1)],
        labels=[f"{smallest:.0e} or less", *names, f"δ = {delta:g}", "1"],
    )
    bar.set_label("p-value of: risk > α")
    bar.outline.set_visible(False)
    if bar.solids is not None:
        bar.solids.set_rasterized(True)


def _map_legend() -> list[Line2D]:
    names = {
        "served": "served: certified and chosen",
        "certified": "tested here and certified",
        "failed": "failed here, or not reached",
        "elsewhere": "certified with other settings",
    }
    # The legend may stand on dark paper, where dark edges would vanish.
    return [
        Line2D([], [], linestyle="", label=label, **_MARKS[kind] | {"markeredgecolor": INK})
        for kind, label in names.items()
    ]


def _draw_sample(axes: Axes, sample: Sample, policy: ExitPolicy) -> None:
    tokens_C, confidence_C, stop = sample.tokens_C, sample.confidence_C, sample.stop
    until, after = slice(0, stop + 1), slice(stop, None)
    axes.plot(tokens_C[after], confidence_C[after], color=MUTED, linewidth=1, linestyle=DOTS)
    axes.plot(tokens_C[until], confidence_C[until], color=MUTED, linewidth=1.2)
    if policy.smoothing > 0:
        axes.plot(tokens_C[until], sample.smoothed_C[until], color=INK, linewidth=1.6)
    small = 3.2 if len(tokens_C) <= 40 else 1.6
    for is_C, color in ((sample.correct_C, BLUE), (~sample.correct_C, ORANGE)):
        face = BLUE if color == BLUE else PAPER
        axes.plot(
            tokens_C[is_C], confidence_C[is_C], "o", color=color, markerfacecolor=face,
            markersize=small, markeredgewidth=0.9,
        )  # fmt: skip
    _draw_thresholds(axes, sample, policy)
    axes.axvline(tokens_C[stop], color=INK, linewidth=1.1)
    axes.plot(
        tokens_C[stop], confidence_C[stop], "o", color=INK, markerfacecolor="none", markersize=8
    )
    tokens_axis(axes, 4)
    axes.set_xlim(0, 1.06 * int(tokens_C[-1]))
    axes.set_title(f"{sample.outcome}:\n{_stop_in_words(sample)}", fontsize=8.5)


def _draw_thresholds(axes: Axes, sample: Sample, policy: ExitPolicy) -> None:
    tokens = np.linspace(0, int(sample.tokens_C[-1]), 100)
    if policy.exits_high:
        axes.plot(tokens[[0, -1]], [policy.lambda_high] * 2, color=BLUE, linestyle=DASHES)
    if policy.exits_low:
        low = [policy.low_threshold(int(t)) for t in tokens]
        axes.plot(tokens, low, color=ORANGE, linestyle=DASHES)
    if policy.lambda_answer > 0:
        end = int(sample.tokens_C[-1])
        axes.plot([end], [policy.lambda_answer], "_", color=INK, markersize=14)


def _stop_in_words(sample: Sample) -> str:
    tokens, end = int(sample.tokens_C[sample.stop]), int(sample.tokens_C[-1])
    if sample.reason in (ExitReason.HIGH, ExitReason.LOW):
        return f"{sample.reason} exit at {tokens:,} of {end:,} tokens"
    name = "natural end" if sample.reason is ExitReason.NATURAL else "budget spent"
    return f"{name} at {end:,} tokens"


def _sample_legend(policy: ExitPolicy) -> list[Line2D]:
    dashed: dict[str, Any] = {"linestyle": DASHES}
    marks = [
        Line2D([], [], marker="o", color=BLUE, linestyle="", markersize=4, label="answer right"),
        Line2D(
            [], [], marker="o", color=ORANGE, linestyle="", markersize=4, markerfacecolor=PAPER,
            label="answer wrong",
        ),
        Line2D(
            [], [], marker="o", color=INK, markersize=8, markerfacecolor="none", label="stop"
        ),
    ]  # fmt: skip
    if policy.exits_high:
        marks.append(Line2D([], [], color=BLUE, **dashed, label=f"λ2 = {policy.lambda_high:.4g}"))
    if policy.exits_low:
        marks.append(Line2D([], [], color=ORANGE, **dashed, label=f"λ1 = {policy.lambda_low:.4g}"))
    if policy.lambda_answer > 0:
        marks.append(
            Line2D(
                [], [], color=INK, marker="_", linestyle="", markersize=9,
                label=f"λa = {policy.lambda_answer:.4g}, at the end",
            )
        )  # fmt: skip
    if policy.smoothing > 0:
        marks.append(Line2D([], [], color=INK, linewidth=1.6, label="smoothed confidence"))
    return marks
