"""The reports of the pilot, and of the best idea on seeds of its own, as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from studies.paper.primary.design import (
    ACCURACY_MARGIN,
    LEAST_COMMON,
    LEVEL,
    PILOT_SEEDS,
    POSTHOC,
    REFERENCE,
    RICHER,
    SEEDS,
    WITHIN,
)
from studies.paper.primary.result import PrimaryResult
from studies.paper.primary.secondary import (
    OUT_OF_DOMAIN,
    TRAINED,
    PanelFigures,
    Reading,
    panel_figures,
)
from studies.paper.primary.secondary_tables import differences_table, values_table
from studies.paper.primary.tables import HEAD, verdict_row
from studies.paper.primary.verdicts import RESAMPLES, Verdict, judged
from studies.paper.within.design import (
    BEST,
    IDEAS,
    OWN_ENDPOINTS,
    OWN_METHODS,
    PILOT_METHODS,
    RLCM,
)

Results = Mapping[str, PrimaryResult]


def pilot_text(results: Results, number: int = RESAMPLES) -> str:
    """Values and differences of the ideas, and which one is to be confirmed.

    Args:
        results: of this study and of the primary comparison's pilot.
        number: of resamples of the problems.
    """
    if missing := _missing(results, PILOT_METHODS, PILOT_SEEDS, "make paper-primary ARGS=--pilot"):
        return missing
    parts = ["No verdict: three seeds, and the best of several ideas looks better than it is."]
    for panel in (TRAINED, OUT_OF_DOMAIN):
        found = panel_figures(results, PILOT_SEEDS, panel, number, PILOT_METHODS)
        parts.append(f"**{panel.title.capitalize()}**, {found.n_common} problems mixed in all.")
        parts += _by_probe(found, PILOT_METHODS, [(idea, RLCM) for idea in IDEAS])
        if panel is TRAINED:
            verdicts = _judged(found, len(PILOT_SEEDS))
            after = [_choice(found), _hypotheses(verdicts, is_complete=False)]
    return "\n\n".join([*parts, *after])


def own_text(results: Results, number: int = RESAMPLES) -> str:
    """What the best idea changes against RLCM; nothing before every seed is there.

    Args:
        results: of this study and of the primary comparison.
        number: of resamples of the problems.
    """
    if missing := _missing(results, OWN_METHODS, SEEDS, "make paper-primary"):
        return missing
    parts = []
    for panel in (TRAINED, OUT_OF_DOMAIN):
        found = panel_figures(results, SEEDS, panel, number, OWN_METHODS)
        parts.append(f"**{panel.title.capitalize()}**, {found.n_common} problems mixed in all.")
        if panel is TRAINED:
            verdicts = _judged(found, len(SEEDS))
            parts += [_hypotheses(verdicts, is_complete=True), _what_follows(*verdicts)]
        parts += _by_probe(found, OWN_METHODS, [(BEST, RLCM), (BEST, REFERENCE)])
    return "\n\n".join(parts)


def _missing(
    results: Results, methods: Sequence[str], seeds: Sequence[int], others: str
) -> str | None:
    """Which runs are missing, and what makes them; None if there are all.

    Args:
        others: the command that makes the runs of the primary comparison.
    """
    names = [f"{method}-{seed}" for method in methods for seed in seeds]
    missing = [name for name in names if name not in results]
    if not missing:
        return None
    return (
        f"{len(names) - len(missing)} of {len(names)} runs are there; missing: "
        f"{', '.join(missing)}. `{others}` makes those of {REFERENCE} and {RLCM}, "
        "`make paper-within` the others."
    )


def _by_probe(
    found: PanelFigures, methods: Sequence[str], pairs: Sequence[tuple[str, str]]
) -> Iterator[str]:
    """Values of the methods, and differences of the pairs, by each probe."""
    for probe in (POSTHOC, RICHER):
        yield values_table(found, [Reading(name, probe) for name in methods])
        compared = [(Reading(one, probe), Reading(other, probe)) for one, other in pairs]
        yield differences_table(found, compared)


def _hypotheses(verdicts: Sequence[Verdict], *, is_complete: bool) -> str:
    """A line for each endpoint of the best idea."""
    rows = [verdict_row(one, is_complete) for one in verdicts]
    return "\n".join([f"Differences are to {RLCM}, by the post-hoc probe.", "", *HEAD, *rows])


def _judged(found: PanelFigures, n_seeds: int) -> list[Verdict]:
    """The best idea at both endpoints, under Holm's correction over both."""
    differences = {
        (BEST, endpoint): found.crossed(_read(BEST), _read(RLCM), endpoint.name)
        for endpoint in OWN_ENDPOINTS
    }
    return judged(differences, n_seeds)


def _what_follows(within: Verdict, accuracy: Verdict) -> str:
    """Whether the best idea is confirmed: it tells more, and is not less often right."""
    p = 1.0 if accuracy.difference is None else accuracy.difference.p_above(-ACCURACY_MARGIN)
    is_confirmed = within.text == "better" and p < LEVEL
    return (
        f"The test against a loss of accuracy of {ACCURACY_MARGIN:g} or more has p = {p:.3g}. "
        + (f"To be confirmed: {BEST}." if is_confirmed else f"{BEST} stays a result.")
    )


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
        gain = found.difference(_read(method), _read(RLCM), WITHIN.name).value
        lost = found.difference(_read(method), _read(RLCM), "accuracy").value
        if gain is not None and gain > 0 and lost is not None and lost > -ACCURACY_MARGIN:
            gains[method] = gain
    return max(gains, key=gains.__getitem__) if gains else None


def _read(method: str) -> Reading:
    return Reading(method, POSTHOC)
