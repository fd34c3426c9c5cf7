"""The methods that choose which policies are tested, and the default method.

The constants here were chosen once, in the power study (docs/studies/calibration.md). Apart from
the number of problems, they do not depend on the data at hand.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from calibration.errors import CalibrationError
from calibration.policy.exit_rule import FULL_BUDGET, ExitPolicy
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
"""Number of units from which on the confidence scale is learned, on some of the units."""
RESCALE_SHARE = 0.1
ORDER_SHARE = 0.3
"""Share of the units that a learned path is made from, if the traces must serve for both."""

HIGH_MARGIN, HIGH_MARGIN_STEP, HIGH_MARGIN_MOST = 0.25, 0.12, 0.6
"""For risks that may abstain: how far λ2 is below 1, in units of alpha; see `_abstaining`."""
LOW_WHEN_ABSTAINING = (0.4, 4)
"""λ1 and patience in checkpoints; such low readings hardly ever lead to an answer."""
SHARE_OF_FULL_BUDGET = 0.1
"""δ of a chain that answers everything, starting at the full budget.

It serves models that are hardly ever wrong, whatever their confidence says.
"""
HIGH_WHEN_VOTING = 0.75
"""λ2 of one sample among several: the vote must be certain, not the sample."""
LEAD_WHEN_ANSWERING, LEAD_WHEN_ABSTAINING = 0.3, 0.6
"""The lead in the vote that ends the other samples, as a share of all votes.

An early end must not cost a chain the order of its policies, from safe to risky. At these leads no
risk rises noticeably, at any λ2 and required share, on any recording of the power study.
"""
LEAST_LEAD = 1.2
"""No lead is below this many votes: two samples must agree."""
LOW_PER_DOUBT, LEAST_LOW, PATIENCE = 0.3, 0.02, 4
"""Under `regret`, on the main chain: λ1 = 0.3 (1 - λ2), none below 0.02; and its patience."""
LOW_THROUGHOUT = (0.1, 4)
"""λ1 and patience of a second chain, which has low exits from its first policy on."""


def _share_of_low(alpha: float) -> float:
    """δ of the second chain: only a large alpha can afford the cost of its low exits."""
    return min(0.6, max(0.0, 8 * alpha - 0.6))


class Method(StrEnum):
    """Which policies are tested, and in what structure."""

    AUTO = "auto"
    """Rescaled chains with ordering problems or at least `RESCALE_FROM` units; otherwise chains."""
    FIXED_SEQUENCE = "fixed-sequence"
    """One chain of fixed thresholds without low exits; uses no data."""
    CHAINS = "chains"
    """Chains of fixed thresholds with low exits; uses no data."""
    RESCALED_CHAINS = "rescaled-chains"
    """Chains whose thresholds are on a confidence scale learned from other problems."""
    SPLIT = "split"
    """One path through the grid, learned from other problems (Pareto Testing)."""
    HOLM = "holm"
    """The whole grid without order, with Holm's correction."""
    BONFERRONI = "bonferroni"
    """The whole grid without order, with Bonferroni's correction."""


def split_traces(method: Method, traces: Traces) -> tuple[Traces | None, Traces]:
    """The problems to learn from (None if the method needs none) and the problems to test on.

    The split depends only on a hash of the problems' names.
    """
    if method is Method.SPLIT:
        return traces.split(ORDER_SHARE)
    rescaled = method is Method.AUTO and traces.n_units >= RESCALE_FROM
    if rescaled or method is Method.RESCALED_CHAINS:
        return traces.split(RESCALE_SHARE)
    return None, traces


def find_split(traces: Traces, tested_digest: str) -> tuple[Traces | None, Traces] | None:
    """The problems learned from and the problems tested, identified by the digest of the latter.

    None if neither the traces nor the test part of `split_traces` have that digest.
    """
    if traces.digest == tested_digest:
        return None, traces
    for method in (Method.RESCALED_CHAINS, Method.SPLIT):
        # With fewer units, one of the parts would be empty.
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
        method: the method.
        risk: the risk to bound.
        procedure: how one question is answered.
        alphas: risk levels, rising.
        level_delta: δ of one level, for which a learned path is made.
        slack: see `certify`.
        grid: by default `Grid.absolute` for the interval and budget of the traces. Chains use only
            the smoothing of a given grid.
        order: labelled problems to learn from; the test does not use them.
        recording: traces of the same recording; only their fingerprint is used.
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
        f"fixed sequence along one path of policies, learned from {order.n_problems} other "
        f"problems over {grid.source}"
    )
    return family_of_chains([[chain]] * len(alphas), source)


@dataclass(frozen=True, slots=True)
class _Recipe:
    """Chains of fixed thresholds, defined on the scale on which a confidence is P(right)."""

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
        return f"fixed sequences along {kind}, on a confidence scale learned from other problems"

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
            # The margin between alpha and the model's own error rate is unknown, and low exits
            # would have to fit into it.
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

    def _full_budget(self, lead: float) -> ExitPolicy:
        """The full-budget policy, which ends some of several samples at this lead in the vote."""
        full, samples = full_budget(self.risk), self.procedure.samples
        if samples <= 2:  # nobody is left to end once two agree
            return full
        return replace(full, lambda_stop=max(lead, LEAST_LEAD / samples))

    def _answering(self, low: Callable[[float], float]) -> tuple[ExitPolicy, ...]:
        """λ2 falls from never to almost always; λ1 follows it.

        The vote stops under every policy but the first.
        """
        full, patience = self._full_budget(LEAD_WHEN_ANSWERING), PATIENCE * self.interval
        steps = []
        for high in LADDER:
            step = replace(full, lambda_high=self.scale.threshold(high))
            if LEAST_LOW <= low(high) < high:
                step = self._with_low(step, low(high), patience)
            elif low(high) >= high:
                continue
            steps.append(step)
        steps.insert(0, replace(steps[0], lambda_stop=FULL_BUDGET.lambda_stop))
        return tuple(dict.fromkeys(steps))

    def _abstaining(self, alpha: float) -> tuple[ExitPolicy, ...]:
        """The answer threshold falls from 1 - alpha to 0, and λ2 follows it.

        An answer threshold of 1 - a · alpha (a rises from 1) comes with λ2 = 1 - min(0.6, 0.25 +
        0.12 (a - 1)) · alpha. Early exits are then wrong far less often than allowed, which
        compensates for answers given at the end. Once everything is answered, λ2 falls alone.
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
            steps = [self._with_low(step, low, patience * self.interval) for step in steps]
        return tuple(dict.fromkeys(steps))

    def _with_low(self, policy: ExitPolicy, low: float, patience: int) -> ExitPolicy:
        threshold = self.scale.threshold(low)
        # If the recorded confidence hardly varies, both thresholds may become 0 or 1.
        if threshold >= policy.lambda_high:
            return policy
        return with_low_exit(policy, LowExit(threshold, patience))

    def _voting(self) -> tuple[ExitPolicy, ...]:
        """The required share of the vote falls from almost all to none; then λ2 falls."""
        full, threshold = self._full_budget(LEAD_WHEN_ABSTAINING), self.scale.threshold
        high = threshold(HIGH_WHEN_VOTING)
        steps = [replace(full, lambda_high=high, lambda_vote=share) for share in VOTE_LADDER]
        steps += [
            replace(full, lambda_high=threshold(step)) for step in LADDER if step < HIGH_WHEN_VOTING
        ]
        return tuple(dict.fromkeys(steps))
