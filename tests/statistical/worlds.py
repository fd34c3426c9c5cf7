"""Synthetic reasoning: confidence and correctness at every reading, with known faults.

One process underlies all worlds. A problem has an ability; its rollouts share a part of it
(`clustering`). The probability q_c that the answer at reading c is right grows with thinking and
fluctuates. The answer is right if one uniform number of the rollout is below q_c, so a confidence
equal to q is calibrated at each reading. A world adds one fault to this.

Not covered: text, tokenizers and engines; and a shift between fitting and serving, about which no
certificate guarantees anything.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit, ndtr

from calibration import NO_ANSWER, Fingerprint, Traces

INTERVAL = 16
CHECKPOINTS = 7
READINGS = CHECKPOINTS + 1
BUDGET = INTERVAL * READINGS
ENDS_EARLY = 0.4
UNREADABLE = 0.1
GROUP_SHARE = 0.8
GUESS = 0.7

FINGERPRINT = Fingerprint(
    model="synthetic",
    probe="synthetic",
    tokenizer="synthetic",
    chat_template="synthetic",
    temperature=0.8,
    top_p=1.0,
    checkpoint_interval=INTERVAL,
    max_tokens=BUDGET,
    answer_max_tokens=8,
    forced_suffix="\n</think>\n",
    grader="exact 1",
    samples=1,
    vote="confidence",
)

Grid = NDArray[np.float64]
Labels = NDArray[np.bool_]
Fault = Callable[[np.random.Generator, Grid, Labels], tuple[Grid, Labels]]
"""Maps q and correctness to the shown confidence and the labels, all rollouts x readings."""


@dataclass(frozen=True)
class World:
    """A process that generates any number of problems.

    Attributes:
        name: name in tables.
        fault: the fault of its confidence or its answers.
        clustering: share of the variance of a rollout's ability, course, length and luck that comes
            from its problem.
        group_size: problems in each group; 1 = no groups.
        never_correct: share of problems for which every rollout is wrong.
    """

    name: str
    fault: Fault
    clustering: float = 0.5
    group_size: int = 1
    never_correct: float = 0.0

    def draw(
        self, rng: np.random.Generator, n_units: int, rollouts: int = 1, prefix: str = "u"
    ) -> Traces:
        """`n_units` groups or single problems, with `rollouts` of each problem."""
        n_problems = n_units * self.group_size
        problem_R = np.repeat(np.arange(n_problems), rollouts)
        n = len(problem_R)
        ability_R1 = self._normals(rng, n_units, rollouts, 1)
        wander_RC = 0.5 * np.cumsum(self._normals(rng, n_units, rollouts, READINGS), axis=1)
        chance_RC = expit(1.5 * ability_R1 + np.linspace(-0.5, 2.0, READINGS) + wander_RC)
        correct_RC = ndtr(self._normals(rng, n_units, rollouts, 1)) < chance_RC
        correct_RC &= (rng.random(n_problems) >= self.never_correct)[problem_R, None]
        confidence_RC, correct_RC = self.fault(rng, chance_RC, correct_RC)

        length_R = ndtr(self._normals(rng, n_units, rollouts, 1)[:, 0]) / ENDS_EARLY
        final_R = np.minimum(length_R * CHECKPOINTS, CHECKPOINTS).astype(np.intp)
        recorded_RC = np.arange(READINGS) <= final_R[:, None]
        wrong_R = np.where(rng.random(n) < UNREADABLE, NO_ANSWER, rng.integers(1, 3, n))
        units = [f"{prefix}{unit:07d}" for unit in range(n_units)]
        alone = self.group_size == 1
        return Traces(
            fingerprint=FINGERPRINT,
            problem_ids=tuple(
                unit if alone else f"{unit}-{i:02d}"
                for unit in units
                for i in range(self.group_size)
            ),
            groups=tuple(None if alone else unit for unit in units for _ in range(self.group_size)),
            problem_R=problem_R,
            rollout_R=np.tile(np.arange(rollouts), n_problems),
            natural_R=(final_R < CHECKPOINTS) | (rng.random(n) < 0.3),
            final_R=final_R,
            tokens_RC=_tokens(rng, final_R),
            confidence_RC=np.where(recorded_RC, confidence_RC, np.nan),
            answer_class_RC=np.where(correct_RC, 0, wrong_R[:, None]),
            answer_tokens_RC=np.tile(rng.integers(1, 6, n)[:, None], READINGS),
            correct_RC=correct_RC & recorded_RC,
        )

    def _normals(self, rng: np.random.Generator, n_units: int, rollouts: int, columns: int) -> Grid:
        """Standard normals for rollouts (rows), correlated within problems and groups."""
        normal_PC = rng.standard_normal((n_units * self.group_size, columns))
        if self.group_size > 1:
            group_UC = rng.standard_normal((n_units, columns))
            normal_PC = _mix(np.repeat(group_UC, self.group_size, axis=0), normal_PC, GROUP_SHARE)
        problem_RC = np.repeat(normal_PC, rollouts, axis=0)
        return _mix(problem_RC, rng.standard_normal(problem_RC.shape), self.clustering)


def calibrated(
    rng: np.random.Generator, chance_RC: Grid, correct_RC: Labels
) -> tuple[Grid, Labels]:
    return chance_RC, correct_RC


def overconfident(
    rng: np.random.Generator, chance_RC: Grid, correct_RC: Labels
) -> tuple[Grid, Labels]:
    return expit(0.8 * logit(chance_RC) + 1.5), correct_RC


def uninformative(
    rng: np.random.Generator, chance_RC: Grid, correct_RC: Labels
) -> tuple[Grid, Labels]:
    """A random walk that is independent of the answer."""
    return expit(1.0 + np.cumsum(rng.standard_normal(chance_RC.shape), axis=1)), correct_RC


def constant(rng: np.random.Generator, chance_RC: Grid, correct_RC: Labels) -> tuple[Grid, Labels]:
    return np.full_like(chance_RC, 0.7), correct_RC


def overthinking(
    rng: np.random.Generator, chance_RC: Grid, correct_RC: Labels
) -> tuple[Grid, Labels]:
    """A third of the rollouts are right early and become wrong with growing confidence.

    So the risk falls and then rises with λ2: waiting for more confidence leads to the wrong answer.
    """
    turned_R1 = rng.random((len(chance_RC), 1)) < 1 / 3
    early_C = np.arange(READINGS) < CHECKPOINTS // 2
    sure_C = np.linspace(0.72, 0.985, READINGS)
    return np.where(turned_R1, sure_C, chance_RC), np.where(turned_R1, early_C, correct_RC)


def guessing(rng: np.random.Generator, chance_RC: Grid, correct_RC: Labels) -> tuple[Grid, Labels]:
    """Every reading is a new guess, right with probability GUESS; so is any full-answer policy.

    The stop does not change the risk but decides which questions are wrong, so policies are nearly
    independent: the least favourable case for a choice among many.
    """
    return rng.random(chance_RC.shape), rng.random(chance_RC.shape) < GUESS


def ties(rng: np.random.Generator, chance_RC: Grid, correct_RC: Labels) -> tuple[Grid, Labels]:
    """Confidence in steps of 0.1, which the thresholds of the grid hit exactly."""
    return np.round(chance_RC, 1), correct_RC


CALIBRATED = World("calibrated", calibrated)
OVERCONFIDENT = World("overconfident", overconfident)
UNINFORMATIVE = World("uninformative", uninformative)
CONSTANT = World("constant", constant)
OVERTHINKING = World("non-monotone", overthinking)
NEVER_CORRECT = World("never correct", overconfident, never_correct=0.2)
GUESSING = World("guessing", guessing)
CLUSTERED = World("clustered", calibrated, clustering=0.98)
GROUPED = World("grouped", calibrated, group_size=3)
TIES = World("ties", ties)

WORLDS = (
    CALIBRATED,
    OVERCONFIDENT,
    UNINFORMATIVE,
    CONSTANT,
    OVERTHINKING,
    NEVER_CORRECT,
    GUESSING,
    CLUSTERED,
    GROUPED,
    TIES,
)


def _mix(
    shared: NDArray[np.float64], own: NDArray[np.float64], share: float
) -> NDArray[np.float64]:
    """A standard normal, with `share` of its variance shared."""
    return np.sqrt(share) * shared + np.sqrt(1 - share) * own


def _tokens(rng: np.random.Generator, final_R: NDArray[np.intp]) -> NDArray[np.int64]:
    """Every INTERVAL tokens; the final reading of a rollout that ends early is in between."""
    tokens_RC = np.tile(INTERVAL * np.arange(1, READINGS + 1), (len(final_R), 1))
    early_R = np.flatnonzero(final_R < CHECKPOINTS)
    tokens_RC[early_R, final_R[early_R]] -= rng.integers(0, INTERVAL, len(early_R))
    return tokens_RC
