"""Labels of a share of the problems: valid whatever is predicted, and however labels are divided.

Losses are drawn with a risk just above alpha, many fits at once, and a fit errs if the anytime test
ever rejects. What breaks it is shown too: labels that are chosen, weights that do not fit the
probabilities, predictions that know the labels, and bets that know no smallest probability.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from calibration import Traces
from calibration.certificate.sequential import certify_sequential, sequential_design
from calibration.simulation.losses import DrawnLabels, Losses
from calibration.testing.p_values import PValue, p_values
from tests.statistical.design import most_errors
from tests.statistical.one_reading import one_reading
from tests.statistical.policies import DELTA
from tests.statistical.report import FITS

RISK = 0.15
ALPHA = RISK * (1 - 1e-9)
LEAST = 0.1
CELLS = 40
Array = NDArray[np.float64]

PREDICTIONS: dict[str, Callable[[Array, np.random.Generator], Array]] = {
    "good": lambda chance, _: chance,
    "useless": lambda chance, _: np.full_like(chance, 0.5),
    "noise": lambda chance, rng: rng.random(chance.shape),
    "inverted": lambda chance, _: 1 - chance,
    "never wrong": lambda chance, _: np.zeros_like(chance),
    "always wrong": lambda chance, _: np.ones_like(chance),
    "extreme": lambda chance, _: np.where(chance > RISK, 0.0, 1.0),
}
PROBABILITIES: dict[str, Callable[[Array], Array]] = {
    "even": lambda chance: np.full_like(chance, LEAST),
    "doubtful more often": lambda chance: np.clip(chance, LEAST, 1.0),
    "sure more often": lambda chance: np.where(chance < RISK, 0.5, LEAST),
    "all or hardly any": lambda chance: np.where(chance > RISK, 1.0, LEAST),
}


def drawn_losses(
    rng: np.random.Generator, n: int, fits: int, predictions: str, probabilities: str
) -> Losses:
    """Units x fits; the chance that a unit is wrong differs, and is RISK on average."""
    chance_UF = rng.beta(0.3, 0.3 * (1 - RISK) / RISK, (n, fits))
    loss_UF = (rng.random((n, fits)) < chance_UF).astype(float)
    probability_UF = PROBABILITIES[probabilities](chance_UF)
    labelled_UF = rng.random((n, fits)) < probability_UF
    predicted_UF = PREDICTIONS[predictions](chance_UF, rng)
    drawn = DrawnLabels(labelled_UF, probability_UF, LEAST, predicted_UF)
    return Losses.unweighted(loss_UF).with_labels(drawn)


def errors(losses: Losses) -> int:
    """Fits that ever certify alpha."""
    return int((p_values(losses, ALPHA, PValue.ANYTIME) <= DELTA).sum())


@pytest.mark.parametrize("probabilities", PROBABILITIES)
@pytest.mark.parametrize("predictions", PREDICTIONS)
def test_it_holds_whatever_is_predicted_and_whoever_is_labelled(
    predictions: str, probabilities: str
) -> None:
    rng = np.random.default_rng([31, len(predictions), len(probabilities)])
    losses = drawn_losses(rng, 400, 100, predictions, probabilities)
    assert errors(losses) <= most_errors(100, DELTA, CELLS)


@pytest.mark.statistical
@pytest.mark.parametrize("probabilities", PROBABILITIES)
@pytest.mark.parametrize("predictions", PREDICTIONS)
def test_it_holds_in_full(predictions: str, probabilities: str) -> None:
    rng = np.random.default_rng([32, len(predictions), len(probabilities)])
    losses = drawn_losses(rng, 3000, FITS, predictions, probabilities)
    assert errors(losses) <= most_errors(FITS, DELTA, CELLS)


def dropping_wrong_answers(losses: Losses, drawn: DrawnLabels) -> DrawnLabels:
    """Half of the wrong answers are asked again until another problem stands in their place."""
    kept_UF = (losses.loss_UT == 0) | (np.arange(losses.n_units)[:, None] % 2 == 0)
    return replace(drawn, labelled_U1=drawn.labelled_U1 & kept_UF)


def counting_labels_alike(losses: Losses, drawn: DrawnLabels) -> DrawnLabels:
    """Sure problems have more labels, and every label counts the same."""
    mean = float(drawn.probability_U1.mean())
    return replace(drawn, probability_U1=np.full_like(drawn.probability_U1, mean), least=mean)


def predicting_with_the_labels(losses: Losses, drawn: DrawnLabels) -> DrawnLabels:
    """Predictions fitted on the labels of the test: perfect there, and "right" elsewhere."""
    return replace(drawn, predicted_UT=losses.loss_UT)


def betting_too_much(losses: Losses, drawn: DrawnLabels) -> DrawnLabels:
    """A smallest probability that is larger than some are: debts are forgiven."""
    return replace(drawn, least=0.5)


BROKEN = [
    (dropping_wrong_answers, "even"),
    (counting_labels_alike, "sure more often"),
    (predicting_with_the_labels, "even"),
    (betting_too_much, "even"),
]


@pytest.mark.parametrize(
    ("break_it", "probabilities"), BROKEN, ids=[broken.__name__ for broken, _ in BROKEN]
)
def test_a_broken_procedure_is_caught(
    break_it: Callable[[Losses, DrawnLabels], DrawnLabels], probabilities: str
) -> None:
    losses = drawn_losses(np.random.default_rng(33), 1000, 100, "good", probabilities)
    assert losses.drawn is not None
    broken = losses.with_labels(break_it(losses, losses.drawn))
    assert errors(losses) <= most_errors(100, DELTA, CELLS)
    assert errors(broken) > most_errors(100, DELTA, CELLS)


def recorded(rng: np.random.Generator, n: int, name: str, *, inverted: bool) -> Traces:
    """Problems with a risk of RISK, whose confidences tell or mislead; half have a label."""
    chance_P = rng.beta(0.3, 0.3 * (1 - RISK) / RISK, n)
    traces = one_reading(rng.random(n) < chance_P, chance_P if inverted else 1 - chance_P)
    return replace(traces, problem_ids=tuple(f"{name}{i:04d}" for i in range(n)))


def false_certificates(fits: int, *, inverted: bool, least: float | None) -> int:
    """Fits, from a design to a certificate, in which a false level is certified."""
    rng = np.random.default_rng(34)
    found = 0
    for _ in range(fits):
        pilot = recorded(rng, 60, "q", inverted=inverted)
        design = sequential_design(
            pilot, 200, risk="error", alphas=(ALPHA,), method="fixed-sequence", order=pilot,
            label_share=0.3, least_share=least,
        )  # fmt: skip
        traces = recorded(rng, 300, "p", inverted=inverted)
        found += certify_sequential(traces, design, order=pilot).levels[0].certified
    return found


@pytest.fixture(params=[40, pytest.param(FITS, marks=pytest.mark.statistical)])
def fits(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.mark.slow
@pytest.mark.parametrize(("inverted", "least"), [(False, None), (False, 0.2), (True, 0.2)])
def test_from_the_design_to_the_certificate_it_holds(
    fits: int, inverted: bool, least: float | None
) -> None:
    found = false_certificates(fits, inverted=inverted, least=least)
    assert found <= most_errors(fits, DELTA, CELLS)
