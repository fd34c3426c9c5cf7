"""The wealth of the risk test: by hand, in expectation, and what breaks it."""

from copy import deepcopy
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibration.monitoring.risk_test import ODDS_RATIOS, SHARES, RiskTest, risk_at
from calibration.monitoring.starts import LARGEST_WEALTH, Array, Mask, idle

ALPHA = 0.1
UNIT = 20.0
"""Later starts count labels in units of 2 / alpha."""
probabilities = st.floats(0.01, 0.99)


def one(value: float) -> Array:
    return np.array([value])


def give(test: RiskTest, loss: float, guess: float, share: float, audited: bool) -> None:
    test.add(one(loss), one(guess), one(share), np.array([audited]))


def test_bets_are_the_best_ones_for_their_risks() -> None:
    test = RiskTest(ALPHA, 1)
    assert risk_at(2.25, 0.1) == pytest.approx(0.2)
    assert risk_at(1.5, 0.1) == pytest.approx(1 / 7)
    bets = test._bets()[0]
    assert bets[0] == pytest.approx((0.2 - 0.1) / 0.09)  # Kelly: (p - alpha) / (alpha (1 - alpha))
    assert bets[1] == pytest.approx((1 / 7 - 0.1) / 0.09)
    assert bets[2] == pytest.approx((2 / 11 - 0.1) / 0.09)  # the prior: odds of 2/9


def test_the_first_answers_by_hand() -> None:
    test = RiskTest(ALPHA, 1)
    assert test.wealth_M[0] == 1
    give(test, 1, 0.3, 1, True)  # no bet: no share is known before it; 0.7 starts now
    assert test.wealth_M[0] == pytest.approx(1)
    give(test, 1, 0.3, 1, True)
    # The bet on the last labels: 20 labels at 2/11 before; the first answer's label faded them.
    weight, losses = 20 * 0.98 + 1, 20 * 2 / 11 * 0.98 + 1
    last = (losses / weight - 0.1) / 0.09
    factors = [1 + 0.9 * 1.111111111111111, 1 + 0.9 * (1 / 7 - 0.1) / 0.09, 1 + 0.9 * last]
    expected = 0.3 + 0.7 * np.dot([0.4, 0.2, 0.4], factors)
    assert test.wealth_M[0] == pytest.approx(expected)


def explicit_wealth(losses: list[int], alpha: float) -> float:
    """The sum over all games and all starts, each played on its own; every answer has a label."""
    variance = alpha * (1 - alpha)
    weight, lost = 2 / alpha, 2 / alpha * risk_at(2, alpha)
    played: list[list[float]] = []  # factors of the three games, label by label
    for number, loss in enumerate(losses):
        last = min(max((lost / weight - alpha) / variance, 0), 0.8 / alpha)
        fixed = [(risk_at(ratio, alpha) - alpha) / variance for ratio in ODDS_RATIOS]
        if number:
            played.append([1 + bet * (loss - alpha) for bet in (*fixed, last)])
        keeps = 1 - alpha / 5
        weight, lost = weight * keeps + 1, lost * keeps + loss
    shares = [1 - idle(one(0), 2 / alpha)[0]]
    shares += [
        idle(one(m - 1), 2 / alpha)[0] - idle(one(m), 2 / alpha)[0]
        for m in range(1, len(played) + 1)
    ]
    total = idle(one(len(played)), 2 / alpha)[0]
    for start, share in enumerate(shares):
        for game, part in enumerate(SHARES):
            total += share * part * float(np.prod([factors[game] for factors in played[start:]]))
    return float(total)


@given(st.lists(st.integers(0, 1), min_size=1, max_size=60), st.sampled_from([0.02, 0.1, 0.3]))
def test_the_wealth_is_that_of_all_games_from_all_starts(losses: list[int], alpha: float) -> None:
    test = RiskTest(alpha, 1)
    for loss in losses:
        give(test, loss, 0.5, 1, True)
    assert test.wealth_M[0] == pytest.approx(explicit_wealth(losses, alpha))


def test_the_shares_of_all_starts_sum_to_one() -> None:
    assert sum(SHARES) == pytest.approx(1)
    later = idle(10.0 ** np.arange(300), UNIT)
    assert np.all(np.diff(later) < 0)
    assert 0 < later[-1] < 1e-3 < later[0] < 1


Step = tuple[int, float, float, bool]
steps = st.lists(
    st.tuples(st.integers(0, 1), probabilities, st.sampled_from([0.05, 0.2, 1.0]), st.booleans()),
    max_size=40,
)


def expected_growth(test: RiskTest, features: list[tuple[float, float, float, float]]) -> float:
    """Mean wealth after the next answer over the wealth now, by going through all outcomes.

    Args:
        features: probability, guess, audit share and risk of each kind of answer that may come.
    """
    mean = 0.0
    for (chance, guess, share, risk), loss, audited in product(features, (0, 1), (False, True)):
        after = deepcopy(test)
        give(after, loss, guess, share, audited)
        weight = chance * (risk if loss else 1 - risk) * (share if audited else 1 - share)
        mean += weight * after.wealth_M[0]
    return mean / float(test.wealth_M[0])


def features_at_alpha(
    split: float, guesses: list[float], shares: list[float]
) -> list[tuple[float, float, float, float]]:
    """Two kinds of answers with different risks whose mean is alpha."""
    worse = min(1.0, 0.9 * ALPHA / split)
    better = (ALPHA - split * worse) / (1 - split)
    return [
        (split, guesses[0], shares[0], worse),
        (1 - split, guesses[1], shares[1], better),
    ]


@given(steps, probabilities, st.tuples(probabilities, probabilities), st.data())
def test_no_wealth_is_expected_at_the_risk_alpha(
    history: list[Step], split: float, guesses: tuple[float, float], data: st.DataObject
) -> None:
    """Whatever came before, whatever is guessed, and whoever is audited more often."""
    shares = data.draw(st.tuples(*[st.sampled_from([0.01, 0.05, 0.2, 1.0])] * 2))
    test = RiskTest(ALPHA, 1)
    for step in history:
        give(test, *step)
    features = features_at_alpha(split, list(guesses), list(shares))
    assert expected_growth(test, features) <= 1 + 1e-9


@pytest.mark.parametrize("alpha", [0.02, 0.1, 0.5])
def test_no_game_owes_after_a_right_answer_of_a_much_smaller_share(alpha: float) -> None:
    test = RiskTest(alpha, 1)
    for _ in range(40):
        give(test, 1, 0.5, 1.0, True)
    give(test, 0, 0.5, 0.05, True)
    assert (test.state["wealth"] > 0).all()


@given(steps)
def test_no_game_owes(history: list[Step]) -> None:
    test = RiskTest(ALPHA, 1)
    for step in history:
        give(test, *step)
        assert (test.state["wealth"] > 0).all()


@given(steps, probabilities, st.sampled_from([0.05, 0.2, 1.0]))
def test_a_missing_label_is_never_worth_more_than_a_wrong_answer(
    history: list[Step], guess: float, share: float
) -> None:
    test = RiskTest(ALPHA, 1)
    for step in history:
        give(test, *step)
    wrong, missing = deepcopy(test), deepcopy(test)
    give(wrong, 1, guess, share, True)
    give(missing, 0, guess, share, True)
    assert missing.wealth_M[0] <= wrong.wealth_M[0]


class BetsAfterTheLabel(RiskTest):
    def add(self, loss_M: Array, guess_M: Array, share_M: Array, audited_M: Mask) -> None:
        before = self.state["losses"]
        self.state["losses"] = before + np.where(audited_M, loss_M, 0.0)
        super().add(loss_M, guess_M, share_M, audited_M)


class StartsWithTheLabel(RiskTest):
    def add(self, loss_M: Array, guess_M: Array, share_M: Array, audited_M: Mask) -> None:
        m_M = self.state["bets"]
        started_M = np.where(audited_M, idle(m_M, UNIT) - idle(m_M + 1, UNIT), 0.0)
        self.state["wealth"] = self.state["wealth"] + started_M[:, None] * self._parts_G
        super().add(loss_M, guess_M, share_M, audited_M)
        later_M = np.where(audited_M, idle(m_M, UNIT) - idle(m_M + 1, UNIT), 0.0)
        self.state["wealth"] = self.state["wealth"] - later_M[:, None] * self._parts_G


class TakesAllLabelsAsEqual(RiskTest):
    """Whatever the share with which each was drawn."""

    def add(self, loss_M: Array, guess_M: Array, share_M: Array, audited_M: Mask) -> None:
        super().add(loss_M, guess_M, np.full_like(share_M, 0.05), audited_M)


@pytest.mark.parametrize("broken", [BetsAfterTheLabel, StartsWithTheLabel, TakesAllLabelsAsEqual])
def test_a_broken_test_is_found(broken: type[RiskTest]) -> None:
    features = features_at_alpha(0.2, [0.01, 0.05], [0.2, 0.05])
    growths = []
    for kind in (RiskTest, broken):
        test = kind(ALPHA, 1)
        for loss in (0, 1, 0, 1, 1):
            give(test, loss, 0.2, 0.05, True)
        growths.append(expected_growth(test, features))
    assert growths[0] == pytest.approx(1, abs=1e-9)
    assert growths[1] > 1 + 1e-6


def test_wealth_stays_a_number() -> None:
    test = RiskTest(ALPHA, 1)
    for _ in range(2000):
        give(test, 1, 0.5, 1, True)
    assert np.isfinite(test.wealth_M[0])
    assert test.wealth_M[0] >= LARGEST_WEALTH
