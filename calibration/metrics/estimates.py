"""A measured number with its interval."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure and a 95 % interval of it by resampling; None where the figure is undefined.

    The interval covers what other problems of the same kind would have changed. It does not cover
    what is wrong with all of them alike: a biased figure, a grader's mistakes, a leaked benchmark.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
