"""Accuracy against calibration error, the paper's first figure, with intervals."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from matplotlib.figure import Figure

from calibration.metrics.estimates import Estimate
from calibration.report_kit.content import Caption, Plate
from calibration.report_kit.panels import legend, one_scale, panels
from calibration.report_kit.wording import number_in_full
from studies.paper.primary.design import METHODS, POSTHOC
from studies.paper.primary.secondary import OUT_OF_DOMAIN, TRAINED, Panel, PanelFigures, Reading
from studies.paper.primary.secondary_tables import title_of
from studies.paper.report.style import STYLES

Found = Mapping[Panel, PanelFigures]

_SHOWN = (TRAINED, OUT_OF_DOMAIN)


def plate(found: Found, name: str) -> Plate:
    """The figure with its caption.

    Args:
        found: figures of at least the panels that are shown.
        name: stem of the file.
    """
    said = []
    for panel in _SHOWN:
        for method in METHODS:
            accuracy, error = _place(found[panel], method)
            said.append(
                f"{panel.title}, {title_of(method)}: accuracy {number_in_full(accuracy)}, "
                f"ECE {number_in_full(error)}"
            )
    caption = Caption(
        "Accuracy against calibration error",
        "By the post-hoc probe; left and high is better. Small marks are seeds. A large mark is "
        "their mean, with 95% intervals that cover other seeds and other problems. The "
        "counterpart in the paper is Figure 1.",
        f"{'; '.join(said)}.",
    )
    return Plate(name, partial(draw, found), caption)


def draw(found: Found) -> Figure:
    """A panel for the trained kinds and one out of domain."""
    figure, axes = panels(len(_SHOWN), 2, 2.9)
    for own, panel in zip(axes, _SHOWN, strict=True):
        for method in METHODS:
            style, figures = STYLES[method], found[panel]
            seeds = figures.figure_ST[Reading(method, POSTHOC)]
            error_S, accuracy_S = seeds["ECE"][:, 0], seeds["accuracy"][:, 0]
            own.plot(error_S, accuracy_S, style.marker, color=style.color, alpha=0.35, markersize=3)
            accuracy, error = _place(figures, method)
            own.errorbar(
                [error.value or 0.0],
                [accuracy.value or 0.0],
                xerr=_reach(error),
                yerr=_reach(accuracy),
                fmt=style.marker,
                color=style.color,
                markersize=7,
                linewidth=1.2,
                label=title_of(method),
            )
        own.set_title(panel.title)
        own.set_xlim(left=0)
    one_scale(axes)
    figure.supxlabel("expected calibration error")
    figure.supylabel("accuracy")
    legend(figure)
    return figure


def _place(figures: PanelFigures, method: str) -> tuple[Estimate, Estimate]:
    """Accuracy and ECE of a method, with intervals."""
    reading = Reading(method, POSTHOC)
    return figures.value(reading, "accuracy"), figures.value(reading, "ECE")


def _reach(estimate: Estimate) -> list[list[float]]:
    """How far an interval reaches below and above the value, as `errorbar` takes it."""
    if estimate.value is None or estimate.low is None or estimate.high is None:
        return [[0.0], [0.0]]
    return [[estimate.value - estimate.low], [estimate.high - estimate.value]]
