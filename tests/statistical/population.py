"""A world replayed once: a population with exactly known risks, and samples from it."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibration.simulation.losses import Losses
from calibration.simulation.procedure import Procedure
from calibration.simulation.replay import replay
from calibration.simulation.risks import Risk
from tests.statistical.policies import Grid
from tests.statistical.worlds import World

CHUNK = 10_000


@dataclass(frozen=True)
class Recording:
    """How problems are recorded and answered: rollouts per problem, samples per question."""

    rollouts: int
    samples: int

    @property
    def averaged(self) -> bool:
        """Whether a problem's loss averages several draws, so that it is not binary."""
        return self.rollouts // self.samples > 1

    def __str__(self) -> str:
        return f"{self.samples} of {self.rollouts}"


@dataclass(frozen=True, slots=True, eq=False)
class Population:
    """Units (U) and their losses under the policies (T) of a grid, as whole numbers over `scale`.

    The units were drawn from a world. From then on they are the population: fits draw units with
    replacement, independently, so a policy's risk is a ratio of sums over all units, without any
    error of simulation.
    """

    grid: Grid
    risk: Risk
    scale: int
    loss_UT: NDArray[np.uint8]
    weight_UT: NDArray[np.uint8]
    tokens_T: NDArray[np.float64]

    @classmethod
    def replayed(
        cls, world: World, risk: Risk, recording: Recording, n_units: int, seed: int
    ) -> "Population":
        """`n_units` units of a world, through the replay that fits use."""
        rng = np.random.default_rng(seed)
        grid = Grid.of(risk, recording.samples)
        scale = world.group_size * (recording.rollouts // recording.samples)
        losses, weights, tokens = [], [], []
        for first in range(0, n_units, CHUNK):
            traces = world.draw(rng, min(CHUNK, n_units - first), recording.rollouts, f"u{first}x")
            replayed = replay(traces, grid.policies, risk, Procedure(recording.samples))
            losses.append(_whole(replayed.losses.loss_UT, scale))
            weights.append(_whole(replayed.losses.weight_UT, scale))
            tokens.append(replayed.tokens_T * replayed.losses.n_units)
        return cls(
            grid=grid,
            risk=risk,
            scale=scale,
            loss_UT=np.concatenate(losses),
            weight_UT=np.concatenate(weights),
            tokens_T=np.sum(tokens, axis=0) / n_units,
        )

    @property
    def may_abstain(self) -> bool:
        return not self.risk.answers_always

    @property
    def risk_T(self) -> NDArray[np.float64]:
        """The true risk of each policy; 1 where it never answers."""
        loss_T = self.loss_UT.sum(axis=0, dtype=np.int64)
        weight_T = self.weight_UT.sum(axis=0, dtype=np.int64)
        return np.where(weight_T > 0, loss_T / np.maximum(weight_T, 1), 1.0)

    def sample(self, rng: np.random.Generator, n: int) -> Losses:
        """Losses of `n` independent units."""
        rows_U = rng.integers(len(self.loss_UT), size=n)
        loss_UT = self.loss_UT[rows_U] / self.scale
        if self.risk.answers_always:
            return Losses.unweighted(loss_UT)
        return Losses(loss_UT, self.weight_UT[rows_U] / self.scale)

    def levels(self, count: int = 3) -> tuple[float, ...]:
        """Alphas slightly below the risk of some policy, spread over the grid.

        If policies have the same risk, the levels are moved apart by one hundredth.
        """
        risk_T = np.sort(self.risk_T[(self.risk_T > 0.01) & (self.risk_T < 0.9)])
        at = (np.linspace(0.15, 0.75, count) * (len(risk_T) - 1)).round().astype(int)
        alphas = (risk_T[at] * (1 - 1e-9)).tolist()
        for level in reversed(range(count - 1)):
            alphas[level] = min(alphas[level], 0.99 * alphas[level + 1])
        return tuple(alphas)


def _whole(share_UT: NDArray[np.float64], scale: int) -> NDArray[np.uint8]:
    whole_UT = np.rint(share_UT * scale)
    if not np.allclose(whole_UT, share_UT * scale, rtol=0, atol=1e-9 * scale):
        raise ValueError(f"losses are no multiples of 1/{scale}")
    if math.prod(whole_UT.shape) and whole_UT.max() > 255:
        raise ValueError(f"scale {scale} does not fit a byte")
    return whole_UT.astype(np.uint8)
