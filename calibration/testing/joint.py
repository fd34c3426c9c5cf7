"""Statements that hold jointly with the levels of a certificate, under one delta.

Other risks can be bounded beside the one of the levels, such as the share of questions that are
declined. And an upper prediction bound says how many of the next m questions go wrong at most.

Delta is divided beforehand: with S such statements, the levels have 4 / (4 + S) of it, and each
statement 1 / (4 + S). So with probability at least 1 - delta everything holds at once, whatever the
dependence (union bound): at all levels, or under a pointwise promise at the one that was chosen
beforehand. A part of delta enters a bound through its logarithm, so the division costs little.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from calibration.errors import CalibrationError
from calibration.simulation.groups import Average
from calibration.simulation.losses import Losses
from calibration.simulation.risks import REGRET, SIDE_RISKS, Risk
from calibration.testing.fwer import Promise, holm
from calibration.testing.p_values import PValue, p_values, upper_bounds

MAX_NEXT = 1_000_000_000
"""The most next questions that a certificate speaks of."""
LEVELS_PARTS = 4
"""The levels have as large a part of delta as so many other statements."""


@dataclass(frozen=True, slots=True)
class SideBound:
    """An upper bound on another risk of the policy of each level.

    Attributes:
        risk: "declined", "wrong" or "lost"; see `SIDE_RISKS`.
        at_most: what no served policy exceeds; None if the risk is only measured and bounded.
        bounds: by level; None where none is certified. `at_most`, if that was given.
    """

    risk: str
    at_most: float | None = None
    bounds: tuple[float | None, ...] = ()

    def __post_init__(self) -> None:
        if self.risk not in SIDE_RISKS:
            raise CalibrationError(
                f"{self.risk!r} cannot be bounded beside the levels: give one of "
                f"{', '.join(SIDE_RISKS)}"
            )
        if self.at_most is not None and not 0 < self.at_most < 1:
            raise CalibrationError(
                f"the bound on {self.risk} is {self.at_most:g}: give a share between 0 and 1, as "
                f"in {self.risk}=0.4"
            )


@dataclass(frozen=True, slots=True)
class NextQuestions:
    """How many of the next questions go wrong at most, at each level.

    They count as the risk of the levels counts: under `selective`, answered questions of which some
    are wrong. They are drawn independently, from groups at most one each.

    Attributes:
        questions: m, how many questions come.
        most: by level, how many of them go wrong at most; None where none is certified.
    """

    questions: int
    most: tuple[int | None, ...] = ()

    def __post_init__(self) -> None:
        whole = isinstance(self.questions, int) and not isinstance(self.questions, bool)
        if not whole or not 1 <= self.questions <= MAX_NEXT:
            raise CalibrationError(
                f"the next {self.questions} questions: give a whole number from 1 to {MAX_NEXT:,}"
            )


@dataclass(frozen=True, slots=True)
class Joint:
    """What holds jointly with the levels, with probability at least 1 - delta over calibrations.

    For the next questions, the probability is also over their draw. It does not cover statements
    that were chosen after looking at labels.

    Attributes:
        delta: the probability with which anything of all this may fail.
        bounds: on other risks.
        next: on the next questions; None if nothing is said about them.
    """

    delta: float
    bounds: tuple[SideBound, ...] = ()
    next: NextQuestions | None = None

    def __post_init__(self) -> None:
        named = [bound.risk for bound in self.bounds]
        if len(set(named)) < len(named):
            raise CalibrationError(f"bounds are on {', '.join(named)}: name each risk once")
        if not self._statements:
            raise CalibrationError(
                "joint has neither a bound nor next questions: give one, or leave joint out"
            )

    @property
    def _statements(self) -> int:
        return len(self.bounds) + (self.next is not None)

    @property
    def levels_delta(self) -> float:
        """The part of delta of the levels."""
        return LEVELS_PARTS * self.statement_delta

    @property
    def statement_delta(self) -> float:
        """The part of delta of each other statement."""
        return self.delta / (LEVELS_PARTS + self._statements)

    @property
    def has_limits(self) -> bool:
        """Whether some policies are not served, although they are certified."""
        return any(bound.at_most is not None for bound in self.bounds)

    def at(self, bounds: Sequence[Sequence[float | None]], most: Sequence[int | None]) -> Self:
        """The same statements with their figures at each level.

        Args:
            bounds: for each of `bounds`, by level.
            most: of the next questions, by level.
        """
        pairs = zip(self.bounds, bounds, strict=True)
        return replace(
            self,
            bounds=tuple(replace(one, bounds=tuple(found)) for one, found in pairs),
            next=self.next and replace(self.next, most=tuple(most)),
        )

    def to_json(self) -> dict[str, Any]:
        """The statements as plain JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """The statements from the values of `to_json`.

        Raises:
            CalibrationError, KeyError, TypeError: a value is missing, unknown or out of range.
        """
        bounds = [SideBound(**{**one, "bounds": tuple(one["bounds"])}) for one in values["bounds"]]
        coming = values["next"]
        if coming is not None:
            coming = NextQuestions(**{**coming, "most": tuple(coming["most"])})
        return cls(values["delta"], tuple(bounds), coming)


def parse_bounds(
    given: Sequence[str], answered_at_least: float | None = None
) -> dict[str, float | None]:
    """The risks to bound beside the levels, with their limits, from texts.

    Args:
        given: each a risk, or a risk and a limit as in "declined=0.4".
        answered_at_least: the share of the questions that must be answered: a limit on `declined`.

    Raises:
        CalibrationError: a limit is not a number, a share is out of range, or a risk comes twice.
    """
    found: dict[str, float | None] = {}
    for one in given:
        name, limited, most = one.partition("=")
        if name in found:
            raise CalibrationError(f"{name} is bounded twice: give one bound on it")
        try:
            found[name] = float(most) if limited else None
        except ValueError as error:
            raise CalibrationError(
                f"the bound is {one!r}: give a risk, or a risk and a share as in declined=0.4"
            ) from error
    if answered_at_least is None:
        return found
    if not 0 < answered_at_least < 1:
        raise CalibrationError(
            f"answered_at_least is {answered_at_least:g}: give a share between 0 and 1, such as 0.6"
        )
    limit = float(f"{1 - answered_at_least:.12g}")
    if "declined" in found:
        raise CalibrationError(
            f"declined is bounded twice: answered_at_least {answered_at_least:g} is the bound "
            f"declined={limit:g}; leave one of them out"
        )
    return {**found, "declined": limit}


def levels_delta(delta: float, joint: Joint | None) -> float:
    """The part of delta that the levels may spend beside these statements."""
    return delta if joint is None else joint.levels_delta


def next_most(questions: int, alpha: float, delta: float) -> int:
    """The smallest u for which more than u of the next questions go wrong with at most delta.

    Given a risk of at most alpha, the number W of the next m questions that go wrong is binomial,
    and P(W > u) grows with the risk. So P(Binomial(m, alpha) > u) <= delta is enough, at any m.
    The probability that the risk is above alpha comes on top of it: it is that of the level.
    """
    return int(stats.binom.isf(delta, questions, alpha))


def next_delta(joint: Joint, promise: Promise, n_levels: int) -> float:
    """The part of delta of the next questions at one level: levels that hold at once divide it."""
    return joint.statement_delta / (n_levels if promise is Promise.SIMULTANEOUS else 1)


def allowed(
    bound: SideBound, losses: Losses, kind: PValue, delta: float, seed: int
) -> NDArray[np.bool_]:
    """Which policies (T) keep a limit; with probability 1 - delta, all of these do.

    Holm's correction over all tested policies, so it holds for any choice among them.
    """
    if bound.at_most is None:
        return np.ones(losses.n_policies, dtype=np.bool_)
    target = delta / losses.n_policies
    p_T = p_values(losses, bound.at_most, kind, seed, target)
    below_T = losses.risk_T < bound.at_most
    return holm(np.where(below_T, p_T, 1.0), delta) & below_T


def bound_of(
    bound: SideBound, losses: Losses, n_policies: int, kind: PValue, delta: float, seed: int
) -> float:
    """The bound on one tested policy's risk; with probability 1 - delta, those of all hold.

    Args:
        bound: if it has a limit, the policy is one of those that keep it.
        losses: of this policy alone.
        n_policies: how many are tested.
        kind: the test.
        delta: for all policies together.
        seed: of the order in which a betting test visits the units.
    """
    if bound.at_most is not None:
        return bound.at_most
    (upper,) = upper_bounds(losses, delta / n_policies, kind, seed)
    return max(float(upper), float(losses.risk_T[0]))


def requested(
    delta: float,
    risk: Risk,
    bounds: Mapping[str, float | None],
    next_questions: int | None,
    average: Average | str = Average.PROBLEMS,
) -> Joint | None:
    """The statements that a fit shall make beside its levels; None if there are none.

    Raises:
        CalibrationError: a risk is unknown or is that of the levels, a share or number is out of
            range, or questions are to be counted although their loss is not 0 or 1 or the risk is
            an average over groups.
    """
    if not bounds and next_questions is None:
        return None
    if next_questions is not None and not risk.binary:
        raise CalibrationError(
            f"the loss {risk.name!r} is not 0 or 1, so nobody can count which of the next "
            "questions go wrong: leave them out"
        )
    if next_questions is not None and average == Average.GROUPS:
        raise CalibrationError(
            "average is 'groups', so the risk says nothing about the next questions, of which "
            "large groups have more: leave them out, or set average to 'problems'"
        )
    if "lost" in bounds and risk.name == REGRET.name:
        raise CalibrationError(
            "under the risk regret the levels already bound lost answers: leave out the bound lost"
        )
    coming = None if next_questions is None else NextQuestions(next_questions)
    return Joint(delta, tuple(SideBound(name, most) for name, most in bounds.items()), coming)
