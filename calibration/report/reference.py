"""The readings of a calibration that live readings are compared with."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibration.certificate.certificate import Certificate
from calibration.monitoring.reference import ReferenceCounts
from calibration.policy.exit_rule import ExitPolicy
from calibration.simulation.groups import Groups
from calibration.simulation.procedure import Procedure, simulate
from calibration.simulation.replay import outcomes
from calibration.simulation.risks import Outcomes
from calibration.traces.traces import Traces

Reference = tuple[ReferenceCounts, ...]


def references(
    certificate: Certificate, policies: Sequence[ExitPolicy], traces: Traces
) -> list[Reference]:
    """Of each policy, what its questions would show live: one random draw of each unit.

    Rollouts of one problem depend on each other, so all of them together would look like more
    calibration problems than there are. With several samples, tokens and the winner's share of the
    vote are left out: a service cancels samples that can change no answer, and replays do not.

    Args:
        certificate: has the procedure, and how groups count.
        policies: of its levels.
        traces: the calibration problems.
    """
    if not policies:
        return []
    procedure, groups = certificate.procedure, certificate.groups or Groups()
    problem_D = simulate(traces, procedure).problem_D
    draw_U = _one_of_each_unit(traces, problem_D, groups)
    found = outcomes(traces, policies, procedure)
    return [
        _counted(found, t, draw_U, procedure, _familiarity(traces, problem_D[draw_U]))
        for t in range(len(policies))
    ]


def _familiarity(traces: Traces, problem_U: NDArray[np.intp]) -> NDArray[np.float64] | None:
    return None if traces.familiarity_P is None else traces.familiarity_P[problem_U]


def _counted(
    found: Outcomes,
    policy: int,
    draw_U: NDArray[np.intp],
    procedure: Procedure,
    familiarity_U: NDArray[np.float64] | None,
) -> Reference:
    values: dict[str, NDArray[Any]] = {"declined": ~found.answered_DT[draw_U, policy]}
    if familiarity_U is not None:
        values["familiarity"] = familiarity_U
    if procedure.samples == 1:
        # As the service stores a confidence that is no number.
        values["confidence"] = np.nan_to_num(found.confidence_DT[draw_U, policy])
        values["tokens"] = found.tokens_DT[draw_U, policy]
    return tuple(ReferenceCounts.of(name, values[name]) for name in sorted(values))


def _one_of_each_unit(
    traces: Traces, problem_D: NDArray[np.intp], groups: Groups
) -> NDArray[np.intp]:
    """A random draw of a random problem of each unit, as the rows of `problem_D`.

    Where a group counts by its size, it is left out with a probability that falls with it: what
    remains are independent questions of a population in which large groups are asked more.
    """
    rng = np.random.default_rng(traces.seed)
    order_P = rng.permutation(traces.n_problems)
    units_U, at_U, size_U = np.unique(traces.unit_P[order_P], return_index=True, return_counts=True)
    problem_U = order_P[at_U]
    if groups.by_size:
        problem_U = problem_U[rng.random(len(units_U)) < size_U / size_U.max()]
    draws_P = np.bincount(problem_D, minlength=traces.n_problems)
    first_P = np.cumsum(draws_P) - draws_P
    return np.asarray(first_P[problem_U] + rng.integers(draws_P[problem_U]))
