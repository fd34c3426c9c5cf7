"""A measured number with its interval."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number and its 95% interval; None where the number is undefined, or the interval unknown.

    The interval covers what other problems of the same kind would change. It does not cover what is
    wrong for all of them: a biased metric, a grader's mistakes, a leaked benchmark.
    """

    value: float | None
    low: float | None = None
    high: float | None = None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Both ends of the interval; None if it is unknown."""
        return None if self.low is None or self.high is None else (self.low, self.high)
