"""A confidence sequence for the running mean of the conditional risks of a live service.

Answer t has the loss l_t in [0, 1] and, given everything before it, the mean loss mu_t, which may
be any number and may move. The sequence covers (mu_1 + ... + mu_n) / n at all n together with
probability at least 1 - delta. It is not a statement about the risk of the last answers alone.

With the audit draw A, its probability pi and a guess g of the loss (see
`calibration.monitoring.risk_test`), X = g + A (l - g) / pi has the mean mu_t, and lies within 1 /
rho of every number in [0, 1], where rho is the smallest pi so far. For a centre m in [0, 1] that
is fixed before the answer, and 0 <= lambda < rho, the inequality exp(y - psi(y's scale) y^2) <= 1
+ y of Fan, Grama and Liu (2015) gives

    E[exp(lambda (X - mu_t) - psi (X - m)^2) | past] <= 1,
    psi = rho^2 (-log(1 - lambda / rho) - lambda / rho).

So exp(lambda S_n - psi V_n) is a supermartingale, with S_n the sum of X - mu_t and V_n that of (X
- m)^2. A mixture over a fixed grid of lambda, weights summing to one, reaches 2 / delta with
probability at most delta / 2 (Ville). Solved for S_n, this is one side; -X gives the other
(Howard, Ramdas, McAuliffe and Sekhon, arXiv 1810.08240, theorem 4; time-varying means: Choe and
Ramdas, arXiv 2110.00115). As psi grows when rho falls, the smallest rho is taken for all answers;
grid points with lambda >= rho are left out, which only lowers the mixture.

If all are left out, the sequence says nothing: 0 to 1.

A label that did not come may be any loss: the lower side counts it as 0, the upper side as 1. The
first answer counts in the same way, because the grid is chosen when its audit share is known.
"""

import numpy as np

from calibration.monitoring.starts import Array, Mask, State

_GRID = 0.75 * 0.5 ** np.arange(16)
"""Values of lambda, as multiples of the first audit share."""
_WEIGHTS = 1 / (np.arange(len(_GRID)) + 2.0)
_LOG_WEIGHTS = np.log(_WEIGHTS / _WEIGHTS.sum())
_PRIOR_ANSWERS = 10.0
_NEWTON_STEPS = 8


class RiskInterval:
    """The confidence sequences of `size` services (M), each with coverage 1 - delta."""

    def __init__(self, alpha: float, delta: float, size: int) -> None:
        self._log_bar = np.log(2 / delta)
        zeros = np.zeros(size)
        self.state: State = {
            "answers": zeros,
            "first_share": zeros,  # 0 before the first answer
            "least_share": zeros + 1.0,
            "guesses": zeros + _PRIOR_ANSWERS * alpha,
            "first_low": zeros,  # X of the first answer, missing labels as 0 and as 1
            "first_high": zeros,
            "low": zeros,  # sums of the other X
            "high": zeros,
            "low_squares": zeros,  # sums of (X - m)^2
            "high_squares": zeros,
        }

    def add(
        self, loss_M: Array, guess_M: Array, share_M: Array, audited_M: Mask, missing_M: Mask
    ) -> None:
        """One answer of each service; arguments as in `calibration.monitoring.risk_test.RiskTest`.

        Args:
            missing_M: of the audited answers, those whose label did not come.
        """
        s = self.state
        begun_M = s["answers"] > 0
        centre_M = s["guesses"] / (s["answers"] + _PRIOR_ANSWERS)
        for side, assumed in (("low", 0.0), ("high", 1.0)):
            shown_M = np.where(missing_M, assumed, loss_M)
            x_M = guess_M + np.where(audited_M, (shown_M - guess_M) / share_M, 0.0)
            s[f"first_{side}"] = np.where(begun_M, s[f"first_{side}"], x_M)
            s[side] = s[side] + np.where(begun_M, x_M, 0.0)
            squares_M = np.where(begun_M, (x_M - centre_M) ** 2, 0.0)
            s[f"{side}_squares"] = s[f"{side}_squares"] + squares_M
        s["first_share"] = np.where(begun_M, s["first_share"], share_M)
        s["least_share"] = np.minimum(s["least_share"], share_M)
        s["guesses"] = s["guesses"] + guess_M
        s["answers"] = s["answers"] + 1

    def restore(self, stored: State) -> None:
        """Continue from a state.

        One that was stored before the first answer counted in the estimate gets the mean of the
        others for it, so that the estimate stays what it was.
        """
        others_M = np.maximum(stored["answers"] - 1, 1)
        means = {f"first_{side}": stored[side] / others_M for side in ("low", "high")}
        known = means | stored
        self.state = {name: known[name] for name in self.state}

    def estimate(self) -> Array:
        """An estimate of the running mean; 0.5 before the first answer.

        Without its cut to [0, 1] it would be unbiased. Where labels are missing it is the middle of
        what they allow.
        """
        s, n_M = self.state, self.state["answers"]
        low_M, high_M = (s[side] + s[f"first_{side}"] for side in ("low", "high"))
        middle_M = (low_M + high_M) / 2 / np.maximum(n_M, 1)
        return np.where(n_M > 0, np.clip(middle_M, 0, 1), 0.5)

    def interval(self) -> tuple[Array, Array]:
        """Lower and upper ends, in [0, 1]."""
        s, n_M = self.state, np.maximum(self.state["answers"], 1)
        low_M = (s["low"] - self._radius(s["low_squares"])) / n_M
        high_M = (1 + s["high"] + self._radius(s["high_squares"])) / n_M
        begun_M = s["answers"] > 0
        low_M = np.where(begun_M, np.clip(low_M, 0, 1), 0.0)
        return low_M, np.where(begun_M, np.clip(high_M, 0, 1), 1.0)

    def _terms(self, squares_M: Array) -> tuple[Array, Array]:
        """Offset and slope (M, K) of the exponents, as functions of the deviation."""
        rho_M1 = self.state["least_share"][:, None]
        lambda_MK = np.maximum(self.state["first_share"], 1e-300)[:, None] * _GRID
        ratio_MK = np.minimum(lambda_MK / rho_M1, 1 - 1e-12)
        psi_MK = rho_M1**2 * (-np.log1p(-ratio_MK) - ratio_MK)
        offset_MK = _LOG_WEIGHTS - psi_MK * squares_M[:, None]
        return np.where(lambda_MK < rho_M1, offset_MK, -np.inf), lambda_MK

    def _radius(self, squares_M: Array) -> Array:
        """The deviation at which the mixture reaches 2 / delta; infinity where it never does.

        Newton steps on a convex, growing function from above its root stay above it, so that the
        result covers however many steps are taken.
        """
        offset_MK, lambda_MK = self._terms(squares_M)
        some_M = np.asarray(np.isfinite(offset_MK).any(1))
        offset_MK = np.where(some_M[:, None], offset_MK, 0.0)
        radius_M = ((self._log_bar - offset_MK) / lambda_MK).min(1)
        for _ in range(_NEWTON_STEPS):
            value_M, slope_M = _log_sum(offset_MK, lambda_MK, radius_M)
            radius_M = radius_M - (value_M - self._log_bar) / slope_M
        return np.where(some_M, radius_M, np.inf)


def _log_sum(offset_MK: Array, lambda_MK: Array, deviation_M: Array) -> tuple[Array, Array]:
    """log of the sum of exp(offset + lambda * deviation), and its derivative."""
    term_MK = offset_MK + lambda_MK * deviation_M[:, None]
    top_M = term_MK.max(1)
    part_MK = np.exp(term_MK - top_M[:, None])
    total_M = part_MK.sum(1)
    return top_M + np.log(total_M), (part_MK * lambda_MK).sum(1) / total_M
