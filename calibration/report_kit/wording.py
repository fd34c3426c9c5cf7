"""Numbers, estimates and lists in words, the same in every report."""

from __future__ import annotations

from collections.abc import Sequence

from calibration.metrics.estimates import Estimate

NB = "\N{NO-BREAK SPACE}"
UNDEFINED = "–"
TOO_FEW = "too few to say"
"""In place of an interval that is not known."""


def percent(share: float, digits: int = 1) -> str:
    """A measured share as a percentage."""
    return f"{100 * share:.{digits}f}%"


def rate(alpha: float) -> str:
    """A chosen share, such as a risk level, as a percentage with all its digits."""
    return f"{100 * alpha:.6g}%"


def target(alpha: float) -> str:
    """A risk level by its name."""
    return f"α{NB}={NB}{rate(alpha)}"


def count(number: int, noun: str, plural: str | None = None) -> str:
    """A number and its noun."""
    return f"{number:,}{NB}{noun if number == 1 else plural or noun + 's'}"


def tokens(number_of: float) -> str:
    """A number of tokens, whole."""
    return f"{number_of:,.0f}"


def p_value(p: float) -> str:
    """A p-value to two digits."""
    return f"{p:.2g}" if p >= 1e-4 else f"{p:.0e}"


def share(estimate: Estimate) -> str:
    """A share as a percentage."""
    return UNDEFINED if estimate.value is None else percent(estimate.value)


def share_interval(estimate: Estimate) -> str:
    """The interval of a share, without a unit; empty if there is none."""
    return number_interval(in_points(estimate), 1)


def share_in_full(estimate: Estimate) -> str:
    """A share with its interval."""
    return _with_interval(share(estimate), share_interval(estimate))


def number(estimate: Estimate, digits: int = 3) -> str:
    """A number without a unit."""
    return UNDEFINED if estimate.value is None else _decimal(estimate.value, digits)


def number_interval(estimate: Estimate, digits: int = 3) -> str:
    """The interval of a number; empty if there is none."""
    if estimate.low is None or estimate.high is None:
        return ""
    return f"{_decimal(estimate.low, digits)} to {_decimal(estimate.high, digits)}"


def number_in_full(estimate: Estimate, digits: int = 3) -> str:
    """A number with its interval."""
    return _with_interval(number(estimate, digits), number_interval(estimate, digits))


def points(difference: float) -> str:
    """A difference of two shares, in percentage points, with its sign."""
    return f"{_decimal(100 * difference, 1, '+')}{NB}points"


def signed(difference: Estimate, digits: int = 3) -> str:
    """A difference, with its sign."""
    return UNDEFINED if difference.value is None else _decimal(difference.value, digits, "+")


def in_points(estimate: Estimate) -> Estimate:
    """A share in percentage points."""
    low, value, high = (
        None if share is None else 100 * share
        for share in (estimate.low, estimate.value, estimate.high)
    )
    return Estimate(value, low, high)


def excludes_zero(difference: Estimate) -> bool:
    """Whether the interval of a difference lies on one side of 0."""
    if difference.low is None or difference.high is None:
        return False
    return difference.low > 0 or difference.high < 0


def listed(parts: Sequence[str], last: str = "and") -> str:
    """Parts with commas, and a word before the last."""
    return f" {last} ".join(filter(None, [", ".join(parts[:-1]), parts[-1]])) if parts else ""


def _decimal(value: float, digits: int, sign: str = "") -> str:
    """With commas for thousands and a true minus sign."""
    return f"{value:{sign},.{digits}f}".replace("-", "−")


def _with_interval(text: str, interval: str) -> str:
    return f"{text} ({interval})" if interval else text
