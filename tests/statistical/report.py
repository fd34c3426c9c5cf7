"""What a full run found, as Markdown tables for people."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from calibration import Promise
from tests.statistical.cells import CELLS, Study
from tests.statistical.design import most_errors
from tests.statistical.harness import Tally
from tests.statistical.policies import DELTA, Structure

PATH = Path(__file__).parents[2] / "runs" / "statistical" / "violations.md"


@dataclass(frozen=True)
class Found:
    """What one study found.

    Attributes:
        alphas: its risk levels.
        tallies: by structure and promise.
    """

    study: Study
    alphas: tuple[float, ...]
    tallies: Mapping[tuple[str, Promise], Tally]

    def shares(self, promise: Promise, structures: Iterable[str] = tuple(Structure)) -> list[float]:
        """Violations per fit of each structure."""
        tallies = [self.tallies[structure, promise] for structure in structures]
        return [tally.violations / tally.fits for tally in tallies]


def write(found: Sequence[Found], path: Path = PATH) -> None:
    """Write all tables; the finite-sample tests and the asymptotic one apart."""
    finite = [one for one in found if not one.study.asymptotic]
    asymptotic = [one for one in found if one.study.asymptotic]
    parts = [
        f"{len(found)} studies, 2,000 fits each, δ = {100 * DELTA:g} %; "
        f"at most {_percent(most_errors(2000, DELTA, CELLS) / 2000)} allowed in a cell.",
        "## Finite-sample tests, largest share of violations by structure",
        _by_structure(finite),
        "## Normal approximation, largest share of violations by structure",
        _by_structure(asymptotic),
        "## Every study",
        _by_study(found),
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n\n".join(parts) + "\n", "utf-8")


def _by_structure(found: Sequence[Found]) -> str:
    rows = []
    for structure in Structure:
        shares = [[one.shares(promise, [structure])[0] for one in found] for promise in Promise]
        rows.append([structure, *(_percent(max(of)) for of in shares)])
    return _table(["structure", *(f"{promise}, worst study" for promise in Promise)], rows)


def _by_study(found: Sequence[Found]) -> str:
    rows = [
        [
            one.study.world.name,
            one.study.risk.name,
            str(one.study.recording),
            str(one.study.kind),
            str(one.study.n),
            " / ".join(f"{alpha:.3f}" for alpha in one.alphas),
            *(_percent(max(one.shares(promise))) for promise in Promise),
            _percent(_certified(one)),
        ]
        for one in found
    ]
    names = ["world", "risk", "samples", "p-value", "n", "α", *Promise, "levels certified"]
    return _table(names, rows)


def _certified(found: Found) -> float:
    """Share of fits and levels, over structures and promises, at which anything is certified."""
    return float(np.mean([tally.certified_L / tally.fits for tally in found.tallies.values()]))


def _table(names: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [names, ["---"] * len(names), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
