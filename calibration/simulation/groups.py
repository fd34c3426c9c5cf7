"""How groups of problems enter a risk: by their size, or each group the same."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from calibration.errors import CalibrationError
from calibration.traces.traces import Traces


class Average(StrEnum):
    """What counts the same in a risk and in every mean."""

    PROBLEMS = "problems"
    """Each problem, so that a group counts by its size (micro-average)."""
    GROUPS = "groups"
    """Each group, whatever its size (macro-average)."""


@dataclass(frozen=True, slots=True)
class Groups:
    """How groups of problems enter a risk; a problem without a group is a group of its own.

    Averaged over problems, the risk is E[loss summed over a group] / E[size of a group]. No test
    of it is valid at a finite number of groups unless their size is bounded: one group in a
    thousand may hold most of the questions. So `max_size` bounds it, for the population and not
    only for this sample.

    Attributes:
        average: what counts the same.
        max_size: the largest number of problems that a group can have, declared before any label
            is seen. None if groups count the same, for which no bound is needed. For an estimate
            without a test it may be None too: then it is the largest size found.

    Raises:
        CalibrationError: `max_size` is no whole number or below 1, or is given although groups
            count the same.
    """

    average: Average = Average.PROBLEMS
    max_size: int | None = None

    def __post_init__(self) -> None:
        if self.max_size is None:
            return
        if not isinstance(self.max_size, int | np.integer) or self.max_size < 1:
            raise CalibrationError(
                f"max_group_size is {self.max_size}: give a whole number of problems, 1 or more"
            )
        if self.average is Average.GROUPS:
            raise CalibrationError(
                f"max_group_size is {self.max_size}, and has no effect where each group counts the "
                "same: leave it out, or set average to 'problems'"
            )

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """The groups from their values in the file of a certificate or a design.

        Raises:
            CalibrationError, KeyError, TypeError, ValueError: a value is missing, unknown or out of
                range.
        """
        return cls(Average(values["average"]), values["max_size"])

    @property
    def by_size(self) -> bool:
        """Whether a group counts by its size."""
        return self.average is Average.PROBLEMS

    def full_weight(self, n_problems: int, n_units: int) -> float:
        """The total weight of units if every question of every problem counts."""
        return n_problems / self.max_size if self.by_size and self.max_size else float(n_units)

    def divisor_U(self, problems_U: NDArray[np.intp]) -> NDArray[np.intp]:
        """What the summed losses of each unit's problems are divided by.

        Raises:
            CalibrationError: a unit has more problems than `max_size`.
        """
        if not self.by_size:
            return problems_U
        largest = int(problems_U.max())
        if self.max_size is not None and largest > self.max_size:
            raise CalibrationError(
                f"a group has {largest} problems, and max_group_size is {self.max_size}: fit on "
                "groups drawn from a population without larger ones, or declare a larger "
                "max_group_size before you look at any label"
            )
        return np.full_like(problems_U, self.max_size or largest)


def declared_groups(
    traces: Traces, average: Average | str, max_size: int | None = None
) -> Groups | None:
    """How the groups of a test enter its risk; None if every problem is a unit of its own.

    Without a declared size, groups that all have one size are taken to have it by design. Named
    groups that count the same do so even if each has one problem here: others may be larger.

    Args:
        traces: the problems of the test, or a superset of them.
        average: what counts the same.
        max_size: the largest number of problems that a group can have; see `Groups`.

    Raises:
        CalibrationError: the average is unknown, a group is larger than `max_size`, or sizes differ
            and `max_size` is missing.
    """
    named = any(group is not None for group in traces.groups)
    return groups_of_sizes(np.bincount(traces.unit_P), average, max_size, named=named)


def groups_of_sizes(
    problems_U: NDArray[np.intp], average: Average | str, max_size: int | None, *, named: bool
) -> Groups | None:
    """`declared_groups` for units with these numbers of problems; `named`: some have a group."""
    if average not in set(Average):
        raise CalibrationError(f"average {average!r} is unknown: give one of {', '.join(Average)}")
    groups = Groups(Average(average), max_size)
    smallest, largest = int(problems_U.min()), int(problems_U.max())
    if largest == 1 and max_size in (None, 1) and (groups.by_size or not named):
        return None
    if groups.by_size and max_size is None:
        if smallest < largest:
            raise CalibrationError(
                f"groups have {smallest} to {largest} problems and count by their size: give "
                "max_group_size, the most problems that any group can have, from how the problems "
                "are made and not from this sample; or set average to 'groups', so that each group "
                "counts the same"
            )
        groups = Groups(groups.average, largest)
    groups.divisor_U(problems_U)
    return groups
