"""The report of the pilot as text."""

from __future__ import annotations

from collections.abc import Mapping

from studies.paper.primary.design import ACCURACY_MARGIN, LEAST_COMMON, PILOT_SEEDS, POSTHOC
from studies.paper.primary.result import PrimaryResult
from studies.paper.primary.secondary import (
    OUT_OF_DOMAIN,
    TRAINED,
    PanelFigures,
    Reading,
    panel_figures,
)
from studies.paper.primary.secondary_tables import differences_table, values_table
from studies.paper.primary.verdicts import RESAMPLES
from studies.paper.within.design import DECIDING, IDEAS, PILOT_METHODS, REFERENCE

Results = Mapping[str, PrimaryResult]


def pilot_text(results: Results, number: int = RESAMPLES) -> str:
    """Values and differences of the ideas, and which one is to be confirmed.

    Args:
        results: of this study and of the primary comparison's pilot.
        number: of resamples of the problems.
    """
    names = [f"{method}-{seed}" for method in PILOT_METHODS for seed in PILOT_SEEDS]
    if missing := [name for name in names if name not in results]:
        return (
            f"{len(names) - len(missing)} of {len(names)} runs are there; missing: "
            f"{', '.join(missing)}. `make paper-primary ARGS=--pilot` makes those of grpo and "
            "rlcm, `make paper-within` the others."
        )
    parts = ["No verdict: three seeds, and the best of several ideas looks better than it is."]
    for panel in (TRAINED, OUT_OF_DOMAIN):
        found = panel_figures(results, PILOT_SEEDS, panel, number, PILOT_METHODS)
        parts.append(f"**{panel.title.capitalize()}**, {found.n_common} problems mixed in all.")
        parts.append(values_table(found, [_read(method) for method in PILOT_METHODS]))
        pairs = [(_read(method), _read(REFERENCE)) for method in IDEAS]
        parts.append(differences_table(found, pairs))
        if panel is TRAINED:
            best = _choice(found)
    parts.append(best)
    return "\n\n".join(parts)


def _choice(found: PanelFigures) -> str:
    """What follows from the trained kinds."""
    if found.n_common < LEAST_COMMON:
        return (
            f"Nothing is chosen: {found.n_common} problems are mixed in every run, and "
            f"{LEAST_COMMON} are needed."
        )
    best = to_confirm(found)
    return f"To be confirmed: {best}." if best else "No idea keeps the accuracy and gains: none."


def to_confirm(found: PanelFigures) -> str | None:
    """The idea with the highest AUROC within a question of those that keep RLCM's accuracy.

    None if no idea is above RLCM in the mean.
    """
    gains = {}
    for method in IDEAS:
        gain = found.difference(_read(method), _read(REFERENCE), DECIDING).value
        lost = found.difference(_read(method), _read(REFERENCE), "accuracy").value
        if gain is not None and gain > 0 and lost is not None and lost > -ACCURACY_MARGIN:
            gains[method] = gain
    return max(gains, key=gains.__getitem__) if gains else None


def _read(method: str) -> Reading:
    return Reading(method, POSTHOC)
