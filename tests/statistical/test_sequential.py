"""Sequential certificates: one may look at any time, stop when one likes, and add problems.

Losses are drawn from worlds whose risks are known, a fit looks at them again and again, and errs if
anything false is certified at any look. What the certificates do not lift is shown to break: the
same looks with a test for a fixed number of units, and easy problems first.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from calibration import Promise, Traces
from calibration.certificate import batches
from calibration.certificate.batches import Batches
from calibration.certificate.fitting.tested import certify_policies
from calibration.certificate.sequential import certify_sequential, sequential_design
from calibration.simulation.losses import Losses
from calibration.simulation.risks import RISKS
from calibration.testing.families import Family
from calibration.testing.p_values import PValue, p_values
from tests.statistical.design import fewest_errors, most_errors
from tests.statistical.policies import DELTA, Structure
from tests.statistical.population import Population, Recording
from tests.statistical.report import FITS
from tests.statistical.worlds import (
    CALIBRATED,
    CLUSTERED,
    CONSTANT,
    GUESSING,
    OVERTHINKING,
    World,
)

RISK = 0.2
ALPHA = RISK * (1 - 1e-9)
LOOKS = (50, 100, 200, 400)
CELLS = 12
CASES = [
    (CALIBRATED, "selective", Recording(1, 1), Structure.SEQUENCE),
    (GUESSING, "error", Recording(1, 1), Structure.HOLM),
    (OVERTHINKING, "regret", Recording(1, 1), Structure.CHAINS),
    (CLUSTERED, "selective", Recording(4, 1), Structure.CHAINS),
]


def ever_false(
    population: Population,
    structure: Structure,
    kind: PValue,
    fits: int,
    arrange: Callable[[NDArray[np.bool_]], NDArray[np.intp]] = lambda lost_U: np.arange(
        len(lost_U)
    ),
) -> int:
    """Fits in which a policy is certified above its alpha at any look.

    Args:
        arrange: the order in which drawn units arrive, from whether each loses under any policy.
    """
    alphas = population.levels()
    family: Family = population.grid.families(alphas)[structure]
    columns = population.grid.columns(family.policies)
    null_LT = population.risk_T[columns] > np.array(alphas)[:, None]
    rng = np.random.default_rng(21)
    found = 0
    for _ in range(fits):
        losses = population.sample(rng, LOOKS[-1]).select(columns)
        losses = losses.take(arrange(losses.loss_UT.any(axis=1)))
        found += any(
            bool(
                certify_policies(
                    losses.take(np.arange(n)), family, alphas, DELTA, Promise.SIMULTANEOUS, kind
                ).certified_LT[null_LT].any()
            )
            for n in LOOKS
        )  # fmt: skip
    return found


def replayed(world: World, risk: str, recording: Recording) -> Population:
    return Population.replayed(world, RISKS[risk], recording, 5_000, seed=5)


def named(value: object) -> str:
    """A name that is the same in every process, unlike the address of a world's function."""
    return value.name if isinstance(value, World) else str(value)


@pytest.mark.slow
@pytest.mark.parametrize(("world", "risk", "recording", "structure"), CASES[:2], ids=named)
def test_one_may_look_at_any_time(
    world: World, risk: str, recording: Recording, structure: Structure
) -> None:
    population = replayed(world, risk, recording)
    found = ever_false(population, structure, PValue.ANYTIME, fits=25)
    assert found <= most_errors(25, DELTA, CELLS)


@pytest.mark.statistical
@pytest.mark.parametrize(("world", "risk", "recording", "structure"), CASES, ids=named)
def test_one_may_look_at_any_time_in_full(
    world: World, risk: str, recording: Recording, structure: Structure
) -> None:
    population = replayed(world, risk, recording)
    found = ever_false(population, structure, PValue.ANYTIME, FITS)
    assert found <= most_errors(FITS, DELTA, CELLS)


def peeks(kind: PValue, n: int, fits: int, easy_first: bool = False) -> int:
    """Fits that ever certify alpha for one policy at a risk just above it, looking every 20."""
    rng = np.random.default_rng(22)
    lost_UF = rng.random((n, fits)) < 0.1 * (1 + 1e-9)
    if easy_first:
        lost_UF = np.sort(lost_UF, axis=0)
    loss_UF = lost_UF.astype(float)
    looks = (20, n) if kind is PValue.ANYTIME else range(20, n + 1, 20)
    ever_F = np.zeros(fits, dtype=np.bool_)
    for look in looks:
        ever_F |= p_values(Losses.unweighted(loss_UF[:look]), 0.1, kind, 3, DELTA) <= DELTA
    return int(ever_F.sum())


def test_a_look_after_every_unit_keeps_delta() -> None:
    """The p-value after the last unit counts the best of all looks."""
    fits = 1000
    found = peeks(PValue.ANYTIME, 600, fits)
    assert fewest_errors(fits, 0.3 * DELTA, 1) <= found <= most_errors(fits, DELTA, CELLS)


@pytest.mark.parametrize("kind", [PValue.BINOMIAL, PValue.BETTING])
def test_a_test_for_a_fixed_number_of_problems_breaks_if_one_looks_again(kind: PValue) -> None:
    fits = 400
    assert peeks(kind, 400, fits) >= fewest_errors(fits, 1.8 * DELTA, CELLS)


def test_easy_problems_first_break_it() -> None:
    """What the order of arrival can do, and what no test of this kind can mend."""
    fits = 200
    assert peeks(PValue.ANYTIME, 400, fits, easy_first=True) == fits


def test_problems_that_are_added_only_where_an_answer_was_wrong_break_nothing() -> None:
    """Whether to go on may depend on everything so far; what comes then is drawn as before."""
    rng = np.random.default_rng(23)
    fits, found = 150, 0
    for _ in range(fits):
        loss_U = np.zeros(0)
        while len(loss_U) < 300:
            added = 20 if loss_U[-10:].any() else 80
            loss_U = np.append(loss_U, rng.random(added) < 0.2 * (1 + 1e-9))
            losses = Losses.unweighted(loss_U[:, None])
            if p_values(losses, 0.2, PValue.ANYTIME)[0] <= DELTA:
                found += 1
                break
    assert found <= most_errors(fits, DELTA, CELLS)


def test_an_addition_that_is_chosen_by_its_labels_breaks_it() -> None:
    """Of two batches, the one with fewer wrong answers is added."""
    rng = np.random.default_rng(24)
    fits = 300
    draws = rng.random((2, 8, 50, fits)) < 0.2 * (1 + 1e-9)
    fewer = draws.sum(axis=2).argmin(axis=0)
    loss_UF = np.take_along_axis(draws, fewer[None, :, None, :], axis=0)[0].reshape(400, fits)
    p_F = p_values(Losses.unweighted(loss_UF.astype(float)), 0.2, PValue.ANYTIME)
    assert (p_F <= DELTA).sum() >= fewest_errors(fits, 2 * DELTA, CELLS)


def sorted_by_labels(rng: np.random.Generator) -> Traces:
    """120 problems with a risk of .2; the first names are those of right answers."""
    return labelled(rng, np.sort(rng.random(120) < RISK), (None,) * 120)


def of_two_sizes(rng: np.random.Generator) -> Traces:
    """120 single problems with a risk of .05, and 60 groups of 4 with a risk of .275.

    Of the questions .2 are wrong, of the groups .125.
    """
    sizes = np.where(rng.permutation(180) < 60, 4, 1)
    unit_P = np.repeat(np.arange(180), sizes)
    wrong_P = (rng.random(180) < RISK * np.where(sizes == 4, 1.375, 0.25))[unit_P]
    return labelled(rng, wrong_P, tuple(f"g{unit:03d}" for unit in unit_P))


def labelled(
    rng: np.random.Generator, wrong_P: NDArray[np.bool_], groups: tuple[str | None, ...]
) -> Traces:
    """Problems of the constant world with these labels, whatever their readings."""
    drawn = CONSTANT.draw(rng, len(wrong_P))
    return replace(
        drawn,
        groups=groups,
        correct_RC=np.broadcast_to(~wrong_P[:, None], drawn.correct_RC.shape),
        answer_class_RC=np.where(wrong_P[:, None], 1, 0) + 0 * drawn.answer_class_RC,
    )


def false_certificates(draw: Callable[[np.random.Generator], Traces], fits: int, **how: Any) -> int:
    """Fits in which the full budget is certified, whose risk is just above alpha."""
    rng = np.random.default_rng(25)
    found = 0
    for _ in range(fits):
        traces = draw(rng)
        design = sequential_design(
            traces, 120, risk="error", alphas=(ALPHA,), method="fixed-sequence", **how
        )
        found += certify_sequential(traces, design).levels[0].certified
    return found


@pytest.fixture(params=[40, pytest.param(FITS, marks=pytest.mark.statistical)])
def fits(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.mark.slow
def test_labels_that_follow_names_break_nothing(fits: int) -> None:
    assert false_certificates(sorted_by_labels, fits) <= most_errors(fits, DELTA, CELLS)


@pytest.mark.slow
def test_labels_that_follow_group_sizes_break_nothing(fits: int) -> None:
    found = false_certificates(of_two_sizes, fits, max_group_size=4)
    assert found <= most_errors(fits, DELTA, CELLS)


@pytest.mark.slow
def test_a_test_in_the_order_of_names_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken: a batch is tested as its names come, and the right answers have the first ones."""

    def by_name(_: Batches, batch: object, place: Mapping[str, int], traces: Traces) -> Any:
        return np.array([place[key] for key in dict.fromkeys(batches._keys(traces))])

    monkeypatch.setattr(Batches, "_rows", by_name)
    assert false_certificates(sorted_by_labels, 100) > most_errors(100, DELTA, CELLS)


@pytest.mark.slow
def test_groups_that_count_the_same_are_caught_where_large_ones_are_hard(fits: int) -> None:
    """Broken for a sentence about questions: the risk per group is .125, and per question .2."""
    found = false_certificates(of_two_sizes, fits, average="groups")
    assert found > most_errors(fits, DELTA, CELLS)
