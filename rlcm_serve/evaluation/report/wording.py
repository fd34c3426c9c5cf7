"""Estimates and tokens in words."""

from __future__ import annotations

from calibration.metrics.estimates import Estimate
from calibration.report.wording import NB, percent

UNDEFINED = "–"


def share(estimate: Estimate) -> str:
    """A share as a percentage."""
    return UNDEFINED if estimate.value is None else percent(estimate.value)


def share_interval(estimate: Estimate) -> str:
    """Its interval, without a unit; empty without one."""
    if estimate.low is None or estimate.high is None:
        return ""
    return f"{100 * estimate.low:.1f} to {100 * estimate.high:.1f}"


def share_in_full(estimate: Estimate) -> str:
    """A share with its interval."""
    interval = share_interval(estimate)
    return share(estimate) + (f" ({interval})" if interval else "")


def number(estimate: Estimate, digits: int = 3) -> str:
    """A figure without a unit."""
    return UNDEFINED if estimate.value is None else f"{estimate.value:,.{digits}f}"


def number_interval(estimate: Estimate, digits: int = 3) -> str:
    """Its interval; empty without one."""
    if estimate.low is None or estimate.high is None:
        return ""
    return f"{estimate.low:,.{digits}f} to {estimate.high:,.{digits}f}"


def number_in_full(estimate: Estimate, digits: int = 3) -> str:
    """A figure with its interval."""
    interval = number_interval(estimate, digits)
    return number(estimate, digits) + (f" ({interval})" if interval else "")


def points(difference: float) -> str:
    """A difference of two shares, in percentage points, with its sign."""
    return f"{100 * difference:+.1f}".replace("-", "−") + f"{NB}points"


def signed(difference: Estimate, digits: int = 3) -> str:
    """A difference, with its sign."""
    if difference.value is None:
        return UNDEFINED
    return f"{difference.value:+.{digits}f}".replace("-", "−")


def tokens(number_of: float) -> str:
    """A number of tokens, whole."""
    return f"{number_of:,.0f}"


def listed(parts: list[str]) -> str:
    """Parts with commas, and an `and` before the last."""
    return " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]])) if parts else ""
