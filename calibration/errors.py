"""The errors of this package, as a tree.

CalibrationError(ValueError)
├── TraceError          recorded reasoning that cannot be replayed
├── CertificateError    a certificate that is damaged, edited, unknown, or not for this engine
└── InfeasibleAlpha     no policy is certified at the requested risk
"""

from decimal import ROUND_CEILING, Context


class CalibrationError(ValueError):
    """The data or arguments do not allow the calculation; the message says why, and the remedy."""


class TraceError(CalibrationError):
    """Recorded reasoning that cannot be replayed; the message names the row."""


class CertificateError(CalibrationError):
    """A certificate that is damaged, edited, of an unknown version, or not for this engine."""


class InfeasibleAlpha(CalibrationError):
    """No policy is certified at the requested risk.

    Attributes:
        alpha: the requested risk.
        smallest_served: the smallest α this certificate serves; None if it certified no level.
        smallest_certifiable: the smallest certifiable α. It is not a guarantee: it says at which
            level a fit on as many new problems may succeed.
    """

    def __init__(
        self, alpha: float, reason: str, smallest_served: float | None, smallest_certifiable: float
    ) -> None:
        remedy = (
            "no level of this certificate is certified"
            if smallest_served is None
            else f"ask for alpha {'>=' if smallest_served > alpha else '='} {smallest_served:g}"
        )
        certifiable = (
            f"the smallest certifiable alpha is {_rounded_up(smallest_certifiable)}"
            if smallest_certifiable < 1
            else "these problems can certify no alpha"
        )
        super().__init__(
            f"no policy is certified at alpha = {alpha:g} ({reason}); {remedy}; {certifiable}"
        )
        self.alpha = alpha
        self.reason = reason
        self.smallest_served = smallest_served
        self.smallest_certifiable = smallest_certifiable


def _rounded_up(alpha: float) -> str:
    """Three digits: rounded down, it would be an alpha that cannot be certified."""
    return f"{Context(prec=3, rounding=ROUND_CEILING).create_decimal(repr(float(alpha))):g}"
