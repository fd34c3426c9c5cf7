"""New problems that are drawn from recorded ones: what a calibration on them would learn from."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from calibration.traces.traces import Traces


def drawn_units(traces: Traces, unit_N: NDArray[np.intp]) -> Traces:
    """The traces of some units as if they were new ones: a unit that is drawn twice becomes two.

    Args:
        traces: recorded problems.
        unit_N: numbers of units, as in `Traces.unit_P`; any may repeat.
    """
    sizes = np.bincount(traces.unit_P, minlength=traces.n_units)
    of_unit = np.split(np.argsort(traces.unit_P, kind="stable"), sizes.cumsum()[:-1])
    problem_Q = np.concatenate([of_unit[unit] for unit in unit_N])
    place_Q = np.repeat(np.arange(len(unit_N)), sizes[unit_N])
    taken = traces.take(problem_Q)
    return replace(
        taken,
        problem_ids=tuple(f"{number:06d}" for number in range(len(problem_Q))),
        groups=tuple(
            None if group is None else f"{place:06d}"
            for place, group in zip(place_Q, taken.groups, strict=True)
        ),
    )
