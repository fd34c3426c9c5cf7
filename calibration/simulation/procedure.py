"""Procedures of several samples, re-enacted on recorded rollouts (RLCM §5.2)."""

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibration.errors import CalibrationError
from calibration.simulation.shuffle import shuffled
from calibration.traces.traces import Traces

VOTES = ("confidence", "majority")
"""How samples may be merged: weighted by their confidence at the stop, or by number."""


@dataclass(frozen=True, slots=True)
class Procedure:
    """How one question is answered, and how often that is re-enacted per recorded problem.

    What is certified is the procedure as a whole: its samples' exits, their vote, and the rule that
    abstains on the vote.

    Attributes:
        samples: samples per question.
        vote: how they are merged, one of `VOTES`.
        draws: re-enactments per problem; None takes as many as there are disjoint subsets of its
            rollouts. More of them overlap, which lessens the noise of a problem's loss and never
            makes up for problems. With one sample every rollout is a draw.

    Raises:
        CalibrationError: a value is out of range, or draws are given for one sample.
    """

    samples: int = 1
    vote: str = "confidence"
    draws: int | None = None

    def __post_init__(self) -> None:
        if self.samples < 1:
            raise CalibrationError(f"samples is {self.samples}: give 1 or more per question")
        if self.vote not in VOTES:
            raise CalibrationError(f"vote is {self.vote!r}: give one of {', '.join(VOTES)}")
        if self.draws is None:
            return
        if self.samples == 1:
            raise CalibrationError(
                f"draws is {self.draws} with one sample: every rollout is a draw, leave it out"
            )
        if self.draws < 1:
            raise CalibrationError(f"draws is {self.draws}: give 1 or more per problem")


ONE_SAMPLE = Procedure()
"""One sample per question; every recorded rollout is a draw."""


@dataclass(frozen=True, slots=True, eq=False)
class Draws:
    """Re-enactments (D) of a procedure of N samples, sorted by problem.

    Attributes:
        problem_D: index of the problem.
        rollout_DN: row of each sample's rollout in the traces, in the order drawn.
    """

    problem_D: NDArray[np.intp]
    rollout_DN: NDArray[np.intp]

    @property
    def n_draws(self) -> int:
        """Number of re-enactments, of all problems together."""
        return len(self.problem_D)


def simulate(traces: Traces, procedure: Procedure) -> Draws:
    """Draw each problem's samples among its recorded rollouts, without replacement.

    A random permutation of the problem's rollouts is cut into disjoint subsets, and another one if
    they do not suffice. The randomness comes from the problem's id and the number of samples:
    neither outcomes nor the order of rows nor the other problems have a say. A problem with just
    as many rollouts as samples is drawn once, in the recorded order, unless draws are asked for.

    Raises:
        CalibrationError: a problem has fewer rollouts than the procedure has samples.
    """
    n_samples = procedure.samples
    if n_samples == 1:
        return Draws(traces.problem_R, np.arange(traces.n_rollouts)[:, None])
    rollouts_P = traces.rollouts_P
    if (rollouts_P < n_samples).any():
        short = int(np.argmax(rollouts_P < n_samples))
        raise CalibrationError(
            f"problem {traces.problem_ids[short]!r} has {rollouts_P[short]} rollouts and the "
            f"procedure takes {n_samples} samples: record at least {n_samples} of every problem, "
            "or take fewer samples"
        )
    first_P = np.cumsum(rollouts_P) - rollouts_P
    drawn = [
        first + _draw(problem_id, int(count), procedure)
        for problem_id, first, count in zip(traces.problem_ids, first_P, rollouts_P, strict=True)
    ]
    problem_D = np.repeat(np.arange(traces.n_problems), [len(draw) for draw in drawn])
    return Draws(problem_D, np.concatenate(drawn))


def _draw(problem_id: str, n_rollouts: int, procedure: Procedure) -> NDArray[np.intp]:
    """Ordered subsets of a problem's rollouts, draws x samples."""
    n_samples = procedure.samples
    if n_rollouts == n_samples and procedure.draws is None:
        return np.arange(n_samples)[None, :]
    disjoint = n_rollouts // n_samples
    n_draws = procedure.draws or disjoint
    digest = hashlib.sha256(f"{n_samples} {problem_id}".encode()).digest()
    seed = int.from_bytes(digest[:16], "big")
    permutations = [
        shuffled(n_rollouts, seed + number)[: disjoint * n_samples].reshape(disjoint, n_samples)
        for number in range(-(-n_draws // disjoint))
    ]
    return np.concatenate(permutations)[:n_draws]
