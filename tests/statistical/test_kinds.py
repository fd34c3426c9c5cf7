"""Certificates of single kinds: with probability 1 - delta none of them is false, all at once.

Every problem of a kind is wrong with the same known probability, so the risk of the one policy is
known for each kind and for all kinds together. A fit errs if any certificate of it is false.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from calibration import FULL_BUDGET, Certificate, Chain, Traces, certify, certify_kinds
from calibration.certificate.kinds import POOLED_SHARE
from calibration.simulation.risks import SELECTIVE
from calibration.testing.chains import family_of_chains
from tests.statistical.design import most_errors
from tests.statistical.one_reading import one_reading
from tests.statistical.policies import DELTA
from tests.statistical.report import FITS

ALPHA, CELLS = 0.2, 20
ONE_POLICY: Mapping[str, Any] = {
    "alphas": (ALPHA,),
    "delta": DELTA,
    "risk": SELECTIVE,
    "family": family_of_chains([[Chain((FULL_BUDGET,), 1.0)]], "one policy"),
    "method": "chains",
}


@dataclass(frozen=True)
class KindsWorld:
    """Kinds of questions, how often each is asked, and how often its answers are wrong."""

    share: Mapping[str, float]
    wrong: Mapping[str, float]

    def risk(self, kind: str | None) -> float:
        """The share of wrong answers among questions of a kind, or of all kinds."""
        if kind is not None:
            return self.wrong[kind]
        return sum(self.share[one] * self.wrong[one] for one in self.share)

    def draw(self, rng: np.random.Generator, n: int) -> Traces:
        names = sorted(self.share)
        kind_P = rng.choice(len(names), size=n, p=[self.share[name] for name in names])
        wrong_P = rng.random(n) < np.array([self.wrong[name] for name in names])[kind_P]
        kinds = tuple(names[kind] for kind in kind_P)
        return one_reading(wrong_P, np.full(n, 0.5), kinds=kinds)


ABOVE = ALPHA * (1 + 1e-6)
ALL_FALSE = KindsWorld(dict.fromkeys("abcd", 0.25), dict.fromkeys("abcd", ABOVE))
"""Every kind has a risk just above alpha, and so has the average."""
ONE_HARD = KindsWorld({"easy": 0.9, "hard": 0.1}, {"easy": 0.03, "hard": 0.42})
"""Wrong: .069 of all questions."""
SELDOM_ENOUGH = KindsWorld({"a": 0.55, "b": 0.45}, {"a": ABOVE, "b": ABOVE})
"""Whether a kind has enough labels depends on how many of it were drawn."""


def hard_groups_first(rng: np.random.Generator) -> Traces:
    """Two kinds, in each singles that are wrong half as often as alpha says, and groups of four.

    Groups are wrong as one. Of the questions of each kind, just above alpha are wrong; of the
    groups, .15. The wrong ones have the first names.
    """
    units = 120
    large_U = rng.permutation(units) < units // 3
    wrong_U = rng.random(units) < ABOVE * np.where(large_U, 1.25, 0.5)
    order_U = np.argsort(~wrong_U, kind="stable")
    large_U, wrong_U = large_U[order_U], wrong_U[order_U]
    unit_P = np.repeat(np.arange(units), np.where(large_U, 4, 1))
    drawn = ALL_FALSE.draw(rng, len(unit_P))
    kind_U = rng.integers(2, size=units)
    return replace(
        drawn,
        correct_RC=~wrong_U[unit_P][:, None],
        groups=tuple(f"g{unit:03d}" for unit in unit_P),
        kinds=tuple("ab"[kind] for kind in kind_U[unit_P]),
    )


Fit = Callable[[Traces], Sequence[Certificate]]


def together(traces: Traces) -> list[Certificate]:
    return certify_kinds(traces, **ONE_POLICY)


def each_at_delta(traces: Traces) -> list[Certificate]:
    """Broken: every kind is certified as if it were the only one."""
    kinds = sorted(set(filter(None, traces.kinds or ())))
    return [certify(traces.of_kind(kind), **ONE_POLICY) for kind in kinds]


def kinds_of_labels(traces: Traces) -> list[Certificate]:
    """Broken: a kind was declared after looking at the labels, around what went well."""
    right_P = traces.correct_RC[:, 0]
    best = right_P | (np.arange(traces.n_problems) % 10 == 0)
    return [certify(traces.select(best), **ONE_POLICY)]


def violations(
    world: KindsWorld, fit: Fit, n: int, fits: int, risks: Callable[[Certificate], float]
) -> int:
    """Fits with a certificate whose risk is above alpha although it is certified."""
    rng = np.random.default_rng(3)
    false = 0
    for _ in range(fits):
        made = fit(world.draw(rng, n))
        false += any(risks(one) > ALPHA for one in made if one.levels[0].certified)
    return false


@pytest.fixture(params=[200, pytest.param(FITS, marks=pytest.mark.statistical)])
def fits(request: pytest.FixtureRequest) -> int:
    return int(request.param)


pytestmark = pytest.mark.slow


def test_no_certificate_of_any_kind_is_false(fits: int) -> None:
    found = violations(ALL_FALSE, together, 400, fits, lambda made: ALL_FALSE.risk(made.about))
    assert 0 < found <= most_errors(fits, DELTA, CELLS)


def test_kinds_certified_apart_are_false_too_often(fits: int) -> None:
    found = violations(ALL_FALSE, each_at_delta, 400, fits, lambda _: ABOVE)
    assert found > 1.3 * most_errors(fits, DELTA, CELLS)


def test_the_average_over_all_kinds_says_nothing_about_one(fits: int) -> None:
    """So its statement says that nothing is promised for a kind with too few labels."""

    def pooled(traces: Traces) -> list[Certificate]:
        return together(traces)[:1]

    hardest = max(ONE_HARD.wrong.values())
    assert violations(ONE_HARD, pooled, 200, fits, lambda _: hardest) > fits / 2
    own = violations(ONE_HARD, together, 800, fits, lambda made: ONE_HARD.risk(made.about))
    assert own <= most_errors(fits, DELTA, CELLS)


def test_a_kind_declared_by_its_labels_is_caught(fits: int) -> None:
    found = violations(ALL_FALSE, kinds_of_labels, 400, fits, lambda _: ABOVE)
    assert found > 2 * most_errors(fits, DELTA, CELLS)


def test_the_number_of_kinds_with_enough_labels_may_depend_on_the_sample(fits: int) -> None:
    rng = np.random.default_rng(4)
    counts, false = set(), {"pooled": 0, "kinds": 0}
    for _ in range(fits):
        pooled, *single = together(SELDOM_ENOUGH.draw(rng, 85))
        counts.add(len(single))
        false["pooled"] += pooled.levels[0].certified
        false["kinds"] += any(one.levels[0].certified for one in single)
    assert len(counts) > 1
    assert false["pooled"] <= most_errors(fits, POOLED_SHARE * DELTA, CELLS)
    assert false["kinds"] <= most_errors(fits, (1 - POOLED_SHARE) * DELTA, CELLS)


def false_fits(fits: int, **how: Any) -> int:
    """Fits with a false certificate where labels depend on names and on the sizes of groups."""
    rng = np.random.default_rng(5)
    made = (certify_kinds(hard_groups_first(rng), **ONE_POLICY, **how) for _ in range(fits))
    return sum(any(one.levels[0].certified for one in of_all) for of_all in made)


def test_labels_that_follow_names_and_group_sizes_break_nothing(fits: int) -> None:
    assert false_fits(fits, max_group_size=4) <= most_errors(fits, DELTA, CELLS)


def test_groups_of_a_kind_that_count_the_same_are_caught(fits: int) -> None:
    """Broken for a sentence about the questions of a kind."""
    assert false_fits(fits, average="groups") > 1.3 * most_errors(fits, DELTA, CELLS)
