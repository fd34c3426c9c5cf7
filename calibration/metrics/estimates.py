"""A measured number with its interval."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number and its 95% interval by resampling; None where the number is undefined.

    The interval covers what other problems of the same kind would change. It does not cover what is
    wrong for all of them: a biased metric, a grader's mistakes, a leaked benchmark.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
