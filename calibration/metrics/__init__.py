"""How well confidence predicts correctness (RLCM §4.1); estimates without intervals or guarantees.

`confidence` and `correct` hold one number per answer. `correct` is 0 or 1, or the share of several
answers that are right, unless a function says otherwise. Intervals of the same metrics are in
`calibration.metrics.bootstrap`.
"""

from calibration.metrics.ranking import (
    RiskCoverage,
    auroc,
    pairs_within,
    risk_coverage,
    within_auroc,
)
from calibration.metrics.reliability import (
    N_BINS,
    ReliabilityBin,
    adaptive_calibration_error,
    bin_numbers,
    expected_calibration_error,
    positive_calibration_error,
    reliability_bins,
)
from calibration.metrics.scoring import (
    LEAST_PROBABILITY,
    brier_score,
    log_losses,
    negative_log_likelihood,
)

__all__ = [
    "LEAST_PROBABILITY",
    "N_BINS",
    "ReliabilityBin",
    "RiskCoverage",
    "adaptive_calibration_error",
    "auroc",
    "bin_numbers",
    "brier_score",
    "expected_calibration_error",
    "log_losses",
    "negative_log_likelihood",
    "pairs_within",
    "positive_calibration_error",
    "reliability_bins",
    "risk_coverage",
    "within_auroc",
]
