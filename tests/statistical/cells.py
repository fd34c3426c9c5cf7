"""The settings of the study: which worlds, risks, tests and sizes meet in one run."""

import zlib
from dataclasses import dataclass

from calibration import Promise
from calibration.simulation.risks import ERROR, REGRET, SELECTIVE, Risk
from calibration.testing.p_values import PValue
from tests.statistical.design import Row, pairwise
from tests.statistical.fits import Setting
from tests.statistical.harness import Tally, run
from tests.statistical.policies import Structure
from tests.statistical.population import Population, Recording
from tests.statistical.procedures import certifiers
from tests.statistical.worlds import WORLDS, World

ALPHAS = 3
FACTORS = {
    "world": WORLDS,
    "risk": (SELECTIVE, ERROR, REGRET),
    "recording": (Recording(1, 1), Recording(4, 1), Recording(3, 3), Recording(6, 3)),
    "p_value": tuple(PValue),
    "n": (20, 50, 100, 300, 1000, 2000),
}
OWN_AIMS_UP_TO = 300
"""Units up to which betting tests are run for each family anew: it takes time."""
CELLS_PER_STUDY = len(Structure) * (1 + ALPHAS)
"""What a study holds against δ: each structure, simultaneous and at each alpha pointwise."""


@dataclass(frozen=True)
class Study:
    """A row of the design; every structure and promise is run in it, on the same p-values."""

    world: World
    risk: Risk
    recording: Recording
    kind: PValue
    n: int

    def __str__(self) -> str:
        return ", ".join(
            [self.world.name, self.risk.name, str(self.recording), str(self.kind), f"n={self.n}"]
        )

    @property
    def seed(self) -> int:
        return zlib.crc32(str(self).encode())

    @property
    def asymptotic(self) -> bool:
        return self.kind is PValue.CLT

    def population(self, n_units: int) -> Population:
        return Population.replayed(self.world, self.risk, self.recording, n_units, self.seed)

    def run(self, population: Population, fits: int) -> dict[tuple[str, Promise], Tally]:
        own_aims = self.n <= OWN_AIMS_UP_TO
        alphas = population.levels(ALPHAS)
        setting = Setting(alphas, self.kind, self.n, fits, self.seed, own_aims=own_aims)
        return run(population, setting, certifiers(population.grid, setting.alphas))


def allowed(row: Row) -> bool:
    """The binomial test refuses averages."""
    world, _, recording, kind, _ = row
    return kind is not PValue.BINOMIAL or not (recording.averaged or world.group_size > 1)


STUDIES = tuple(Study(*row) for row in pairwise(FACTORS, allowed))
CELLS = CELLS_PER_STUDY * sum(not study.asymptotic for study in STUDIES)
