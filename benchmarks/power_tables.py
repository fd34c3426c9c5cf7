"""Tables of the power study, in Markdown, from the cells that `power_study.py` left.

    python benchmarks/power_tables.py [FOLDER]

Figures are means over draws of problems. A level that is not certified counts as the full budget,
nothing saved, and for risks that may abstain as no question answered. A method is behind by the
points that the best valid one gains over it: in tokens saved, or where it may abstain in questions
answered and right; tokens then count against those that answer right as many, but for 2 points.
"""

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

METHODS = ("fixed-sequence", "chains", "rescaled-chains", "split", "holm", "bonferroni")
INVALID = "clt"
POINTS = 0.02
DISTORTED = ("embedded", "overconfident", "underconfident")
ROLLOUTS = "8 rollouts"
APART = ", 1 of 8"


@dataclass(frozen=True)
class Fit:
    """One way to certify one level, in a cell."""

    method: str
    p_value: str
    values: dict[str, Any]
    level: int

    def __getitem__(self, name: str) -> float:
        return float(self.values[name][self.level])


@dataclass(frozen=True)
class Case:
    """One level of a cell under one promise, and all that was tried on it."""

    cell: dict[str, Any]
    promise: str
    level: int
    fits: list[Fit]

    @property
    def default(self) -> Fit:
        return self.of(self.cell["default"])

    def of(self, method: str) -> Fit:
        """The method with the p-value that is its own."""
        return next(fit for fit in self.fits if fit.method == method)

    @property
    def abstains(self) -> bool:
        return bool(self.cell["risk"] == "selective")

    @property
    def measures(self) -> tuple[str, ...]:
        return ("right", "saved") if self.abstains else ("saved",)

    def ahead(self, fit: Fit, measure: str) -> tuple[float, Fit]:
        """The valid way that gains most over `fit`, and how much."""
        rivals = [
            rival
            for rival in self.fits
            if rival.p_value != INVALID
            and (measure == "right" or not self.abstains or rival["right"] >= fit["right"] - POINTS)
        ]
        best = max(rivals, key=lambda rival: rival[measure])
        return best[measure] - fit[measure], best


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "runs/power")
    cells = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    cases = [case for cell in cells for case in cases_of(cell)]
    repeats = sorted({cell["repeats"] for cell in cells})
    print(f"{len(cells)} cells, {len(cases)} levels, {repeats} draws each.")
    print_table("The real trace", real_trace(cases))
    for risk in ("regret", "selective", "error"):
        print_table(f"Methods, {risk}, pointwise", methods(cases, risk))
    print_table("Default, both promises", promises(cases))
    print_table("P-values for averaged losses, pointwise", p_values(cases))
    print_table("Samples per question, selective, pointwise", samples(cases))
    print_table("Points behind the best valid way", behind(cases))
    print_table("Broken promises", broken(cells))
    print_table("Where the default is more than 2 points behind", losses(cases))


def cases_of(cell: dict[str, Any]) -> Iterator[Case]:
    for promise in ("simultaneous", "pointwise"):
        for level in range(len(cell["alphas"])):
            fits = [
                Fit(values["method"], values["p_value"], values, level)
                for values in cell["fits"]
                if values["promise"] == promise
            ]
            yield Case(cell, promise, level, fits)
