"""The methods of choosing what to test, and which of them is used when none is asked for.

The constants here were chosen once, by the power study of docs/studies/calibration.md; none
depends on the data at hand, apart from the number of problems.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from calibration.errors import CalibrationError
from calibration.policy.exit_rule import ExitPolicy
from calibration.simulation.procedure import Procedure
from calibration.simulation.replay import replay
from calibration.simulation.risks import REGRET, Risk
from calibration.testing.families import (
    LADDER,
    VOTE_LADDER,
    Chain,
    Correction,
    Family,
    Grid,
    LowExit,
    family_of_chains,
    full_budget,
    interval_of,
    with_low_exit,
)
from calibration.testing.learned_path import learn_path
from calibration.testing.rescale import Scale
from calibration.traces.traces import Traces

RESCALE_FROM = 150
"""Units from which the scale of the confidence is learned, on some of them."""
RESCALE_SHARE = 0.1
ORDER_SHARE = 0.3
"""Share of the units that lays out a learned path, where the traces must give both."""

HIGH_MARGIN, HIGH_MARGIN_STEP, HIGH_MARGIN_MOST = 0.25, 0.12, 0.6
"""Where the service may abstain: λ2 lies so far below 1, in units of alpha; see `_abstaining`."""
LOW_WHEN_ABSTAINING = (0.4, 4)
"""λ1 and patience in checkpoints. What looks so poor is hardly ever answered in the end."""
SHARE_OF_FULL_BUDGET = 0.1
"""δ of a chain that answers everything, from the full budget on: for models that are hardly ever
wrong, whatever their confidence says."""
HIGH_WHEN_VOTING = 0.75
"""λ2 of one sample among several: the vote, not the sample, is what must be sure."""
LOW_PER_DOUBT, LEAST_LOW, PATIENCE = 0.3, 0.02, 4
"""Under `regret`: λ1 = 0.3 (1 - λ2) on the main chain, and its patience."""
LOW_THROUGHOUT = (0.1, 4)
"""λ1 and patience of a second chain, which gives up from its first policy on."""


def _share_of_low(alpha: float) -> float:
    """δ of that second chain: what its low exits cost only a large alpha can afford."""
    return min(0.6, max(0.0, 8 * alpha - 0.6))


class Method(StrEnum):
    """Which policies are tested, and in what structure."""

    AUTO = "auto"
    """Rescaled chains, given ordering problems or at least `RESCALE_FROM` units; else chains."""
    FIXED_SEQUENCE = "fixed-sequence"
    """One chain of fixed thresholds, without low exits, from no data."""
    CHAINS = "chains"
    """Chains of fixed thresholds, with low exits, from no data."""
    RESCALED_CHAINS = "rescaled-chains"
    """The same, their thresholds meant on a scale of confidence learned on other problems."""
    SPLIT = "split"
    """One path through the grid, learned on other problems (Pareto Testing)."""
    HOLM = "holm"
    """The whole grid, unordered."""
    BONFERRONI = "bonferroni"
    """The whole grid, unordered, without handing on."""


def split_traces(method: Method, traces: Traces) -> tuple[Traces | None, Traces]:
    """The problems that are learned from, None if the method needs none, and those that test.

    Who goes where depends on a hash of the problems' names alone.
    """
    if method is Method.SPLIT:
        return traces.split(ORDER_SHARE)
    rescaled = method is Method.AUTO and traces.n_units >= RESCALE_FROM
    if rescaled or method is Method.RESCALED_CHAINS:
        return traces.split(RESCALE_SHARE)
    return None, traces


def find_split(traces: Traces, tested_digest: str) -> tuple[Traces | None, Traces] | None:
    """What was learned from and what tested, told by the digest of the latter.

    None if neither the traces nor what `split_traces` leaves of them have that digest.
    """
    if traces.digest == tested_digest:
        return None, traces
    for method in (Method.RESCALED_CHAINS, Method.SPLIT):
        # Fewer units than that leave one of the parts empty.
        if traces.n_units * RESCALE_SHARE >= 1:
            learned_from, tested = split_traces(method, traces)
            if tested.digest == tested_digest:
                return learned_from, tested
    return None


def family_for(
    method: Method,
    risk: Risk,
    procedure: Procedure,
    alphas: Sequence[float],
    level_delta: float,
    slack: float,
    *,
    grid: Grid | None,
    order: Traces | None,
    recording: Traces,
) -> Family:
    """The policies that a method tests, in its structure.

    Args:
        alphas: rising.
        level_delta: δ of one level, for which a learned path is laid out.
        slack: see `certify`.
        grid: by default `Grid.absolute` of the traces' interval and budget; of a grid that is
            given, chains take the smoothing alone.
        order: labelled problems to learn from, none of which tests.
        recording: traces of the same recording; only their fingerprint is looked at.
    """
    if grid is None:
        budget = recording.fingerprint.max_tokens if recording.fingerprint else None
        grid = Grid.absolute(interval_of(recording), budget)
    if method is Method.AUTO:
        method = Method.RESCALED_CHAINS if order else Method.CHAINS
    if method in (Method.HOLM, Method.BONFERRONI):
        policies = grid.policies(risk, procedure)
        return Family(policies, Correction(str(method)), f"{method} over {grid.source}")
    if method in (Method.SPLIT, Method.RESCALED_CHAINS) and order is None:
        raise CalibrationError(f"the method {method} learns from other problems: give `order`")
    if method is Method.SPLIT and order is not None:
        return _learned(risk, procedure, alphas, level_delta, slack, grid, order)
    recipe = _Recipe(
        risk,
        procedure,
        interval_of(recording),
        Scale.fit(order) if order is not None and method is Method.RESCALED_CHAINS else Scale(),
        low_exits=method is not Method.FIXED_SEQUENCE,
        smoothing=grid.smoothing,
    )
    return family_of_chains([recipe.chains(alpha) for alpha in alphas], recipe.source)


def _learned(
    risk: Risk,
    procedure: Procedure,
    alphas: Sequence[float],
    level_delta: float,
    slack: float,
    grid: Grid,
    order: Traces,
) -> Family:
    policies = grid.policies(risk, procedure)
    on_order = replay(order, policies, risk, procedure)
    path = learn_path(on_order, level_delta, None if risk.answers_always else slack)
    chain = Chain(tuple(policies[t] for t in path), 1.0)
    source = (
        f"fixed sequence along one path of policies, laid out on {order.n_problems} other problems "
        f"through {grid.source}"
    )
    return family_of_chains([[chain]] * len(alphas), source)


@dataclass(frozen=True, slots=True)
class _Recipe:
    """Fixed thresholds, stated on the scale on which a confidence is the chance to be right."""

    risk: Risk
    procedure: Procedure
    interval: int
    scale: Scale
    low_exits: bool
    smoothing: tuple[float, ...]

    @property
    def source(self) -> str:
        kind = "chains of fixed thresholds" if self.low_exits else "one chain of fixed thresholds"
        if self.scale.is_recorded:
            return f"fixed sequences along {kind}"
        return f"fixed sequences along {kind}, on a scale of confidence learned on other problems"

    def chains(self, alpha: float) -> list[Chain]:
        """The chains of one level."""
        answering = self._answering(lambda high: 0.0)
        if not self.risk.answers_always:
            voting = self.procedure.samples > 1
            abstaining = self._voting() if voting else self._abstaining(alpha)
            chains = [Chain(abstaining, 1.0)]
            if self.low_exits:
                chains = [
                    Chain(abstaining, 1 - SHARE_OF_FULL_BUDGET),
                    Chain(answering, SHARE_OF_FULL_BUDGET),
                ]
        elif not self.low_exits or self.risk.name != REGRET.name:
            # Alpha is above the model's own error rate by an unknown margin, and what low exits
            # cost has to fit into that.
            chains = [Chain(answering, 1.0)]
        else:
            share = _share_of_low(alpha)
            low, _ = LOW_THROUGHOUT
            chains = [Chain(self._answering(lambda high: LOW_PER_DOUBT * (1 - high)), 1 - share)]
            if share > 0:
                chains.append(Chain(self._answering(lambda high: low), share))
        if self.smoothing == (0.0,):
            return chains
        return [
            Chain(
                tuple(replace(policy, smoothing=smoothing) for policy in chain.policies),
                chain.share / len(self.smoothing),
            )
            for smoothing in self.smoothing
            for chain in chains
        ]

    def _answering(self, low: Callable[[float], float]) -> tuple[ExitPolicy, ...]:
        """λ2 falls from never to almost always, and λ1 goes with it."""
        full, patience = full_budget(self.risk), PATIENCE * self.interval
        steps = []
        for high in LADDER:
            step = replace(full, lambda_high=self.scale.threshold(high))
            if LEAST_LOW <= low(high) < high:
                step = self._giving_up(step, low(high), patience)
            elif low(high) >= high:
                continue
            steps.append(step)
        return tuple(dict.fromkeys(steps))

    def _abstaining(self, alpha: float) -> tuple[ExitPolicy, ...]:
        """What is asked of an answer falls from 1 - alpha to nothing, and λ2 after it.

        An answer asked to be right with probability 1 - a · alpha (a rises from 1) comes with λ2 =
        1 - min(0.6, 0.25 + 0.12 (a - 1)) · alpha: what fires early is wrong far less often than is
        allowed, which pays for what is answered at the end. Once everything is answered, λ2 falls
        on its own.
        """
        full, (low, patience) = full_budget(self.risk), LOW_WHEN_ABSTAINING
        pairs = []
        for asked in (*(step for step in LADDER if step <= 1 - alpha), 0.0):
            doubts = (1 - asked) / alpha
            margin = min(HIGH_MARGIN_MOST, HIGH_MARGIN + HIGH_MARGIN_STEP * (doubts - 1))
            pairs.append((1 - margin * alpha, asked))
        pairs += [(step, 0.0) for step in LADDER if step < 1 - HIGH_MARGIN_MOST * alpha]
        threshold = self.scale.threshold
        steps = [
            replace(full, lambda_high=threshold(high), lambda_answer=threshold(asked))
            for high, asked in pairs
            if high > low
        ]
        if self.low_exits:
            steps = [self._giving_up(step, low, patience * self.interval) for step in steps]
        return tuple(dict.fromkeys(steps))

    def _giving_up(self, policy: ExitPolicy, low: float, patience: int) -> ExitPolicy:
        threshold = self.scale.threshold(low)
        # Where the recorded confidence hardly varies, both thresholds may come out at 0 or at 1.
        if threshold >= policy.lambda_high:
            return policy
        return with_low_exit(policy, LowExit(threshold, patience))

    def _voting(self) -> tuple[ExitPolicy, ...]:
        """The share of the vote that is asked falls from almost all to none, and λ2 after it."""
        full, threshold = full_budget(self.risk), self.scale.threshold
        high = threshold(HIGH_WHEN_VOTING)
        steps = [replace(full, lambda_high=high, lambda_vote=share) for share in VOTE_LADDER]
        steps += [
            replace(full, lambda_high=threshold(step)) for step in LADDER if step < HIGH_WHEN_VOTING
        ]
        return tuple(dict.fromkeys(steps))
