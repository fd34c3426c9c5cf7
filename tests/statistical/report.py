"""The findings of a full run as Markdown tables."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from calibration import Promise
from calibration.testing.p_values import PValue
from tests.statistical.cells import CELLS, FACTORS, Study
from tests.statistical.design import most_errors
from tests.statistical.harness import Tally
from tests.statistical.policies import DELTA, Structure

PATH = Path(__file__).parents[2] / "runs" / "statistical" / "violations.md"
FITS = 2000


@dataclass(frozen=True)
class Found:
    """The findings of one study.

    Attributes:
        alphas: its risk levels.
        tallies: by structure and guarantee.
    """

    study: Study
    alphas: tuple[float, ...]
    tallies: Mapping[tuple[str, Promise], Tally]

    def share(self, promise: Promise, structure: Structure | None = None) -> float:
        """Violations per fit of a structure, or of the worst structure."""
        return max(
            tally.violations / tally.fits
            for (name, made), tally in self.tallies.items()
            if made is promise and structure in (None, name)
        )


@dataclass(frozen=True)
class AllFalse:
    """How often something was certified although everything is false, and the expected rate."""

    losses: str
    kind: PValue
    n: int
    structure: str
    share: float
    theory: float | None


@dataclass(slots=True)
class Findings:
    """The findings that tests append, by subject."""

    studies: list[Found] = field(default_factory=list)
    all_false: list[AllFalse] = field(default_factory=list)
    broken: dict[str, float] = field(default_factory=dict)

    def write(self, path: Path = PATH) -> None:
        """Write all tables, if there are any findings."""
        parts = [
            f"{FITS:,} fits each, δ = {_percent(DELTA)}; at most "
            f"{_percent(most_errors(FITS, DELTA, CELLS) / FITS)} is allowed in one of the "
            f"{CELLS:,} cells.",
        ]
        for asymptotic, title in ((False, "Finite-sample tests"), (True, "Normal approximation")):
            found = [one for one in self.studies if one.study.asymptotic is asymptotic]
            if found:
                parts += [f"## {title}: worst study", _by_structure(found), _by_size(found)]
        if self.studies:
            parts += ["## Every study: worst structure", _by_study(self.studies)]
        if self.all_false:
            parts += ["## Everything is false: certified all the same", _table_of(self.all_false)]
        if self.broken:
            rows = [[name, _percent(share)] for name, share in self.broken.items()]
            parts += ["## Broken procedures", _table(["procedure", "served falsely"], rows)]
        if len(parts) > 1:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("\n\n".join(parts) + "\n", "utf-8")


def _by_structure(found: Sequence[Found]) -> str:
    rows = [
        [
            structure,
            *(_percent(max(one.share(promise, structure) for one in found)) for promise in Promise),
        ]
        for structure in Structure
    ]
    return _table(["structure", *Promise], rows)


def _by_size(found: Sequence[Found]) -> str:
    sizes = [int(n) for n in FACTORS["n"]]
    rows = []
    for kind in PValue:
        for promise in Promise:
            shares = [
                [o.share(promise) for o in found if o.study.kind is kind and o.study.n == n]
                for n in sizes
            ]
            if any(shares):
                rows.append([kind, promise, *(_percent(max(of)) if of else "" for of in shares)])
    return _table(["p-value", "promise", *(f"n = {n:,}" for n in sizes)], rows)


def _by_study(found: Sequence[Found]) -> str:
    rows = [
        [
            one.study.world.name,
            one.study.risk.name,
            str(one.study.recording),
            one.study.kind,
            str(one.study.n),
            " / ".join(f"{alpha:.3f}" for alpha in one.alphas),
            *(_percent(one.share(promise)) for promise in Promise),
            _percent(_certified(one)),
        ]
        for one in found
    ]
    names = ["world", "risk", "samples", "p-value", "n", "α", *Promise, "levels certified"]
    return _table(names, rows)


def _certified(found: Found) -> float:
    """Share of fits and levels, over structures and promises, at which anything is certified."""
    return float(np.mean([tally.certified_L / tally.fits for tally in found.tallies.values()]))


def _table_of(found: Sequence[AllFalse]) -> str:
    rows = [
        [
            one.losses,
            one.kind,
            str(one.n),
            one.structure,
            _percent(one.share),
            "" if one.theory is None else _percent(one.theory),
        ]
        for one in found
    ]
    return _table(["losses", "p-value", "n", "structure", "certified", "theory"], rows)


def _table(names: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [names, ["---"] * len(names), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
