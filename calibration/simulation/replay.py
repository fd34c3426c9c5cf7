"""Replay: what policies would have done with recorded rollouts."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from calibration.errors import CalibrationError
from calibration.policy.exit_rule import ExitPolicy
from calibration.simulation.groups import Groups
from calibration.simulation.losses import Losses
from calibration.simulation.procedure import ONE_SAMPLE, Draws, Procedure, simulate
from calibration.simulation.risks import SELECTIVE, Outcomes, Risk
from calibration.simulation.simulator import Simulator
from calibration.traces.traces import Traces

THREADS = 2
"""Blocks replayed at the same time; the result does not depend on it."""

BLOCK = 1 << 20
"""Samples x policies whose stops are found at a time."""

PARTS = 4
"""Parts of a block whose outcomes are computed one after another, to fit a processor's cache."""

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True, eq=False)
class Replay:
    """A procedure under policies (T) on recorded problems.

    Means are taken over a problem's draws, then over all problems; or, where each group counts the
    same, over a unit's problems and then over the exchangeable units. They are estimates without
    intervals, and optimistic for a policy that was chosen by them.

    Attributes:
        losses: losses of the units, in the order of `Traces.unit_P`.
        answered_T: mean share answered.
        right_T: mean share answered and right.
        tokens_T: mean tokens of a draw, all samples together, including the tokens that readings
            cost.
        full_tokens: the same at the full budget, without the cost of readings.
        full_right: mean share right at the full budget.
        n_problems: problems.
        n_draws: draws of the procedure, of all problems together.
    """

    losses: Losses
    answered_T: NDArray[np.float64]
    right_T: NDArray[np.float64]
    tokens_T: NDArray[np.float64]
    full_tokens: float
    full_right: float
    n_problems: int
    n_draws: int


def outcomes(
    traces: Traces, policies: Sequence[ExitPolicy], procedure: Procedure = ONE_SAMPLE
) -> Outcomes:
    """The outcome of each draw of `simulate` under each policy, all in memory at once.

    It takes about 50 bytes per sample and policy; `replay` does the same in blocks.

    Raises:
        CalibrationError: a problem has fewer rollouts than the procedure has samples.
    """
    draws = simulate(traces, procedure)
    simulator = Simulator(traces, policies, procedure.vote)
    return simulator.stopped(np.arange(traces.n_rollouts)).outcomes(draws.rollout_DN)


def replay(
    traces: Traces,
    policies: Sequence[ExitPolicy],
    risk: Risk = SELECTIVE,
    procedure: Procedure = ONE_SAMPLE,
    groups: Groups | None = None,
    *,
    block: int = BLOCK,
) -> Replay:
    """Replay a procedure under each policy, and average its losses into exchangeable units.

    It works in blocks of problems and policies. It needs the memory of the result (8 bytes per unit
    and policy, 16 for `selective`) and about 100 MB more.

    Args:
        groups: how groups of problems enter the risk and the means; by default each problem counts
            the same.
        block: samples x policies processed at a time. The result does not depend on it, and the
            result of a policy does not depend on the other policies.

    Raises:
        CalibrationError: there are no policies; a policy may abstain and the risk counts every
            question; a problem has fewer rollouts than samples; a group is larger than declared; or
            a custom loss is out of range.
    """
    if not policies:
        raise CalibrationError("policies is empty: give at least one")
    risk.check_policies(policies)
    plan = _Plan(traces, simulate(traces, procedure), groups or Groups())
    sums = _Sums(plan, len(policies))
    per_problem = int(max(plan.rollouts_P.max(), (plan.draws_P * procedure.samples).max()))
    width = max(1, min(len(policies), block // per_problem))
    # With few policies, the readings need the most memory.
    problems = max(1, block // (per_problem * max(width, traces.tokens_RC.shape[1])))
    for start in range(0, len(policies), width):
        columns = slice(start, start + width)
        simulator = Simulator(traces, policies[columns], procedure.vote)

        def run(problem_B: NDArray[np.intp], simulator: Simulator = simulator) -> list[_Part]:
            return _replay_block(plan, simulator, risk, problem_B)

        for parts in _in_order(run, [*plan.blocks(problems)]):
            for part in parts:
                sums.add(part, columns)
    return sums.replay()


class _Plan:
    """Which rows and draws belong to each problem (P), and which problems to each unit (U)."""

    def __init__(self, traces: Traces, draws: Draws, groups: Groups) -> None:
        self.draws = draws
        self.rollouts_P = traces.rollouts_P
        self.first_row_P = np.cumsum(self.rollouts_P) - self.rollouts_P
        self.draws_P = np.bincount(draws.problem_D, minlength=traces.n_problems)
        self.first_draw_P = np.cumsum(self.draws_P) - self.draws_P
        self.unit_P = traces.unit_P
        self.problems_U = np.bincount(self.unit_P)
        self.divisor_U = groups.divisor_U(self.problems_U)
        # The divisor of a draw's share in a mean; few distinct values.
        problems_P = 1 if groups.by_size else self.problems_U[self.unit_P]
        self.divisors, self.divisor_P = np.unique(self.draws_P * problems_P, return_inverse=True)
        self.n_equal = len(self.unit_P) if groups.by_size else len(self.problems_U)

    def blocks(self, size: int) -> Iterator[NDArray[np.intp]]:
        """All problems in blocks; the problems of a unit are adjacent."""
        order_P = np.argsort(self.unit_P, kind="stable")
        for start in range(0, len(order_P), size):
            yield order_P[start : start + size]

    def rows_and_draws(
        self, problem_B: NDArray[np.intp]
    ) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The rows of the traces that belong to a block, and each draw's indices into them."""
        rollouts_B, draws_B = self.rollouts_P[problem_B], self.draws_P[problem_B]
        rows_R = _ranges(self.first_row_P[problem_B], rollouts_B)
        draws_D = _ranges(self.first_draw_P[problem_B], draws_B)
        moved_B = np.cumsum(rollouts_B) - rollouts_B - self.first_row_P[problem_B]
        return rows_R, self.draws.rollout_DN[draws_D] + np.repeat(moved_B, draws_B)[:, None]


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """Results of some problems (B): mean losses, and counts summed over draws."""

    problem_B: NDArray[np.intp]
    loss_BT: NDArray[np.float64]
    weight_BT: NDArray[np.float64] | None
    answered_BT: NDArray[Any]
    right_BT: NDArray[Any]
    tokens_BT: NDArray[np.int64]
    full_right_B: NDArray[Any]
    full_tokens_B: NDArray[np.int64]


def _replay_block(
    plan: _Plan, simulator: Simulator, risk: Risk, problem_B: NDArray[np.intp]
) -> list[_Part]:
    rows_R, rollout_DN = plan.rows_and_draws(problem_B)
    stopped = simulator.stopped(rows_R)
    parts = np.array_split(problem_B, min(PARTS, len(problem_B)))
    ends = np.cumsum([plan.draws_P[part].sum() for part in parts])
    return [
        _replay_part(plan, risk, part, stopped.outcomes(drawn_DN))
        for part, drawn_DN in zip(parts, np.split(rollout_DN, ends[:-1]), strict=True)
    ]


def _replay_part(plan: _Plan, risk: Risk, problem_B: NDArray[np.intp], outcomes: Outcomes) -> _Part:
    loss_DT, weight_DT = risk.loss(outcomes)
    draws_B = plan.draws_P[problem_B]

    def mean(values_DT: NDArray[Any]) -> NDArray[np.float64]:
        return np.asarray(_sum_by_problem(values_DT, draws_B) / draws_B[:, None])

    return _Part(
        problem_B=problem_B,
        loss_BT=mean(loss_DT),
        weight_BT=None if weight_DT is None else mean(weight_DT),
        answered_BT=_sum_by_problem(outcomes.answered_DT, draws_B),
        right_BT=_sum_by_problem(outcomes.correct_DT, draws_B),
        tokens_BT=_sum_by_problem(outcomes.tokens_DT, draws_B),
        full_right_B=_sum_by_problem(outcomes.full_correct_D, draws_B),
        full_tokens_B=_sum_by_problem(outcomes.full_tokens_D, draws_B),
    )


class _Sums:
    """Adds up parts so that no figure depends on how the problems were divided.

    Losses are added problem by problem. Counts and tokens are added as whole numbers, separately
    for each divisor.
    """

    def __init__(self, plan: _Plan, n_policies: int) -> None:
        self._plan = plan
        self._loss_UT = np.zeros((len(plan.problems_U), n_policies))
        self._weight_UT: NDArray[np.float64] | None = None
        n_divisors = len(plan.divisors)
        self._count_QT3 = [np.zeros((n_divisors, n_policies), dtype=np.int64) for _ in range(3)]
        self._full_Q2 = [np.zeros(n_divisors, dtype=np.int64) for _ in range(2)]

    def add(self, part: _Part, columns: slice) -> None:
        """Add a part, replayed under the policies of these columns."""
        unit_B = self._plan.unit_P[part.problem_B]
        _add_rows(self._loss_UT[:, columns], unit_B, part.loss_BT)
        if part.weight_BT is not None:
            if self._weight_UT is None:
                self._weight_UT = np.zeros(self._loss_UT.shape)
            _add_rows(self._weight_UT[:, columns], unit_B, part.weight_BT)
        divisor_B = self._plan.divisor_P[part.problem_B]
        counts = part.answered_BT, part.right_BT, part.tokens_BT
        full = part.full_right_B, part.full_tokens_B
        for q in np.unique(divisor_B):
            for count_QT, count_BT in zip(self._count_QT3, counts, strict=True):
                count_QT[q, columns] += count_BT[divisor_B == q].sum(axis=0, dtype=np.int64)
            if columns.start == 0:
                for full_Q, full_B in zip(self._full_Q2, full, strict=True):
                    full_Q[q] += full_B[divisor_B == q].sum(dtype=np.int64)

    def replay(self) -> Replay:
        """The sums as means."""
        plan = self._plan

        def mean(count_Q: NDArray[np.int64]) -> NDArray[np.float64]:
            share_Q = count_Q.T / plan.divisors
            # One after another: the order in `sum` depends on the memory layout, and so on the
            # number of policies.
            return np.asarray(share_Q.cumsum(axis=-1)[..., -1] / plan.n_equal)

        answered_T, right_T, tokens_T = (mean(count_QT) for count_QT in self._count_QT3)
        full_right, full_tokens = (float(mean(full_Q)) for full_Q in self._full_Q2)
        return Replay(
            losses=self._losses(),
            answered_T=answered_T,
            right_T=right_T,
            tokens_T=tokens_T,
            full_tokens=full_tokens,
            full_right=full_right,
            n_problems=len(plan.unit_P),
            n_draws=plan.draws.n_draws,
        )

    def _losses(self) -> Losses:
        plan = self._plan
        if plan.divisor_U.max() > 1:
            self._loss_UT /= plan.divisor_U[:, None]
            if self._weight_UT is not None:
                self._weight_UT /= plan.divisor_U[:, None]
        if self._weight_UT is not None:
            return Losses(self._loss_UT, self._weight_UT)
        if (plan.divisor_U == plan.problems_U).all():
            return Losses.unweighted(self._loss_UT)
        size_U1 = (plan.problems_U / plan.divisor_U)[:, None]
        return Losses(self._loss_UT, np.broadcast_to(size_U1, self._loss_UT.shape))


def _sum_by_problem(values_D: NDArray[Any], draws_B: NDArray[np.intp]) -> NDArray[Any]:
    """Sums along the first axis over the draws of each problem, which are adjacent."""
    if values_D.dtype == np.bool_:
        values_D = values_D.view(np.uint8)
        if draws_B.max() > 255:
            values_D = values_D.astype(np.int64)
    first_B = np.cumsum(draws_B) - draws_B
    total_B: NDArray[Any] = values_D[first_B]
    for k in range(1, int(draws_B.max())):
        more_B = np.flatnonzero(draws_B > k)
        total_B[more_B] += values_D[first_B[more_B] + k]
    return total_B


def _add_rows(
    total_UT: NDArray[np.float64], unit_B: NDArray[np.intp], values_BT: NDArray[np.float64]
) -> None:
    """Add each row to the row of its unit, one after another; units in ascending order."""
    starts_B = np.flatnonzero(np.diff(unit_B, prepend=-1))
    if len(starts_B) == len(unit_B):
        total_UT[unit_B[0] : unit_B[-1] + 1] += values_BT
        return
    for unit, value_T in zip(unit_B, values_BT, strict=True):
        total_UT[unit] += value_T


def _ranges(first_B: NDArray[np.intp], count_B: NDArray[np.intp]) -> NDArray[np.intp]:
    """The ranges first .. first + count - 1, concatenated."""
    before_B = np.cumsum(count_B) - count_B
    return np.asarray(np.repeat(first_B - before_B, count_B) + np.arange(count_B.sum()))


def _in_order(run: Callable[[_Task], _Result], tasks: Sequence[_Task]) -> Iterator[_Result]:
    """Results in the order of their tasks, computed on a few threads; few results wait."""
    if len(tasks) == 1:  # starting a thread takes as long as replaying a few problems
        yield run(tasks[0])
        return
    pending: deque[Future[_Result]] = deque()
    with ThreadPoolExecutor(THREADS) as pool:
        for task in tasks:
            pending.append(pool.submit(run, task))
            if len(pending) > THREADS:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
