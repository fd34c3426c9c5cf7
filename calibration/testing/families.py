"""The policies that are tested and the structure of the tests; both are fixed before testing.

A grid defines which policies exist. A family defines which of them are tested, and how the error
budget is spent on them. Thresholds come from no data, from an unlabelled pool or from separate
problems. The order of a learned family comes from labelled problems that the test does not use
(`learned_path.py`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import product
from typing import Any, Self

import numpy as np

from calibration.errors import CalibrationError
from calibration.policy.exit_rule import FULL_BUDGET, NEVER, ExitPolicy
from calibration.simulation.procedure import Procedure
from calibration.simulation.risks import Risk
from calibration.testing.graphs import Graph
from calibration.traces.traces import Traces

LADDER = (
    NEVER, 0.9999, 0.9995, 0.999, 0.998, 0.995, 0.99, 0.985, 0.98, 0.97, 0.96, 0.95, 0.94, 0.92,
    *(round(0.9 - 0.025 * step, 3) for step in range(35)),
)  # fmt: skip
"""λ2 from never to almost always, with finer steps where confident models have their readings."""

VOTE_LADDER = tuple(round(0.95 - 0.05 * step, 2) for step in range(20))
"""Required share of the vote, from almost all to none."""

LAMBDA_HIGH = (
    0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.925, 0.95, 0.97, 0.98, 0.99, 0.995,
    0.999, 0.9999, NEVER,
)  # fmt: skip
LAMBDA_ANSWER = (0.0, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.97, 0.99)
LAMBDA_VOTE = (0.0, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
LAMBDA_LOW = (0.05, 0.1, 0.2, 0.3)
PATIENCE_CHECKPOINTS = (4, 8, 16)
INTERVAL = 500
"""N if the traces do not state it: the value of RLCM App. B, tokens."""


class Correction(StrEnum):
    """How the family-wise error rate is controlled (`fwer.py`)."""

    BONFERRONI = "bonferroni"
    HOLM = "holm"
    GRAPH = "graph"
    """One chain (fixed sequence), several chains, or any graph that passes on shares of δ."""


@dataclass(frozen=True, slots=True)
class LowExit:
    """When to abstain by a low exit: a constant λ1, or a sigmoid in tokens (see `ExitPolicy`)."""

    threshold: float = FULL_BUDGET.lambda_low
    patience: int = 0
    rise: float = 0.0
    slope: float = 0.0
    shift: float = 0.0


NO_LOW_EXIT = LowExit()


@dataclass(frozen=True, slots=True)
class Grid:
    """All combinations of thresholds, except invalid ones (λ1 >= λ2, λa > λ2).

    `policies` always contains the full-budget policy.

    Attributes:
        lambda_high: λ2.
        low_exits: when to abstain early.
        lambda_answer: λa, for risks that may abstain.
        lambda_vote: required share of the vote, for several samples and risks that may abstain.
        lambda_stop: lead in the vote that ends the other samples, for several samples.
        smoothing: weight of the past in the moving average of the confidence.
        source: where the thresholds come from, as text for the certificate.
    """

    lambda_high: tuple[float, ...] = LAMBDA_HIGH
    low_exits: tuple[LowExit, ...] = (NO_LOW_EXIT,)
    lambda_answer: tuple[float, ...] = LAMBDA_ANSWER
    lambda_vote: tuple[float, ...] = LAMBDA_VOTE
    lambda_stop: tuple[float, ...] = (FULL_BUDGET.lambda_stop,)
    smoothing: tuple[float, ...] = (0.0,)
    source: str = "fixed thresholds"

    @classmethod
    def absolute(
        cls,
        interval: int,
        max_tokens: int | None = None,
        smoothing: Iterable[float] = (0.0,),
        *,
        sigmoid: bool = False,
    ) -> Self:
        """Fixed thresholds, independent of any data.

        Args:
            interval: N, tokens; patience is a multiple of it.
            max_tokens: the reasoning budget, tokens; a patience that reaches it would never lead to
                an exit.
            smoothing: see the class.
            sigmoid: whether λ1 grows with the tokens (arXiv 2602.03814), from 0 to the same values,
                with its midpoint at a quarter or half of the budget; otherwise it is constant.

        Raises:
            CalibrationError: `sigmoid` is set without `max_tokens`.
        """
        if sigmoid:
            if max_tokens is None:
                raise CalibrationError("a sigmoid λ1 grows over the budget: give max_tokens")
            lows = tuple(
                LowExit(0.0, PATIENCE_CHECKPOINTS[0] * interval, rise, 16 / max_tokens, shift)
                for rise, shift in product(LAMBDA_LOW, (max_tokens / 4, max_tokens / 2))
            )
        else:
            lows = tuple(
                LowExit(threshold, n * interval)
                for threshold, n in product(LAMBDA_LOW, PATIENCE_CHECKPOINTS)
                if max_tokens is None or n * interval < max_tokens
            )
        return cls(low_exits=(NO_LOW_EXIT, *lows), smoothing=tuple(smoothing))

    @classmethod
    def quantiles(cls, pool: Traces, count: int = 12, smoothing: Iterable[float] = (0.0,)) -> Self:
        """Thresholds at the quantiles of a pool's confidences; its labels are not used.

        The pool must not contain problems of the test: thresholds derived from the tested
        confidences would depend on the draw of these problems.

        Args:
            pool: recorded problems, labelled or not.
            count: number of thresholds of λ2 and of λa; λ1 has a third as many.
            smoothing: see the class.

        Raises:
            CalibrationError: `count` is below 3.
        """
        if count < 3:
            raise CalibrationError(f"count is {count}: give 3 quantiles or more")
        recorded = pool.confidence_RC[~np.isnan(pool.confidence_RC)]
        upper = np.quantile(recorded, np.linspace(0.4, 0.99, count))
        lower = np.quantile(recorded, np.linspace(0.02, 0.3, count // 3))
        highs = tuple(sorted({*upper.tolist(), NEVER}))
        interval = interval_of(pool)
        lows = tuple(
            LowExit(threshold, n * interval)
            for threshold, n in product(sorted(set(lower.tolist())), PATIENCE_CHECKPOINTS)
        )
        return cls(
            lambda_high=highs,
            low_exits=(NO_LOW_EXIT, *lows),
            lambda_answer=(0.0, *highs[:-1]),
            smoothing=tuple(smoothing),
            source=f"quantiles of the confidences of {pool.n_problems} other problems",
        )

    def policies(self, risk: Risk, procedure: Procedure) -> tuple[ExitPolicy, ...]:
        """The policies that fit a risk and a procedure, the full-budget policy first."""
        answers, votes = self.lambda_answer, self.lambda_vote
        if risk.answers_always:
            answers = votes = (0.0,)
        leads = self.lambda_stop
        if procedure.samples == 1:
            votes, leads = (0.0,), (FULL_BUDGET.lambda_stop,)
        full = full_budget(risk)
        grid = (
            with_low_exit(
                replace(
                    full,
                    lambda_high=high,
                    lambda_answer=answer,
                    lambda_vote=vote,
                    lambda_stop=lead,
                    smoothing=smoothing,
                ),
                low,
            )
            for smoothing in self.smoothing
            for low in self.low_exits
            for high in self.lambda_high
            for answer in answers
            for vote in votes
            for lead in leads
            # The final reading knows more than a checkpoint that would have caused an exit, so its
            # threshold is not higher.
            if answer <= high and low.threshold + low.rise < high
        )
        return tuple(dict.fromkeys((full, *grid)))


@dataclass(frozen=True, slots=True)
class Family:
    """The policies (T) to test, and how the error budget δ is spent on them.

    Attributes:
        policies: candidates.
        correction: how the family-wise error rate is controlled.
        source: where policies and structure come from, as text for the certificate.
        weights_LT: for a graph, each policy's initial share of δ; one row per alpha, by rising
            alpha.
        graph: for a graph, who inherits the share of a rejected hypothesis.
    """

    policies: tuple[ExitPolicy, ...]
    correction: Correction
    source: str
    weights_LT: tuple[tuple[float, ...], ...] | None = None
    graph: Graph | None = None

    def first(self, level: int) -> tuple[int, float]:
        """The policy tested first at a level (numbered by rising alpha), and its share of δ."""
        if self.weights_LT is None:
            return 0, 1 / len(self.policies)
        weights_T = self.weights_LT[level]
        largest = int(np.argmax(weights_T))
        return largest, weights_T[largest]

    def to_json(self) -> dict[str, Any]:
        """The family as plain JSON values; policies as rows under one list of field names."""
        names = list(dict.fromkeys(name for one in self.policies for name in one.to_scalars()))
        return {
            "source": self.source,
            "correction": str(self.correction),
            "fields": names,
            "policies": [[getattr(policy, name) for name in names] for policy in self.policies],
            "weights": self.weights_LT,
            "edges": self.graph and self.graph.edges,
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """The family from the values of `to_json`.

        Raises:
            CalibrationError: a policy or an edge is invalid.
            TypeError: a weight or a share is no number, or a successor no whole number.
        """
        rows = (dict(zip(values["fields"], row, strict=True)) for row in values["policies"])
        weights, edges = values["weights"], values["edges"]
        return cls(
            policies=tuple(ExitPolicy.from_scalars(row) for row in rows),
            correction=Correction(values["correction"]),
            source=values["source"],
            weights_LT=None if weights is None else tuple(map(_numbers, weights)),
            graph=None if edges is None else Graph(tuple(map(_edges, edges))),
        )


def _numbers(row: Sequence[Any]) -> tuple[float, ...]:
    for number in row:
        if type(number) not in (int, float):  # nor true or false
            raise TypeError(f"{number!r} is no number")
    return tuple(row)


def _edges(row: Sequence[Sequence[Any]]) -> tuple[tuple[int, float], ...]:
    for successor, share in row:
        if type(successor) is not int:
            raise TypeError(f"the successor {successor!r} is no whole number")
        _numbers([share])
    return tuple((successor, share) for successor, share in row)


def full_budget(risk: Risk) -> ExitPolicy:
    """The full-budget policy for a risk."""
    return replace(FULL_BUDGET, answer_on_low=risk.answers_always)


def with_low_exit(policy: ExitPolicy, low: LowExit) -> ExitPolicy:
    """The same policy with this low exit."""
    return replace(
        policy,
        lambda_low=low.threshold,
        patience=low.patience,
        low_rise=low.rise,
        low_slope=low.slope,
        low_shift=low.shift,
    )


def interval_of(traces: Traces) -> int:
    """N of recorded traces, tokens; `INTERVAL` if the traces do not state it."""
    return traces.fingerprint.checkpoint_interval if traces.fingerprint else INTERVAL
