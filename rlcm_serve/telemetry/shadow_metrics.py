"""Metrics of shadow runs: how often the full budget gives another answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from prometheus_client import Metric
from prometheus_client.metrics_core import GaugeMetricFamily

if TYPE_CHECKING:
    from rlcm_serve.store.answers.figures import LevelFigures

_LEVEL = ("certificate", "risk", "alpha")
_FIGURES = {
    "disagreement": "Share of the answers for which the full budget gives another one.",
    "low": "Lower end of its confidence sequence, which holds however often you look.",
    "high": "Upper end of its confidence sequence; the regret so far is at most this.",
}
_OUTCOMES = {"agree": "agrees", "disagree": "differs"} | {
    name: name for name in ("missing", "waiting", "dropped")
}


def shadowed(levels: Sequence[LevelFigures]) -> Iterator[Metric]:
    """The families of the levels that have shadow runs."""
    found = [
        ((level.certificate[:12], level.risk, f"{level.alpha:g}"), level.shadow)
        for level in levels
        if level.shadow is not None
    ]
    for field, text in _FIGURES.items():
        suffix = "" if field == "disagreement" else f"_{field}"
        family = GaugeMetricFamily(f"rlcm_live_disagreement{suffix}", text, labels=_LEVEL)
        for names, shadow in found:
            if (value := getattr(shadow, field)) is not None:
                family.add_metric(names, value)
        yield family
    runs = GaugeMetricFamily(
        "rlcm_shadow_runs",
        "Answers drawn for a shadow run, by its outcome; dropped ones have had no place for it.",
        labels=(*_LEVEL, "outcome"),
    )
    for names, shadow in found:
        for field, outcome in _OUTCOMES.items():
            runs.add_metric((*names, outcome), getattr(shadow, field))
    yield runs
