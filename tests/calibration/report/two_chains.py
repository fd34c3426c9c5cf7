"""The levels and policies of the certificate that reports and their data are made of."""

from calibration import ExitPolicy

ALPHAS = (0.01, 0.15, 0.3)
POLICIES = tuple(
    ExitPolicy(lambda_low=low, patience=16 if low > 0 else 0, lambda_high=high, lambda_answer=0.7)
    for low in (-1.0, 0.2)
    for high in (0.95, 0.9, 0.8, 0.6)
)
