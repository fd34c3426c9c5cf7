"""Procedures of one or several samples, simulated on recorded rollouts (RLCM §5.2)."""

import hashlib
from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibration.errors import CalibrationError
from calibration.simulation.shuffle import shuffled
from calibration.traces.fingerprint import VOTES
from calibration.traces.traces import Traces


@dataclass(frozen=True, slots=True)
class Procedure:
    """How one question is answered, and how often this is simulated per recorded problem.

    The procedure is certified as a whole: the exits of its samples, their vote, and the abstention
    by the vote.

    Attributes:
        samples: samples per question.
        vote: how samples are merged, one of `VOTES`.
        draws: simulations per problem; None for as many as there are disjoint subsets of its
            rollouts. More draws overlap: they lessen the noise of a problem's loss, but do not
            replace more problems. With one sample, every rollout is a draw.

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
    """Simulated runs (D) of a procedure of N samples, sorted by problem.

    Attributes:
        problem_D: index of the problem.
        rollout_DN: row of each sample's rollout in the traces, in the order drawn.
    """

    problem_D: NDArray[np.intp]
    rollout_DN: NDArray[np.intp]

    @property
    def n_draws(self) -> int:
        """Number of draws, of all problems together."""
        return len(self.problem_D)


def simulate(traces: Traces, procedure: Procedure) -> Draws:
    """Draw each problem's samples from its recorded rollouts, without replacement.

    A random permutation of the problem's rollouts is cut into disjoint subsets. If these are too
    few, further permutations follow. What was recorded of the problem seeds it, with the number of
    samples: names, the order of rows and other problems have no say, nor have verdicts. Rollouts
    with equal recordings are told apart by their numbers. Problems that recorded the same get
    permutations of their own, by their number among these: in the order of their batches, so that
    later problems change no earlier draw, then of their units. The order of the samples is random
    too, because a vote's tie goes to the first: also where a problem has as many rollouts as
    samples, and is drawn once.

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
    order_R: NDArray[np.intp] = np.lexsort((traces.rank_R, traces.problem_R))
    orders = np.split(order_R, first_P[1:])
    drawn = [
        order[_draw(seed, len(order), procedure)]
        for seed, order in zip(_seeds(traces, n_samples), orders, strict=True)
    ]
    problem_D = np.repeat(np.arange(traces.n_problems), [len(draw) for draw in drawn])
    return Draws(problem_D, np.concatenate(drawn))


def _seeds(traces: Traces, n_samples: int) -> list[int]:
    """One seed per problem; problems that recorded the same are told apart by their number."""
    batch_P = np.zeros(traces.n_problems) if traces.batch_P is None else traces.batch_P
    recorded_P = traces.contents_P
    places = list(zip(batch_P.tolist(), recorded_P, traces.unit_P.tolist(), strict=True))
    seen: Counter[bytes] = Counter()
    seeds = [0] * traces.n_problems
    for problem in sorted(range(traces.n_problems), key=places.__getitem__):
        recorded = recorded_P[problem]
        seeds[problem] = _seed(b"%d %d " % (n_samples, seen[recorded]) + recorded)
        seen[recorded] += 1
    return seeds


def _seed(text: bytes) -> int:
    return int.from_bytes(hashlib.sha256(text).digest()[:16], "big")


def _draw(seed: int, n_rollouts: int, procedure: Procedure) -> NDArray[np.intp]:
    """Ordered subsets of a problem's rollouts, draws x samples."""
    n_samples = procedure.samples
    disjoint = n_rollouts // n_samples
    n_draws = procedure.draws or disjoint
    permutations = [
        shuffled(n_rollouts, seed + number)[: disjoint * n_samples].reshape(disjoint, n_samples)
        for number in range(-(-n_draws // disjoint))
    ]
    return np.concatenate(permutations)[:n_draws]
