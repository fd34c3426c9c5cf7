"""What asking again does to the share of wrong answers, and what climbing the levels buys.

    python -m studies.statistics.asked_again [--smoke]

The recorded problems of the embedded model, with eight rollouts each, are split at random into
halves. `certify` fits a certificate to one half with its defaults; the problems of the other half
are asked. Every ask takes another rollout of its problem, as another request would. The figures are
over all splits, all problems and all starting rollouts:

- one ask of every question, at one alpha;
- climbing: a question that is declined is asked again at the next alpha;
- going on: the same, but the second ask decides on the rollout of the first;
- retrying: a question that is declined is asked again at the same alpha.

`last` is about the answers that only the last ask gives. Results go to
studies/results/asked-again.json.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from calibration import Traces, certify, read_traces
from calibration.files import write_text
from calibration.simulation.replay import outcomes
from studies.smoke import study_parser

ROOT = Path(__file__).resolve().parents[2]
TRACES = ROOT / "studies/traces/embedded-calibration-8.parquet"
RESULT = ROOT / "studies/results/asked-again.json"
ALPHAS = (0.05, 0.1, 0.2)
RETRIED = 0.1
SPLITS = 20
ROLLOUTS = 8

Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Asks:
    """Every problem (P) asked with every rollout (R) first.

    Attributes:
        answered_PR: whether the ask is answered.
        wrong_PR: whether it is answered and wrong.
        tokens_PR: generated tokens.
    """

    answered_PR: Bools
    wrong_PR: Bools
    tokens_PR: NDArray[np.int64]

    def after(self, turns: int) -> Asks:
        """The same asks, each with a later rollout of its problem."""
        return Asks(
            np.roll(self.answered_PR, -turns, axis=1),
            np.roll(self.wrong_PR, -turns, axis=1),
            np.roll(self.tokens_PR, -turns, axis=1),
        )

    def where(self, asked_PR: Bools) -> Asks:
        """The asks of some problems and rollouts; the others cost nothing and have no answer."""
        return Asks(
            self.answered_PR & asked_PR, self.wrong_PR & asked_PR, self.tokens_PR * asked_PR
        )

    @property
    def totals(self) -> tuple[int, int, int, int]:
        """Asks, answers, wrong answers, tokens."""
        answered, wrong = int(self.answered_PR.sum()), int(self.wrong_PR.sum())
        return self.answered_PR.size, answered, wrong, int(self.tokens_PR.sum())


@dataclass(frozen=True, slots=True)
class Row:
    """What came of one way of asking, over all splits together.

    Attributes:
        way: once, climbing, going on, or retrying.
        alphas: of the asks, in turn.
        splits: in which all of these alphas were certified.
        answered: share of the questions that get an answer.
        wrong: share of these answers that is wrong.
        tokens: mean tokens of a question, over all of its asks.
        last_answered: share of the questions that only the last ask answers.
        last_wrong: share of these answers that is wrong.
    """

    way: str
    alphas: tuple[float, ...]
    splits: int
    answered: float
    wrong: float
    tokens: float
    last_answered: float
    last_wrong: float

    @classmethod
    def of(cls, way: str, alphas: tuple[float, ...], found: Sequence[tuple[Asks, Asks]]) -> Self:
        """The row of what was found in each split: of all asks, and of the last."""
        (asked, answered, wrong, tokens), (_, last_answered, last_wrong, _) = (
            np.sum([one.totals for one in every], axis=0) for every in zip(*found, strict=True)
        )
        return cls(
            way,
            alphas,
            splits=len(found),
            answered=round(float(answered / asked), 4),
            wrong=round(float(wrong / max(answered, 1)), 4),
            tokens=round(float(tokens / asked), 1),
            last_answered=round(float(last_answered / asked), 4),
            last_wrong=round(float(last_wrong / max(last_answered, 1)), 4),
        )


def main() -> None:
    """Measures every way of asking, and writes the rows."""
    smoke = study_parser(__doc__).parse_args().smoke
    traces = read_traces(TRACES)
    found: dict[tuple[str, tuple[float, ...]], list[tuple[Asks, Asks]]] = {}
    for split in range(1 if smoke else SPLITS):
        asks = certified_asks(traces, split, problems=1000 if smoke else traces.n_problems)
        for way, alphas, everything, last in ways(asks):
            found.setdefault((way, alphas), []).append((everything, last))
    rows = [Row.of(way, alphas, every) for (way, alphas), every in found.items()]
    for row in rows:
        print(row)
    if not smoke:
        write_text(RESULT, json.dumps([asdict(row) for row in rows], indent=1) + "\n")


def certified_asks(traces: Traces, split: int, problems: int) -> dict[float, Asks]:
    """One half of the problems, asked at every level that the other half certifies."""
    order = np.random.default_rng(split).permutation(traces.n_problems)[:problems]
    problems_P = np.arange(traces.n_problems)
    fitted, asked = (traces.select(np.isin(problems_P, half)) for half in (order[::2], order[1::2]))
    certificate = certify(fitted, alphas=ALPHAS)
    levels = certificate.certified_levels
    came = outcomes(asked, [level.policy for level in levels])
    wrong_DT = came.answered_DT & ~came.correct_DT
    shape = asked.n_problems, ROLLOUTS
    return {
        level.alpha: Asks(
            came.answered_DT[:, number].reshape(shape),
            wrong_DT[:, number].reshape(shape),
            came.tokens_DT[:, number].reshape(shape),
        )
        for number, level in enumerate(levels)
    }


Way = tuple[str, tuple[float, ...], Asks, Asks]
"""Its name, the alphas of its asks, what came of all of them, and of the last."""


def ways(asks: dict[float, Asks]) -> Iterator[Way]:
    """All ways of asking at these levels."""
    for alpha, once in asks.items():
        yield "once", (alpha,), once, once
    steps = [*pairwise(asks)] + ([tuple(asks)] if len(asks) > 2 else [])
    for alphas in steps:
        yield "climbing", alphas, *in_turn([asks[alpha] for alpha in alphas])
        yield "going on", alphas, *going_on([asks[alpha] for alpha in alphas])
    if RETRIED in asks:
        for times in range(2, ROLLOUTS + 1):
            yield "retrying", (RETRIED,) * times, *in_turn([asks[RETRIED]] * times)


def in_turn(asks: Sequence[Asks]) -> tuple[Asks, Asks]:
    """Asks until one is answered, each with the next rollout; all of them, and the last alone."""
    total = last = asks[0]
    for number, later in enumerate(asks[1:], 1):
        last = later.after(number).where(~total.answered_PR)
        total = Asks(
            total.answered_PR | last.answered_PR,
            total.wrong_PR | last.wrong_PR,
            total.tokens_PR + last.tokens_PR,
        )
    return total, last


def going_on(asks: Sequence[Asks]) -> tuple[Asks, Asks]:
    """The answer of the first ask that gives one, all on the same rollout."""
    total = last = asks[0]
    for later in asks[1:]:
        last = later.where(~total.answered_PR)
        total = Asks(
            total.answered_PR | last.answered_PR,
            total.wrong_PR | last.wrong_PR,
            np.maximum(total.tokens_PR, last.tokens_PR),
        )
    return total, last


if __name__ == "__main__":
    main()
