"""A guess of an answer's loss from its confidence, learned from the labels seen so far.

The guess is a control variate: `calibration.monitoring.risk_test` is valid whatever is guessed,
and finds a raised risk with fewer labels where the guess is good.
"""

import numpy as np

from calibration.monitoring.starts import Array, Mask, State

_PRIOR_LABELS = 20.0
"""So many labels at the risk alpha weigh as much as the prior of the intercept."""
_PRIOR_SLOPE_LABELS = 10.0
_SMALLEST_CONFIDENCE = 1e-3
_SMALLEST_VARIANCE = 1e-2
_LARGEST_WEIGHT = 10.0


class LossModel:
    """Logistic regression of the loss on the confidence, with one Newton step per label (M models).

    The confidence enters as its logit, standardised by all confidences seen so far. A confidence
    that is not a number counts as average.
    """

    def __init__(self, alpha: float, size: int) -> None:
        zeros, variance = np.zeros(size), alpha * (1 - alpha)
        self.state: State = {
            "readings": zeros,  # confidences seen, their logits' sum and sum of squares
            "total": zeros,
            "squares": zeros,
            "intercept": zeros + np.log(alpha / (1 - alpha)),
            "slope": zeros,
            "h_aa": zeros + _PRIOR_LABELS * variance,  # the Hessian of the log-likelihood
            "h_ab": zeros,
            "h_bb": zeros + _PRIOR_SLOPE_LABELS * variance,
        }

    def standardise(self, confidence_M: Array) -> Array:
        """The regressor of these answers; they count among the confidences seen from now on."""
        clipped_M = np.clip(confidence_M, _SMALLEST_CONFIDENCE, 1 - _SMALLEST_CONFIDENCE)
        logit_M = np.log(clipped_M / (1 - clipped_M))
        known_M, s = ~np.isnan(confidence_M), self.state
        logit_M = np.where(known_M, logit_M, 0.0)
        s["readings"] = s["readings"] + known_M
        s["total"] = s["total"] + logit_M
        s["squares"] = s["squares"] + logit_M * logit_M
        n_M = np.maximum(s["readings"], 1)
        mean_M = s["total"] / n_M
        variance_M = np.maximum(s["squares"] / n_M - mean_M * mean_M, 0) + _SMALLEST_VARIANCE
        return np.where(known_M, (logit_M - mean_M) / np.sqrt(variance_M), 0.0)

    def guess(self, regressor_M: Array) -> Array:
        """The expected loss, in (0, 1)."""
        log_odds_M = self.state["intercept"] + self.state["slope"] * regressor_M
        return np.asarray(1 / (1 + np.exp(-np.clip(log_odds_M, -30, 30))))

    def learn(self, regressor_M: Array, loss_M: Array, labelled_M: Mask) -> None:
        """One Newton step for every labelled answer."""
        s, guess_M = self.state, self.guess(regressor_M)
        weight_M = np.where(labelled_M, np.maximum(guess_M * (1 - guess_M), 0.01), 0.0)
        residual_M = np.where(labelled_M, loss_M - guess_M, 0.0)
        s["h_aa"] = s["h_aa"] + weight_M
        s["h_ab"] = s["h_ab"] + weight_M * regressor_M
        s["h_bb"] = s["h_bb"] + weight_M * regressor_M * regressor_M
        step_M = residual_M / (s["h_aa"] * s["h_bb"] - s["h_ab"] ** 2)
        for name, gain_M in (
            ("intercept", s["h_bb"] - s["h_ab"] * regressor_M),
            ("slope", s["h_aa"] * regressor_M - s["h_ab"]),
        ):
            moved_M = s[name] + step_M * gain_M
            s[name] = np.clip(moved_M, -_LARGEST_WEIGHT, _LARGEST_WEIGHT)
