"""Power of betting tests: how often each detects a risk below alpha, on averaged losses.

    python -m studies.statistics.betting_power [--smoke]

A loss averages the errors of 8 rollouts of a problem, a share of which is answered (1 for the risks
`error` and `regret`, 0.6 for `selective`); rho is the correlation of rollouts of one problem. In
each cell, the risk is so far below alpha that the ideal test has a power of about 3/4. The ideal
test takes its critical value from the same losses at risk alpha, which no real test knows.

- best: the ideal test. clt: the normal approximation, which is not valid.
- replay: the test of `calibration.testing.betting`. star: STaR-Bets, with the bet
  sqrt(2 log(1 / (level W)) / (v left)). plug-in: the bet of Waudby-Smith and Ramdas, eq. 26, with
  the maximum over time. mixture: eight constant bets, with the maximum over time. hb:
  Hoeffding-Bentkus.
- one rollout: the exact binomial test on the first rollout only.

All tests except `best` and `clt` are valid at every n. `at alpha` is how often replay rejects at
risk alpha, which may be up to delta.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from calibration.simulation.losses import Losses
from calibration.testing.p_values import PValue, p_values
from studies.smoke import study_parser

RUNS = 1000
ROLLOUTS = 8
ALPHAS = (0.05, 0.1, 0.2)
RHOS = (0.2, 0.5, 0.8)
DELTAS = (0.1, 0.033)
PROBLEMS = (50, 100, 300, 1000, 3000)
BETS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.45, 0.65, 0.9)

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Cell:
    """One setting: risk level, correlation of rollouts, number of problems, level of the test."""

    alpha: float
    rho: float
    n: int
    delta: float
    share_answered: float

    @property
    def risk(self) -> float:
        """The risk below alpha at which an ideal normal test has a power of about 3/4."""
        answered = self.share_answered
        variance = self.alpha * (1 - self.alpha) * (self.rho + (1 - self.rho) / ROLLOUTS / answered)
        needed = 0.7 - special.ndtri(self.delta)
        return max(self.alpha - float(needed) * math.sqrt(variance / self.n), 0.2 * self.alpha)

    def draw(self, rng: np.random.Generator, risk: float) -> tuple[Losses, Losses]:
        """Losses averaged over all rollouts, and of the first rollout; columns are runs."""
        size = (1 - self.rho) / self.rho
        shape = (self.n, RUNS)
        wrong_UT = rng.beta(risk * size, (1 - risk) * size, shape)
        answered_UT = rng.binomial(ROLLOUTS, self.share_answered, shape)
        loss_UT = rng.binomial(answered_UT, wrong_UT)
        # Rollouts of a problem are exchangeable, so the first stands for any of them.
        first_UT = (rng.random(shape) < answered_UT / ROLLOUTS).astype(float)
        first_wrong_UT = first_UT * (rng.random(shape) < loss_UT / np.maximum(answered_UT, 1))
        if self.share_answered == 1:
            return Losses.unweighted(loss_UT / ROLLOUTS), Losses.unweighted(first_wrong_UT)
        return Losses(loss_UT / ROLLOUTS, answered_UT / ROLLOUTS), Losses(first_wrong_UT, first_UT)


def main() -> None:
    problems = PROBLEMS[:1] if study_parser(__doc__).parse_args().smoke else PROBLEMS
    print("Power, mean over alpha (.05 .1 .2) and rho (.2 .5 .8)\n")
    print("| answered | delta | n | " + " | ".join(METHODS) + " | at alpha |")
    print("|--:" * (len(METHODS) + 4) + "|")
    for share, delta, n in itertools.product((1.0, 0.6), DELTAS, problems):
        cells = [Cell(alpha, rho, n, delta, share) for alpha in ALPHAS for rho in RHOS]
        powers = np.array([cell_powers(cell) for cell in cells]).mean(axis=0)
        print(
            f"| {share} | {delta} | {n:,} | " + " | ".join(f"{x:.2f}" for x in powers) + " |",
            flush=True,
        )
    print("\nPower of replay by its target_level, at alpha = .1, rho = .5, n = 300, risk = .07\n")
    levels = (0.1, 0.05, 0.033, 0.02, 0.01)
    print("| target level | " + " | ".join(f"at {level}" for level in levels) + " |")
    print("|--:" * (len(levels) + 1) + "|")
    losses, _ = Cell(0.1, 0.5, 300, 0.1, 1.0).draw(np.random.default_rng(0), 0.07)
    for target_level in levels:
        p_T = p_values(losses, 0.1, PValue.BETTING, target_level=target_level)
        print(
            f"| {target_level} | "
            + " | ".join(f"{(p_T <= level).mean():.2f}" for level in levels)
            + " |"
        )


def cell_powers(cell: Cell) -> list[float]:
    """The power of each method, and how often replay rejects at risk alpha."""
    rng = np.random.default_rng(7)
    null, _ = cell.draw(rng, cell.alpha)
    losses, first = cell.draw(rng, cell.risk)
    powers = []
    for name, method in METHODS.items():
        if name == "best":
            rejected_T = losses.risk_T < np.quantile(null.risk_T, cell.delta)
        else:
            rejected_T = method(first if name == "one rollout" else losses, cell) <= cell.delta
        powers.append(float(rejected_T.mean()))
    return [*powers, float((replay(null, cell) <= cell.delta).mean())]


def replay(losses: Losses, cell: Cell) -> Array:
    return p_values(losses, cell.alpha, PValue.BETTING, target_level=cell.delta)


def of_kind(kind: PValue) -> Callable[[Losses, Cell], Array]:
    return lambda losses, cell: p_values(losses, cell.alpha, kind)


def star(losses: Losses, cell: Cell) -> Array:
    wealth_T, best_T = np.ones(RUNS), np.ones(RUNS)
    square_T = np.full(RUNS, cell.alpha * (1 - cell.alpha))
    for unit, gain_T in enumerate(gains(losses, cell)):
        missing_T = np.log(np.maximum(1.03 / cell.delta / wealth_T, 1.0))
        variance_T = square_T / (unit + 1)
        bet_T = np.sqrt(2 * missing_T / (variance_T * (cell.n - unit)))
        wealth_T *= 1 + np.minimum(bet_T, 0.999 / (1 - cell.alpha)) * gain_T
        np.maximum(best_T, wealth_T, out=best_T)
        square_T += gain_T**2
    return 1 / best_T


def plug_in(losses: Losses, cell: Cell) -> Array:
    wealth_T, best_T = np.ones(RUNS), np.ones(RUNS)
    total_T, square_T = np.full(RUNS, 0.5), np.full(RUNS, 0.25)
    for unit, gain_T in enumerate(gains(losses, cell)):
        variance_T = square_T / (unit + 1)
        bet_T = np.sqrt(2 * np.log(1 / cell.delta) / (cell.n * variance_T))
        wealth_T *= 1 + np.minimum(bet_T, 0.75 / (1 - cell.alpha)) * gain_T
        np.maximum(best_T, wealth_T, out=best_T)
        value_T = cell.alpha - gain_T
        total_T += value_T
        square_T += (value_T - total_T / (unit + 2)) ** 2
    return 1 / best_T


def mixture(losses: Losses, cell: Cell) -> Array:
    gain_UT = gains(losses, cell) / (1 - cell.alpha)
    wealth_UT: Array = np.zeros(gain_UT.shape)
    for bet in BETS:
        wealth_UT += np.exp(np.minimum(np.cumsum(np.log1p(bet * gain_UT), axis=0), 500)) / len(BETS)
    best_T: Array = np.maximum(wealth_UT.max(axis=0), 1)
    return 1 / best_T


def gains(losses: Losses, cell: Cell) -> Array:
    return cell.alpha * losses.weight_UT - losses.loss_UT


METHODS: dict[str, Callable[[Losses, Cell], Array]] = {
    "best": replay,
    "clt": of_kind(PValue.CLT),
    "replay": replay,
    "star": star,
    "plug-in": plug_in,
    "mixture": mixture,
    "hb": of_kind(PValue.HOEFFDING_BENTKUS),
    "one rollout": of_kind(PValue.BINOMIAL),
}


if __name__ == "__main__":
    main()
