"""The exit rule, vectorised: where each recorded rollout stops under each of many policies.

It is the same rule as `step` and `answers_at_end` (calibration.policy.exit_rule). A property test
checks that they agree. Change them together.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibration.policy.exit_rule import ExitPolicy


@dataclass(frozen=True, slots=True)
class Exits:
    """Where each rollout (R) stops under each policy (T), and whether it is answered there.

    Attributes:
        stop_RT: column of the reading at which the rollout stops; the final reading if there is no
            exit.
        high_RT: whether it is a high exit.
        low_RT: whether it is a low exit.
        answered_RT: whether the rule answers: after a high exit, at an end with c_end >= λa, or
            after a low exit if the policy has `answer_on_low`.
    """

    stop_RT: NDArray[np.intp]
    high_RT: NDArray[np.bool_]
    low_RT: NDArray[np.bool_]
    answered_RT: NDArray[np.bool_]

    @property
    def ended_RT(self) -> NDArray[np.bool_]:
        """Nothing fired: the rollout reached its natural end or its budget."""
        return ~(self.high_RT | self.low_RT)


class Ending(IntEnum):
    """What a stop means; of two stops at one reading, the smaller number takes precedence."""

    ANSWERED = 0
    """A high exit, or an end with c_end >= λa."""
    LOW_ANSWERED = 1
    LOW_ABSTAINED = 2
    END_ABSTAINED = 3


ENDINGS = len(Ending)


def find_exits(
    policies: Sequence[ExitPolicy],
    tokens_RC: NDArray[np.int64],
    confidence_RC: NDArray[np.float64],
    final_R: NDArray[np.intp],
) -> Exits:
    """The exits of `step` and `answers_at_end` for whole recordings: rollouts x policies.

    Row r holds its checkpoints in columns 0 .. final_R[r] - 1 and its final reading in column
    final_R[r]. The padding after it is not read.

    Args:
        policies: the settings to compare.
        tokens_RC: reasoning tokens at each reading.
        confidence_RC: raw confidence at each reading.
        final_R: column of the final reading.
    """
    code_RT = StopFinder(policies).find(tokens_RC, confidence_RC, final_R)
    stop_RT, ending_RT = (code_RT // ENDINGS).astype(np.intp), code_RT % ENDINGS
    low_RT = (ending_RT == Ending.LOW_ANSWERED) | (ending_RT == Ending.LOW_ABSTAINED)
    return Exits(
        stop_RT=stop_RT,
        high_RT=(stop_RT < final_R[:, None]) & ~low_RT,
        low_RT=low_RT,
        answered_RT=ending_RT <= Ending.LOW_ANSWERED,
    )


class StopFinder:
    """Finds where rollouts (R) stop under many policies (T); shared settings are computed once.

    A stop is one number, ENDINGS * column + ending. The earliest stop is the smallest number, and
    at the same reading a high exit comes before a low one. The stop of a policy is the smallest of
    three: the stop by its high threshold, by its low threshold, and by λa at the end.
    """

    def __init__(self, policies: Sequence[ExitPolicy]) -> None:
        self._highs, self._high_T = _distinct(policies, lambda p: (p.smoothing, p.lambda_high))
        self._lows, self._low_T = _distinct(policies, _low_setting)
        self._ends, self._end_T = _distinct(policies, lambda p: (p.smoothing, p.lambda_answer))

    def find(
        self,
        tokens_RC: NDArray[np.int64],
        confidence_RC: NDArray[np.float64],
        final_R: NDArray[np.intp],
    ) -> NDArray[np.unsignedinteger[Any]]:
        """The stops, rollouts x policies; arguments as for `find_exits`."""
        readings = _Readings(tokens_RC, confidence_RC, final_R)
        code = np.uint16 if ENDINGS * tokens_RC.shape[1] <= 2**16 else np.uint32
        latest = np.iinfo(code).max
        stop_RT = np.full((len(final_R), len(self._high_T)), latest, dtype=code)
        for stops, index_T in (
            (self._high_stops(readings), self._high_T),
            (self._low_stops(readings), self._low_T),
            (self._end_stops(readings), self._end_T),
        ):
            for_all_RS = [stop_RS.astype(code) for stop_RS in stops]
            if for_all_RS:
                of_T = np.concatenate(for_all_RS, axis=1).take(index_T, axis=1)
                np.minimum(stop_RT, of_T, out=stop_RT)
        return stop_RT

    def _high_stops(self, readings: "_Readings") -> Iterator[NDArray[np.intp]]:
        for smoothing, policies in groupby(self._highs, lambda p: p.smoothing):
            thresholds = [policy.lambda_high for policy in policies]
            yield readings.first_stops(readings.highest(smoothing), thresholds, Ending.ANSWERED)

    def _low_stops(self, readings: "_Readings") -> Iterator[NDArray[np.intp]]:
        """Constant λ1: all thresholds of one patience at once; sigmoid: all patiences at once."""
        for (smoothing, forced, is_sigmoid), policies in groupby(self._lows, _low_form):
            ending = Ending.LOW_ANSWERED if forced else Ending.LOW_ABSTAINED
            if is_sigmoid:
                for _, group in groupby(policies, _low_curve):
                    same = list(group)
                    longest_RC = readings.longest_low(same[0])
                    yield readings.first_stops(longest_RC, [p.patience for p in same], ending)
            else:
                groups = [list(group) for _, group in groupby(policies, lambda p: p.patience)]
                patiences = [same[0].patience for same in groups]
                negated_window_maxima = readings.negated_window_maxima(smoothing, patiences)
                for same, negated_RC in zip(groups, negated_window_maxima, strict=True):
                    yield readings.first_stops(negated_RC, [-p.lambda_low for p in same], ending)

    def _end_stops(self, readings: "_Readings") -> Iterator[NDArray[np.intp]]:
        for smoothing, policies in groupby(self._ends, lambda p: p.smoothing):
            yield readings.last_stops(smoothing, [policy.lambda_answer for policy in policies])


class _Readings:
    """Recorded readings and the stops they cause; checkpoints end before the final column."""

    def __init__(
        self,
        tokens_RC: NDArray[np.int64],
        confidence_RC: NDArray[np.float64],
        final_R: NDArray[np.intp],
    ) -> None:
        self.tokens_RC = tokens_RC
        self.confidence_RC = confidence_RC
        self.final_R = final_R
        self._checkpoint_RC = np.arange(tokens_RC.shape[1]) < final_R[:, None]

    def highest(self, smoothing: float) -> NDArray[np.float64]:
        """The highest smoothed confidence up to each checkpoint; NaN causes no exit."""
        smoothed_RC = self._smoothed(smoothing)
        return np.maximum.accumulate(np.where(np.isnan(smoothed_RC), -np.inf, smoothed_RC), axis=1)

    def negated_window_maxima(
        self, smoothing: float, patiences: Iterable[int]
    ) -> Iterator[NDArray[np.float64]]:
        """For each patience, ascending: minus the lowest λ1 with a low exit up to each checkpoint.

        That λ1 is the highest confidence within the patience, including the current checkpoint.
        """
        smoothed_RC = self._smoothed(smoothing)
        smoothed_RC = np.where(np.isnan(smoothed_RC), np.inf, smoothed_RC)
        highest_RC, whole = smoothed_RC.copy(), 1
        for patience in patiences:
            # All windows already contain the last `whole` readings.
            for lag in range(whole, smoothed_RC.shape[1]):
                gap_RC = self.tokens_RC[:, lag:] - self.tokens_RC[:, :-lag]
                checkpoint_RC = self._checkpoint_RC[:, lag:]
                within_RC = (gap_RC < patience) & checkpoint_RC
                if not within_RC.any():
                    break
                past_RC, latest_RC = smoothed_RC[:, :-lag], highest_RC[:, lag:]
                np.maximum(latest_RC, past_RC, out=latest_RC, where=within_RC)
                if lag == whole and (within_RC == checkpoint_RC).all():
                    whole += 1
            lasted_RC = self.tokens_RC >= patience
            yield np.maximum.accumulate(np.where(lasted_RC, -highest_RC, -np.inf), axis=1)

    def longest_low(self, policy: ExitPolicy) -> NDArray[np.int64]:
        """The longest low streak up to each checkpoint, in tokens; -1 before the first."""
        low_RC = self._smoothed(policy.smoothing) <= self._low_threshold(policy)
        since_RC = np.maximum.accumulate(np.where(low_RC, 0, self.tokens_RC), axis=1)
        return np.maximum.accumulate(np.where(low_RC, self.tokens_RC - since_RC, -1), axis=1)

    def first_stops(
        self, rising_RC: NDArray[Any], thresholds: Sequence[float], ending: Ending
    ) -> NDArray[np.intp]:
        """The stops (S) at the first checkpoint that reaches each threshold, in ascending order.

        If a rollout never reaches it, the result is later than any other stop.
        """
        n_rows, n_stops = len(rising_RC), len(thresholds)
        # The number of thresholds that each reading reaches; count those it does not reach yet.
        reached_RC = np.searchsorted(thresholds, rising_RC, side="right")
        reached_RC += (n_stops + 1) * np.arange(n_rows)[:, None]
        count_RS = np.bincount(reached_RC.ravel(), minlength=n_rows * (n_stops + 1))
        waiting_RS = count_RS.reshape(n_rows, -1)[:, :-1].cumsum(axis=1)
        final_R1 = self.final_R[:, None]
        fired_RS = waiting_RS < final_R1
        never_R1 = ENDINGS * final_R1 + Ending.END_ABSTAINED
        return np.where(fired_RS, ENDINGS * waiting_RS + ending, never_R1)

    def last_stops(self, smoothing: float, thresholds: Sequence[float]) -> NDArray[np.intp]:
        """The stops (S) at the final reading, by λa."""
        end_R = self._smoothed(smoothing)[np.arange(len(self.final_R)), self.final_R]
        answered_RS = end_R[:, None] >= np.array(thresholds)
        endings_RS = np.where(answered_RS, Ending.ANSWERED, Ending.END_ABSTAINED)
        return np.asarray(ENDINGS * self.final_R[:, None] + endings_RS)

    def _smoothed(self, weight: float) -> NDArray[np.float64]:
        return smoothed(self.confidence_RC, weight)

    def _low_threshold(self, policy: ExitPolicy) -> float | NDArray[np.float64]:
        if policy.low_rise == 0:
            return policy.lambda_low
        # By `low_threshold` itself: numpy's exp may differ from math's in the last bit, and a tie
        # is an exit.
        distinct, number_RC = self._distinct_tokens
        return np.array([policy.low_threshold(tokens) for tokens in distinct])[number_RC]

    @cached_property
    def _distinct_tokens(self) -> tuple[list[int], NDArray[np.intp]]:
        """The distinct token counts at checkpoints, and each reading's index into them."""
        tokens_RC = np.where(self._checkpoint_RC, self.tokens_RC, 0)
        distinct, number_RC = np.unique(tokens_RC, return_inverse=True)
        return distinct.tolist(), number_RC.reshape(tokens_RC.shape)


def smoothed(confidence_RC: NDArray[np.float64], weight: float) -> NDArray[np.float64]:
    """The moving average of `ExitPolicy.smoothing` along each row; `weight` is that of the past."""
    if weight == 0:
        return confidence_RC
    smoothed_RC = confidence_RC.copy()
    for column in range(1, smoothed_RC.shape[1]):
        smoothed_RC[:, column] = (
            weight * smoothed_RC[:, column - 1] + (1 - weight) * smoothed_RC[:, column]
        )
    return smoothed_RC


def _low_form(policy: ExitPolicy) -> tuple[float, bool, bool]:
    return policy.smoothing, policy.answer_on_low, policy.low_rise > 0


def _low_curve(policy: ExitPolicy) -> tuple[float, ...]:
    return policy.lambda_low, policy.low_rise, policy.low_slope, policy.low_shift


def _low_setting(policy: ExitPolicy) -> tuple[float, ...]:
    """All settings that decide on low exits, in the order in which `StopFinder` processes them."""
    if policy.low_rise > 0:
        return (*_low_form(policy), *_low_curve(policy), policy.patience)
    return (*_low_form(policy), policy.patience, -policy.lambda_low)


def _distinct(
    policies: Sequence[ExitPolicy], setting: Callable[[ExitPolicy], tuple[float, ...]]
) -> tuple[list[ExitPolicy], NDArray[np.intp]]:
    """One policy for each distinct setting, sorted, and each policy's index into them."""
    settings = [setting(policy) for policy in policies]
    one_of = dict(zip(settings, policies, strict=True))
    number = {key: s for s, key in enumerate(sorted(one_of))}
    index_T = np.array([number[key] for key in settings], dtype=np.intp)
    return [one_of[key] for key in number], index_T
