"""The chains of the default method: thresholds that depend on no data but a learned scale.

The constants were chosen in the power study (docs/studies/calibration.md) on several models, and
hardly any of them is the best on any.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

import numpy as np
from scipy import special

from calibration.policy.exit_rule import FULL_BUDGET, NEVER, ExitPolicy
from calibration.simulation.procedure import Procedure
from calibration.simulation.risks import REGRET, Risk
from calibration.testing.chains import Chain
from calibration.testing.families import (
    LADDER,
    VOTE_LADDER,
    LowExit,
    full_budget,
    with_low_exit,
)
from calibration.testing.rescale import Scale

FINE_LADDER = (
    NEVER, *(round(float(special.expit(logit)), 9) for logit in np.arange(14, -3, -0.1)),
)  # fmt: skip
"""λ2 from never to almost always, in steps of 0.1 in log-odds.

Equal steps in log-odds are fine wherever a model has its readings, also very near to 1.
"""
SHARE_OF_LOW = 0.25
"""Under `regret`: δ of a chain with low exits throughout, at λ1 = α / 2.

If the confidence is calibrated, low exits then cost at most half of α.
"""
LOW_PER_DOUBT = 0.3
"""Under `regret`: λ1 = 0.3 (1 - λ2) on one of the two forks of the main chain."""
FORK_FROM = 150
"""Units of the test from which on there are two forks; below, there is the one with low exits."""
LOWS_PER_FALL = (0.0, 0.15, 0.3, 0.5)
"""Under `error`: λ1 is one of these times what λ2 has fallen since the start of the chain.

Problems that the test does not use show which (`methods.py`).
"""
LEAST_LOW, PATIENCE = 0.02, 4
"""No λ1 is below the first; the patience of all low exits, in checkpoints."""
HIGH_MARGIN, HIGH_MARGIN_STEP, HIGH_MARGIN_MOST = 0.25, 0.12, 0.6
"""For risks that may abstain: how far λ2 is below 1, in units of alpha; see `_answer_steps`."""
LOWS_WHEN_ABSTAINING = (0.4, 0.1, None)
"""λ1 that are tried one after the other with each λ2 and λa; such readings rarely end well."""
SHARE_OF_FULL_BUDGET = 0.1
"""δ of a chain that answers everything, starting at the full budget.

It serves models that are hardly ever wrong, whatever their confidence says.
"""
HIGHS_WHEN_VOTING, VOTE_LAG = (0.9, 0.75, 0.5), 2
"""λ2 of a sample among several; each comes two steps of the vote's ladder after the one before.

A vote must be certain, not its samples. A smaller λ2 makes it riskier, about as much as a smaller
share does.
"""

LEAD_WHEN_ANSWERING, LEAD_WHEN_ABSTAINING = 0.3, 0.6
"""The lead in the vote that ends the other samples, as a share of all votes.

An early end must not cost a chain the order of its policies, from safe to risky. At these leads no
risk rose noticeably, at any λ2 and required share, on recordings of both embedded models.
"""
LEAST_LEAD = 1.2
"""No lead is below this many votes: two samples must agree."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """Chains of thresholds, defined on the scale on which a confidence is P(right).

    Attributes:
        risk: the risk to bound.
        procedure: how one question is answered.
        interval: N, tokens.
        scale: the scale of the recorded confidence.
        low_exits: whether there are any; without them there is one chain.
        n_units: the units of the test; few are not enough for many chains.
        smoothing: weights of the past; each has its own chains and an equal share of δ.
    """

    risk: Risk
    procedure: Procedure
    interval: int
    scale: Scale
    low_exits: bool
    n_units: int
    smoothing: tuple[float, ...]

    @property
    def source(self) -> str:
        """Where the thresholds come from, as text for the certificate."""
        kind = "chains of fixed thresholds" if self.low_exits else "one chain of fixed thresholds"
        if self.scale.is_recorded:
            return f"fixed sequences along {kind}"
        return f"fixed sequences along {kind}, on a confidence scale learned from other problems"

    def chains(self, alpha: float) -> list[Chain]:
        """The chains of one level."""
        if self.risk.answers_always:
            chains = self._answering_chains(alpha)
        else:
            chains = self._abstaining_chains(alpha)
        return [
            _smoothed(chain, weight, 1 / len(self.smoothing))
            for weight in self.smoothing
            for chain in chains
        ]

    def giving_up(self, chain: Chain, per_fall: float) -> Chain:
        """A chain along which λ2 falls, with low exits that increase as it does.

        λ1 is `per_fall` times what λ2 has fallen since the first policy, which has no low exit, so
        the risk rises in small steps. It ends where λ1 would reach λ2.
        """
        high_T = self.scale.right(np.array([policy.lambda_high for policy in chain.policies]))
        steps = []
        for policy, fallen in zip(chain.policies, high_T[0] - high_T, strict=True):
            low = round(float(per_fall * fallen), 9)
            step = policy if low < LEAST_LOW else self._with_low(policy, low)
            if low >= LEAST_LOW and step == policy:
                break
            steps.append(step)
        return replace(chain, policies=tuple(dict.fromkeys(steps)))

    def _answering_chains(self, alpha: float) -> list[Chain]:
        plain = self._answering()
        # Under `error`, low exits use up the margin between alpha and the model's own error rate,
        # which is unknown. Other problems must show that they are worth it: see `giving_up`.
        if not self.low_exits or self.risk.name != REGRET.name:
            return [Chain(plain, 1.0)]
        doubting = self._answering(lambda high: LOW_PER_DOUBT * (1 - high))
        if self.n_units < FORK_FROM:
            plain = doubting
        both = zip(plain, doubting, strict=False)
        common = sum(1 for _ in takewhile(lambda steps: steps[0] == steps[1], both))
        rests = [rest for rest in (plain[common:], doubting[common:]) if rest]
        forks = tuple(Chain(rest, 1 / len(rests)) for rest in rests)
        if alpha / 2 < LEAST_LOW:
            return [Chain(plain[:common], 1.0, forks)]
        giving_up = self._answering(lambda high: alpha / 2, FINE_LADDER[::2])
        return [
            Chain(plain[:common], 1 - SHARE_OF_LOW, forks),
            Chain(giving_up, SHARE_OF_LOW),
        ]

    def _abstaining_chains(self, alpha: float) -> list[Chain]:
        main = self._voting() if self.procedure.samples > 1 else self._abstaining(alpha)
        if not self.low_exits:
            return [Chain(main, 1.0)]
        return [
            Chain(main, 1 - SHARE_OF_FULL_BUDGET),
            Chain(self._answering(ladder=LADDER), SHARE_OF_FULL_BUDGET),
        ]

    def _full_budget(self, lead: float) -> ExitPolicy:
        """The full-budget policy, which ends some of several samples at this lead in the vote."""
        full, samples = full_budget(self.risk), self.procedure.samples
        if samples <= 2:  # nobody is left to end once two agree
            return full
        return replace(full, lambda_stop=max(lead, LEAST_LEAD / samples))

    def _answering(
        self,
        low: Callable[[float], float] = lambda high: 0.0,
        ladder: Sequence[float] = FINE_LADDER,
    ) -> tuple[ExitPolicy, ...]:
        """λ2 falls from never to almost always; λ1 follows it.

        The vote stops under every policy but the first.
        """
        full = self._full_budget(LEAD_WHEN_ANSWERING)
        steps = []
        for high in ladder:
            step = replace(full, lambda_high=self.scale.threshold(high))
            if LEAST_LOW <= low(high) < high:
                step = self._with_low(step, low(high))
            elif low(high) >= high:
                continue
            steps.append(step)
        steps.insert(0, replace(steps[0], lambda_stop=FULL_BUDGET.lambda_stop))
        return tuple(dict.fromkeys(steps))

    def _abstaining(self, alpha: float) -> tuple[ExitPolicy, ...]:
        """Every λa and λ2 of `_answer_steps`, first with many low exits and then with fewer."""
        full, threshold = full_budget(self.risk), self.scale.threshold
        lows = LOWS_WHEN_ABSTAINING if self.low_exits else (None,)
        steps = []
        for high, asked in _answer_steps(alpha):
            step = replace(full, lambda_high=threshold(high), lambda_answer=threshold(asked))
            for low in lows:
                if low is None:
                    steps.append(step)
                elif low < high:
                    steps.append(self._with_low(step, low))
        return tuple(dict.fromkeys(steps))

    def _with_low(self, policy: ExitPolicy, low: float) -> ExitPolicy:
        threshold = self.scale.threshold(low)
        # If the recorded confidence hardly varies, both thresholds may become 0 or 1.
        if threshold >= policy.lambda_high:
            return policy
        return with_low_exit(policy, LowExit(threshold, PATIENCE * self.interval))

    def _voting(self) -> tuple[ExitPolicy, ...]:
        """For each λ2, the share of the vote falls from almost all to none; then λ2 falls alone."""
        lags = [VOTE_LAG * number for number in range(len(HIGHS_WHEN_VOTING))]
        highs = [
            (high, VOTE_LADDER[place - lag])
            for place in range(len(VOTE_LADDER) + lags[-1])
            for high, lag in zip(HIGHS_WHEN_VOTING, lags, strict=True)
            if 0 <= place - lag < len(VOTE_LADDER)
        ]
        highs += [(high, 0.0) for high in LADDER if high < min(HIGHS_WHEN_VOTING)]
        full, threshold = self._full_budget(LEAD_WHEN_ABSTAINING), self.scale.threshold
        steps = (
            replace(full, lambda_high=threshold(high), lambda_vote=share) for high, share in highs
        )
        return tuple(dict.fromkeys(steps))


def _answer_steps(alpha: float) -> Iterator[tuple[float, float]]:
    """λ2 and λa: λa falls from 1 - alpha to 0, and λ2 follows it.

    An answer threshold of 1 - a · alpha (a rises from 1) comes with λ2 = 1 - min(0.6, 0.25 + 0.12
    (a - 1)) · alpha. Early exits are then wrong far less often than allowed, which compensates for
    answers given at the end. Once everything is answered, λ2 falls alone.
    """
    for asked in (*(step for step in LADDER if step <= 1 - alpha), 0.0):
        doubts = (1 - asked) / alpha
        margin = min(HIGH_MARGIN_MOST, HIGH_MARGIN + HIGH_MARGIN_STEP * (doubts - 1))
        yield 1 - margin * alpha, asked
    for high in LADDER:
        if high < 1 - HIGH_MARGIN_MOST * alpha:
            yield high, 0.0


def _smoothed(chain: Chain, weight: float, share: float) -> Chain:
    """The same chain on smoothed confidences, with a part of its share."""
    if not weight:
        return replace(chain, share=chain.share * share)
    return Chain(
        tuple(replace(policy, smoothing=weight) for policy in chain.policies),
        chain.share * share,
        tuple(_smoothed(fork, weight, 1.0) for fork in chain.forks),
    )
