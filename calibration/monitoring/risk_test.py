"""A test, valid at any time, that the risk of a live service is above alpha.

Answer t has the loss l in [0, 1]. The null says: given everything before answer t, the mean of l
is at most alpha, at every t. A label is looked at if a draw A in {0, 1} says so; A is 1 with the
probability pi and independent of the answer, given pi. Independent questions from the calibration's
distribution, under a certificate that holds, fulfil the null. So does any other sequence, however
answers depend on earlier ones, as long as no mean given the past exceeds alpha.

**What is bet on.** Fix a guess g of the loss from what is known without the label, and a share
rho. With theta = min(1, pi / rho),

    X = theta g + A / max(pi, rho) (l - g)        has the mean        theta E[l] <= E[l],

because A is independent of l and g. A game with the bet b >= 0 multiplies its wealth by

    F = 1 + b rho (X - alpha),        E[F | past] <= 1 + b rho (E[l | past] - alpha) <= 1.

The bet b and the share rho must be fixed before answer t; g may depend on its confidence. With g =
alpha and rho = pi, X says nothing about answers without a label, and F = 1 + b (l - alpha) for the
others: the plain test of labels. With a good guess, X varies less than A l / pi, and answers
without a label count too (prediction-powered inference, arXiv 2301.09633 and 2602.02229). F is
never negative: bets stop at `_LARGEST` / alpha, and guesses where a right answer with a label takes
`_MOST_AT_STAKE` of the wealth. Where pi < rho, that also lowers the guess alpha of the plain test.

**Validity.** Every game's wealth is a nonnegative supermartingale from wherever it starts. A unit
of wealth is shared out over games and over starting times, in shares that sum to one; what has not
started yet lies idle. The sum is a nonnegative supermartingale that starts at 1. By Ville's
inequality it ever reaches 1 / delta with probability at most delta: the test may be looked at
after every answer, for ever.

Whatever is done to keep it so:

- bets, shares and starts use earlier answers only. Starts count the labels *before* the answer: to
  start because this answer has a label would make A known, and X biased;
- a label that did not come counts as right, l = 0: F grows with l, so F is smaller than it would
  be, even if only wrong answers go unlabelled;
- pi may depend on the question. rho follows the shares seen before, slowly upwards and at once
  downwards. Where pi < rho, theta < 1 only makes F smaller.

**Power.** The games bet for two fixed risks, and for the risk of the last labels; each with g =
alpha and with the model's guess. A change that comes late is found because games start all the
time: the share that starts after m labels falls like 1 / (m log(m)^2), and the sum over all starts
costs no more to keep than one game. All constants are relative to alpha: odds ratios, and numbers
of labels in which so many losses are expected. They were chosen in simulations at alpha = .1 and
delta = .1 and checked at others; see docs/concepts/monitoring.md.
"""

import numpy as np

from calibration.monitoring.starts import LARGEST_WEALTH, Array, Mask, State, idle

ODDS_RATIOS = (2.25, 1.5)
"""The fixed bets are the best ones for a risk whose odds are so many times those of alpha."""
SHARES = (0.4, 0.2, 0.4)
"""Of the wealth: one per fixed bet, then the bet on the last labels. Half goes to each guess."""
_PRIOR_ODDS_RATIO = 2.0
_PRIOR_LOSSES = 2.0
"""The bet on the last labels starts with 2 / alpha labels at the prior's risk ..."""
_MEMORY_LOSSES = 5.0
"""... and forgets with a mean lifetime of 5 / alpha labels."""
_START_LOSSES = 2.0
"""Later starts count labels in units of 2 / alpha."""
_LARGEST = 0.8
_MOST_AT_STAKE = 0.9
_SHARE_RISES = 1.01
_LARGEST_LEVERAGE = 4.0


def risk_at(odds_ratio: float, alpha: float) -> float:
    """The risk whose odds are `odds_ratio` times those of alpha."""
    odds = odds_ratio * alpha / (1 - alpha)
    return odds / (1 + odds)


class RiskTest:
    """The wealth of `size` tests (M), each of 2 x 3 games (G): guess by bet. See the module.

    Args:
        alpha: the risk that the null allows, in (0, 1).
        size: number of tests that run side by side, each on its own answers.
    """

    def __init__(self, alpha: float, size: int) -> None:
        self._alpha, self._variance = alpha, alpha * (1 - alpha)
        self._unit = _START_LOSSES / alpha
        self._fixed_B = [(risk_at(ratio, alpha) - alpha) / self._variance for ratio in ODDS_RATIOS]
        self._parts_G = np.tile(SHARES, 2) / 2
        zeros, prior = np.zeros(size), _PRIOR_LOSSES / alpha
        self.state: State = {
            "wealth": np.zeros((size, len(self._parts_G))),
            "share": zeros,  # rho; 0 before the first answer
            "bets": zeros,  # labels that were bet on
            "weight": zeros + prior,  # of the last labels, and their losses
            "losses": zeros + prior * risk_at(_PRIOR_ODDS_RATIO, alpha),
            "plain_squares": zeros + prior * self._variance,  # of rho (X - alpha), for both guesses
            "model_squares": zeros + prior * self._variance,
        }

    @property
    def wealth_M(self) -> Array:
        """The wealth of all games, and what lies idle."""
        begun_M, idle_M = self.state["share"] > 0, idle(self.state["bets"], self._unit)
        return np.asarray(self.state["wealth"].sum(1) + np.where(begun_M, idle_M, 1.0))

    def add(self, loss_M: Array, guess_M: Array, share_M: Array, audited_M: Mask) -> None:
        """One answer to each test.

        Args:
            loss_M: in [0, 1]; 0 where the label did not come; not read where nothing is audited.
            guess_M: of the loss, in [0, 1], from what is known without the label.
            share_M: the probability pi with which the answer was drawn for audit, in (0, 1].
            audited_M: whether it was drawn.
        """
        s = self.state
        loss_M = np.where(audited_M, loss_M, 0.0)
        bet_MG, rho_M = self._bets(), s["share"]
        half = bet_MG.shape[1] // 2
        counted_M = np.minimum(share_M, rho_M)  # rho theta: how much of the guess always counts
        weight_M = rho_M / np.maximum(share_M, rho_M)  # how much of it a label takes back
        owed_M, taken_M = rho_M * self._alpha, np.maximum(weight_M - counted_M, 1e-9)
        staked_MG = _MOST_AT_STAKE / np.maximum(bet_MG, 1e-9)
        most_MG = (staked_MG[:, :half] - owed_M[:, None]) / taken_M[:, None]
        plain_MG = np.minimum(self._alpha, most_MG)
        model_MG = np.minimum(guess_M[:, None], staked_MG[:, half:] - self._alpha)
        guess_MG = np.concatenate([plain_MG, model_MG], axis=1)
        gain_MG = counted_M[:, None] * guess_MG - owed_M[:, None]
        gain_MG += np.where(audited_M, weight_M, 0.0)[:, None] * (loss_M[:, None] - guess_MG)
        # Before the first answer rho is 0, so that there is no bet on it.
        s["wealth"] = np.minimum(s["wealth"] * (1 + bet_MG * gain_MG), LARGEST_WEALTH)
        self._start(audited_M, share_M)
        self._remember(loss_M, gain_MG[:, 0], gain_MG[:, half], audited_M)

    def _bets(self) -> Array:
        """The bets of all games on the next answer, known before it."""
        s = self.state
        risk_M = s["losses"] / s["weight"]
        last_M = np.clip((risk_M - self._alpha) / self._variance, 0, _LARGEST / self._alpha)
        fixed_MB = np.broadcast_to(self._fixed_B, (len(last_M), len(self._fixed_B)))
        bet_MB = np.column_stack([fixed_MB, last_M])
        # A guess that explains losses leaves less variance, so that more can be bet.
        leverage_M = np.clip(s["plain_squares"] / s["model_squares"], 1, _LARGEST_LEVERAGE)
        leveraged_MB = np.minimum(bet_MB * leverage_M[:, None], _LARGEST / self._alpha)
        return np.column_stack([bet_MB, leveraged_MB])

    def _start(self, audited_M: Mask, share_M: Array) -> None:
        """Hand the games what starts with the next answer, and choose the next rho."""
        s = self.state
        begun_M = s["share"] > 0
        before_M = np.where(begun_M, idle(s["bets"], self._unit), 1.0)
        s["bets"] = s["bets"] + (audited_M & begun_M)
        started_M = before_M - idle(s["bets"], self._unit)
        s["wealth"] = s["wealth"] + started_M[:, None] * self._parts_G
        risen_M = np.where(begun_M, s["share"] * _SHARE_RISES, 1.0)
        s["share"] = np.minimum(share_M, risen_M)

    def _remember(
        self, loss_M: Array, plain_gain_M: Array, model_gain_M: Array, audited_M: Mask
    ) -> None:
        """Let this answer count in the bets from the next one on; with every label, older fade."""
        s = self.state
        keeps_M = np.where(audited_M, 1 - self._alpha / _MEMORY_LOSSES, 1.0)
        s["weight"] = s["weight"] * keeps_M + audited_M
        s["losses"] = s["losses"] * keeps_M + loss_M
        s["plain_squares"] = s["plain_squares"] * keeps_M + plain_gain_M**2
        s["model_squares"] = s["model_squares"] * keeps_M + model_gain_M**2
