"""The one way from what is asked for to a design, for fits and for forecasts of them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Self, TypeVar

from calibration.certificate.design import Design
from calibration.errors import CalibrationError
from calibration.simulation.groups import Average, Groups, declared_groups
from calibration.simulation.procedure import Procedure
from calibration.simulation.risks import SELECTIVE, Risk, risk_named
from calibration.testing.families import Family, Grid
from calibration.testing.fwer import Promise, delta_per_level, most_delta_L
from calibration.testing.learned_path import TOKEN_PRICE
from calibration.testing.methods import Method, family_for
from calibration.testing.p_values import fewest_problems, require_rate
from calibration.traces.traces import Traces

Name = TypeVar("Name", bound=StrEnum)

ALPHAS = (0.05, 0.1, 0.2)
"""Risk levels, where none are asked for."""
DELTA = 0.1
"""The probability with which a guarantee may fail, where none is asked for."""


@dataclass(frozen=True, slots=True)
class DesignRequest:
    """What is asked of the levels of a certificate; with recordings it becomes a `Design`.

    Attributes: see `calibration.certify`. `delta` is the part of the levels.
    """

    risk: Risk
    alphas: tuple[float, ...]
    delta: float
    promise: Promise
    procedure: Procedure
    method: Method
    grid: Grid | None
    token_price: float
    average: Average
    max_group_size: int | None

    @classmethod
    def of(
        cls,
        *,
        risk: str | Risk = SELECTIVE,
        alphas: Sequence[float] = ALPHAS,
        delta: float = DELTA,
        promise: Promise | str = Promise.SIMULTANEOUS,
        samples: int = 1,
        vote: str = "confidence",
        draws: int | None = None,
        method: Method | str = Method.AUTO,
        grid: Grid | None = None,
        token_price: float = TOKEN_PRICE,
        average: Average | str = Average.PROBLEMS,
        max_group_size: int | None = None,
    ) -> Self:
        """The request with these arguments of `calibration.certify`.

        Raises:
            CalibrationError: an argument is unknown or out of range.
        """
        require_rate("delta", delta)
        require_token_price(token_price)
        return cls(
            risk=risk_named(risk) if isinstance(risk, str) else risk,
            alphas=check_alphas(alphas),
            delta=delta,
            promise=parse_choice("promise", Promise, promise),
            procedure=Procedure(samples, vote, draws),
            method=parse_choice("method", Method, method),
            grid=grid,
            token_price=token_price,
            average=parse_choice("average", Average, average),
            max_group_size=max_group_size,
        )

    @property
    def level_delta(self) -> float:
        """The share of delta that each level's test starts with."""
        return delta_per_level(self.delta, self.alphas, self.promise)

    @property
    def fewest(self) -> dict[float, int]:
        """By alpha, the smallest n with which any test could certify it, if no answer is wrong.

        It is no smaller than that of a larger alpha: as in `most_delta_L`, a hypothesis at one of
        the i smallest alphas must be rejected at their part of delta, for every i up to the last.
        """
        most_L = most_delta_L(self.delta, self.alphas, self.promise)
        needed_L = [fewest_problems(*level) for level in zip(self.alphas, most_L, strict=True)]
        return {alpha: max(needed_L[level:]) for level, alpha in enumerate(self.alphas)}

    @property
    def needed(self) -> int:
        """The smallest n with which any test could certify any alpha, if no answer is wrong."""
        return self.fewest[self.alphas[-1]]

    @property
    def served_price(self) -> float | None:
        """The price of tokens in the choice of what is served; None where tokens alone count."""
        return None if self.risk.answers_always else self.token_price

    def groups_of(self, traces: Traces) -> Groups | None:
        """How groups of these problems enter the risk: see `declared_groups`."""
        return declared_groups(traces, self.average, self.max_group_size)

    def design(
        self,
        recording: Traces,
        n_units: int,
        order: Traces | None = None,
        *,
        groups: Groups | None,
        family: Family | None = None,
    ) -> Design:
        """The design of a test on `n_units` units.

        Args:
            recording: traces of the recording to test; only their fingerprint is used.
            n_units: units of the test, or about how many are expected.
            order: other problems, to learn policies or their order from.
            groups: how groups of problems enter the risk.
            family: policies and structure; by default those of the method.

        Raises:
            CalibrationError: the method learns, and there is no `order`.
        """
        samples, vote = self.procedure.samples, self.procedure.vote
        return Design(
            risk=self.risk.name,
            alphas=self.alphas,
            delta=self.delta,
            promise=self.promise,
            procedure=self.procedure,
            tested=family or self._family(recording, n_units, order),
            groups=groups,
            fingerprint=recording.fingerprint
            and replace(recording.fingerprint, samples=samples, vote=vote),
            n_order_problems=order.n_problems if order else 0,
            order_digest=order.digest if order else None,
        )

    def _family(self, recording: Traces, n_units: int, order: Traces | None) -> Family:
        return family_for(
            self.method, self.risk, self.procedure, self.alphas, self.level_delta, self.token_price,
            grid=self.grid, order=order, recording=recording, n_units=n_units, average=self.average,
        )  # fmt: skip


def parse_choice(name: str, kind: type[Name], value: str, *others: str) -> Name:
    """The member of an enumeration with this value.

    Args:
        name: the name of the argument in the message.
        kind: the enumeration.
        value: the value to look up.
        others: further values that are accepted elsewhere.

    Raises:
        CalibrationError: the value is unknown; the message lists the known ones.
    """
    try:
        return kind(value)
    except ValueError:
        known = ", ".join((*others, *kind))
        raise CalibrationError(f"{name} {value!r} is unknown: give one of {known}") from None


def require_token_price(token_price: float) -> None:
    """Raises CalibrationError for a price that is no share, including NaN."""
    if not 0 <= token_price <= 1:
        raise CalibrationError(
            f"token_price is {token_price}: give a share of the questions, 0 to 1"
        )


def check_alphas(alphas: Sequence[float]) -> tuple[float, ...]:
    """Risk levels by rising alpha.

    Raises:
        CalibrationError: there is none, one occurs twice, or one is outside (0, 1).
    """
    levels = sorted(float(alpha) for alpha in alphas)
    if not levels or len(set(levels)) < len(levels):
        raise CalibrationError(f"alphas are {levels}: give at least one, and each only once")
    for alpha in levels:
        require_rate("alpha", alpha)
    return tuple(levels)
