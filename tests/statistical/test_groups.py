"""Groups whose risk depends on their size: what is averaged is what the sentence says.

Every problem of a group meets the same fate, the least favourable dependence, and the risk of the
one tested policy is known. A fit errs if it certifies an alpha below that risk.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from calibration import FULL_BUDGET, ExitPolicy, PValue, Traces
from calibration.simulation.groups import Average, Groups
from calibration.simulation.losses import Losses
from calibration.simulation.replay import replay
from calibration.simulation.risks import RISKS
from calibration.testing.p_values import p_values
from tests.statistical.design import fewest_errors, most_errors
from tests.statistical.one_reading import one_reading
from tests.statistical.policies import DELTA
from tests.statistical.report import FITS

ALPHA = 0.2
CELLS = 20


@dataclass(frozen=True)
class SizedWorld:
    """Groups of several sizes, each wrong as a whole and answered as a whole.

    Attributes:
        sizes: possible numbers of problems.
        share: of the groups with each size.
        wrong: probability that a group of each size is wrong.
        answered: probability that a group of each size has a confidence that answers.
    """

    sizes: tuple[int, ...]
    share: tuple[float, ...]
    wrong: tuple[float, ...]
    answered: tuple[float, ...] = (1.0, 1.0)

    def risk(self, average: Average) -> float:
        """Share wrong of the questions answered."""
        sizes = np.array(self.sizes) if average is Average.PROBLEMS else 1
        weight = np.array(self.share) * self.answered * sizes
        return float((weight * self.wrong).sum() / weight.sum())

    def draw(self, rng: np.random.Generator, n_groups: int) -> Traces:
        kind_U = rng.choice(len(self.sizes), size=n_groups, p=self.share)
        size_U = np.array(self.sizes)[kind_U]
        wrong_U = rng.random(n_groups) < np.array(self.wrong)[kind_U]
        answered_U = rng.random(n_groups) < np.array(self.answered)[kind_U]
        unit_P = np.repeat(np.arange(n_groups), size_U)
        groups = tuple(f"g{unit:06d}" for unit in unit_P.tolist())
        return one_reading(wrong_U[unit_P], np.where(answered_U, 0.9, 0.1)[unit_P], groups)


LARGE_IS_HARD = SizedWorld((1, 10), (0.9, 0.1), (0.04, 0.344 * (1 + 1e-6)))
"""Wrong: .07 of the groups, .2 of the problems."""
LARGE_IS_EASY = SizedWorld((1, 10), (0.9, 0.1), (0.2222223, 0.0))
"""Wrong: .2 of the groups, .105 of the problems."""
HARD_AND_ANSWERED = SizedWorld((1, 10), (0.8, 0.2), (0.05, 0.23334), (0.5, 0.9))
"""Wrong, of those answered: .107 of the groups, .2 of the problems."""
SELDOM_HUGE = SizedWorld((1, 100), (0.995, 0.005), (0.0, 0.5981))
"""Wrong: .003 of the groups, .2 of the problems; 100 groups are all small in 61 of 100 samples."""

GROUPS_ALIKE = Groups(Average.GROUPS)
AT_MOST_10 = Groups(max_size=10)


def largest_seen(traces: Traces) -> Groups:
    """Broken: the largest group of the sample bounds the size."""
    return Groups(max_size=int(np.bincount(traces.unit_P).max()))


def violations(
    world: SizedWorld,
    risk: str,
    groups: Groups | Callable[[Traces], Groups],
    n: int,
    fits: int,
    kind: PValue = PValue.BETTING,
) -> int:
    """Fits that certify `ALPHA`; the fits are tested side by side, as if they were policies."""
    rng = np.random.default_rng(11)
    policy = ExitPolicy(lambda_answer=0.5) if risk == "selective" else FULL_BUDGET
    fitted = []
    for _ in range(fits):
        traces = world.draw(rng, n)
        how = groups(traces) if callable(groups) else groups
        fitted.append(replay(traces, [policy], RISKS[risk], groups=how).losses)
    losses = Losses(
        np.hstack([each.loss_UT for each in fitted]), np.hstack([each.weight_UT for each in fitted])
    )
    return int((p_values(losses, ALPHA, kind, target_level=DELTA) <= DELTA).sum())


@pytest.fixture(params=[300, pytest.param(FITS, marks=pytest.mark.statistical)])
def fits(request: pytest.FixtureRequest) -> int:
    return int(request.param)


pytestmark = pytest.mark.slow


@pytest.mark.parametrize("kind", [PValue.BETTING, PValue.HOEFFDING_BENTKUS])
@pytest.mark.parametrize(
    ("world", "risk"),
    [(LARGE_IS_HARD, "error"), (LARGE_IS_EASY, "error"), (HARD_AND_ANSWERED, "selective")],
    ids=["large is hard", "large is easy", "answered"],
)
def test_groups_by_size_keep_the_risk_per_problem(
    world: SizedWorld, risk: str, kind: PValue, fits: int
) -> None:
    found = violations(world, risk, AT_MOST_10, 300, fits, kind)
    if world.risk(Average.PROBLEMS) >= ALPHA:
        assert found <= most_errors(fits, DELTA, CELLS)
    elif kind is PValue.BETTING:
        assert found > fits / 4, "a risk well below alpha is often certified"


@pytest.mark.parametrize(
    ("world", "risk"),
    [(LARGE_IS_HARD, "error"), (HARD_AND_ANSWERED, "selective")],
    ids=["large is hard", "answered"],
)
def test_groups_that_count_the_same_break_the_risk_per_problem(
    world: SizedWorld, risk: str, fits: int
) -> None:
    """So the test per group must not come with a sentence per problem."""
    assert world.risk(Average.PROBLEMS) >= ALPHA > world.risk(Average.GROUPS)
    found = violations(world, risk, GROUPS_ALIKE, 300, fits)
    assert found > 2 * most_errors(fits, DELTA, CELLS)


def test_groups_that_count_the_same_keep_the_risk_per_group(fits: int) -> None:
    assert LARGE_IS_EASY.risk(Average.GROUPS) >= ALPHA
    found = violations(LARGE_IS_EASY, "error", GROUPS_ALIKE, 300, fits)
    assert fewest_errors(fits, 0.5 * DELTA, CELLS) <= found <= most_errors(fits, DELTA, CELLS)


def test_the_size_must_be_declared_and_not_seen(fits: int) -> None:
    assert SELDOM_HUGE.risk(Average.PROBLEMS) >= ALPHA
    found = violations(SELDOM_HUGE, "error", largest_seen, 100, fits)
    assert found > 2 * most_errors(fits, DELTA, CELLS)
    declared = violations(SELDOM_HUGE, "error", Groups(max_size=100), 100, fits)
    assert declared <= most_errors(fits, DELTA, CELLS)
