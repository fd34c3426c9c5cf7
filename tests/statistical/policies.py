"""A fixed grid of at most 64 policies, and every structure in which they are tested."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import product

import numpy as np
from numpy.typing import NDArray

from calibration import FULL_BUDGET, ExitPolicy
from calibration.simulation.risks import Risk
from calibration.testing.chains import Chain, family_of_chains
from calibration.testing.families import Correction, Family, LowExit, with_low_exit
from tests.statistical.worlds import INTERVAL

DELTA = 0.1
HIGH = (1.01, 0.97, 0.9, 0.85, 0.8, 0.7, 0.6)
LOW = (LowExit(), LowExit(0.15, 2 * INTERVAL), LowExit(0.35, 2 * INTERVAL))
STOP = (FULL_BUDGET.lambda_stop, 0.3, 0.5)
"""With several samples, the vote stop beside each low exit."""
ANSWER = (0.9, 0.6, 0.0)
GRAPH_SHARES = (0.6, 0.2, 0.2)


class Structure(StrEnum):
    """The structure of the tests of a family."""

    BONFERRONI = "bonferroni"
    HOLM = "holm"
    SEQUENCE = "sequence"
    """One chain without low exits, from no data: the fixed sequence of LTT."""
    CHAINS = "chains"
    """One chain per low exit, with equal shares of δ."""
    GRAPH = "graph"
    """The same chains, most of δ on the first; each starts at two places that differ by level."""
    FORK = "fork"
    """One chain that forks into three, and a second that shares δ with it."""
    SPLIT = "split"
    """One chain through the grid, learned on other problems."""
    PATH = "path"
    """Such a chain beside `chains`, as the default has it."""


@dataclass(frozen=True)
class Grid:
    """Policies (T) that fit a risk, as chains from safe to risky; the first has no low exits."""

    chains: tuple[tuple[ExitPolicy, ...], ...]

    @classmethod
    def labels(cls, length: int) -> "Grid":
        """Three chains of placeholder policies."""
        highs = np.linspace(1.0, 0.6, length).tolist()
        return cls(
            tuple(
                tuple(with_low_exit(ExitPolicy(lambda_high=high), low) for high in highs)
                for low in LOW
            )
        )

    @classmethod
    def of(cls, risk: Risk, samples: int) -> "Grid":
        """63 policies if a risk may abstain, otherwise 21; always with the full-budget policy."""
        strict = (0.0,) if risk.answers_always else ANSWER
        # Several samples abstain by their vote, one by its own confidence.
        field = "lambda_answer" if samples == 1 else "lambda_vote"
        return cls(
            tuple(
                tuple(
                    with_low_exit(
                        replace(
                            ExitPolicy(lambda_high=high, answer_on_low=risk.answers_always),
                            lambda_stop=stop if samples > 1 else FULL_BUDGET.lambda_stop,
                            **{field: least},
                        ),
                        low,
                    )
                    for least, high in product(strict, HIGH)
                )
                for low, stop in zip(LOW, STOP, strict=True)
            )
        )

    @property
    def policies(self) -> tuple[ExitPolicy, ...]:
        return tuple(policy for chain in self.chains for policy in chain)

    def columns(self, policies: Sequence[ExitPolicy]) -> NDArray[np.intp]:
        """The indices of policies in `policies`."""
        index = {policy: t for t, policy in enumerate(self.policies)}
        return np.array([index[policy] for policy in policies])

    def families(self, alphas: Sequence[float]) -> Mapping[Structure, Family]:
        """The families that need no data."""
        levels = range(len(alphas))
        one = [Chain(self.chains[0], 1.0)]
        several = [Chain(chain, 1 / len(self.chains)) for chain in self.chains]
        return {
            Structure.BONFERRONI: Family(self.policies, Correction.BONFERRONI, "all"),
            Structure.HOLM: Family(self.policies, Correction.HOLM, "all"),
            Structure.SEQUENCE: family_of_chains([one for _ in levels], "one chain"),
            Structure.CHAINS: family_of_chains([several for _ in levels], "chains"),
            Structure.GRAPH: family_of_chains(
                [self._entered_twice(level, len(alphas)) for level in levels], "graph"
            ),
            Structure.FORK: family_of_chains([self._forked() for _ in levels], "a fork"),
        }

    def _forked(self) -> list[Chain]:
        """The start of the first chain, with the rest of each chain as a fork."""
        first, *others = self.chains
        place = len(first) // 3
        rests = (first[place:], *(other[place:] for other in others))
        forks = tuple(Chain(rest, 1 / len(rests)) for rest in rests)
        return [Chain(first[:place], 0.75, forks), Chain(others[-1][:place], 0.25)]

    def _entered_twice(self, level: int, n_levels: int) -> list[Chain]:
        """Chains that start at the safe end, and also further along the larger alpha is."""
        entered = []
        for chain, share in zip(self.chains, GRAPH_SHARES, strict=True):
            step = (1 + level) * len(chain) // (n_levels + 2)
            entered += [Chain(chain, share / 2), Chain(chain[step:], share / 2)]
        return entered
