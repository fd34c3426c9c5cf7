"""New problems that are drawn from recorded ones: what a calibration on them would learn from."""

from dataclasses import fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibration.traces.traces import Traces


def drawn_units(traces: Traces, unit_N: NDArray[np.intp]) -> Traces:
    """The traces of some units as if they were new ones: a unit that is drawn twice becomes two.

    Args:
        traces: recorded problems.
        unit_N: numbers of units, as in `Traces.unit_P`; any may repeat.
    """
    of_unit = [np.flatnonzero(traces.unit_P == unit) for unit in range(traces.n_units)]
    problem_Q = np.concatenate([of_unit[unit] for unit in unit_N])
    place_Q = np.repeat(np.arange(len(unit_N)), [len(of_unit[unit]) for unit in unit_N])
    of_problem = np.split(np.arange(traces.n_rollouts), np.cumsum(traces.rollouts_P)[:-1])
    row_R = np.concatenate([of_problem[problem] for problem in problem_Q])
    taken: dict[str, Any] = {}
    for field in fields(traces):
        values = getattr(traces, field.name)
        if values is not None and field.name.endswith(("_R", "_RC")):
            taken[field.name] = values[row_R]
        elif values is not None and field.name.endswith("_P"):
            taken[field.name] = values[problem_Q]
    taken["problem_R"] = np.repeat(np.arange(len(problem_Q)), traces.rollouts_P[problem_Q])
    return replace(
        traces,
        problem_ids=tuple(f"{number:06d}" for number in range(len(problem_Q))),
        groups=tuple(
            None if traces.groups[problem] is None else f"{place:06d}"
            for place, problem in zip(place_Q, problem_Q, strict=True)
        ),
        kinds=traces.kinds and tuple(traces.kinds[problem] for problem in problem_Q),
        **taken,
    )
