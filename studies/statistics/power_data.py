"""Data of the power study: recorded and synthetic reasoning, with its true risks."""

import importlib.util
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from calibration import ExitPolicy, Grid, LowExit, Procedure, Risk, Traces, read_traces, replay
from calibration.policy.exit_rule import NEVER
from calibration.simulation.procedure import ONE_SAMPLE
from calibration.testing.families import LAMBDA_VOTE, NO_LOW_EXIT, full_budget
from calibration.traces.probe_readings import read_validation
from studies.statistics.power_pool import Pool

ROOT = Path(__file__).resolve().parents[2]
TRACES, MODELS = ROOT / "studies/traces", ROOT / "rlcm_serve/models"
WORLDS = ROOT / "tests/statistical/worlds.py"

SIZES, FEW_SIZES, ONE_SIZE = (100, 300, 1000), (100, 300), (300,)
REPEATS = 200
ALPHAS, ALPHAS_HELD_OUT = (0.05, 0.1, 0.2), (0.05, 0.1, 0.15)
ABOVE_ERROR = (0.02, 0.05, 0.1)
"""Levels of `error`, above the error rate of the full budget."""
WORLD_UNITS, WORLD_SEED = 20_000, 3
ROLLOUTS = 8
"""Rollouts of a problem of the clustered world."""
VOTES = Grid(
    lambda_high=(0.5, 0.75, 0.9, 0.97, NEVER),
    low_exits=(NO_LOW_EXIT, LowExit(0.1, 128)),
    lambda_answer=(0.0,),
    lambda_vote=LAMBDA_VOTE,
    source="a coarse grid of votes",
)
"""Grid for several samples that may abstain; the default grid would have about 10,000 policies."""


@dataclass(frozen=True, slots=True, eq=False)
class Population:
    """Exchangeable units to draw from, and the settings of the measurements.

    Units are drawn independently, with replacement, so that the true risk of a policy is known: its
    risk on all units. With `held_out`, units are drawn without replacement, and the risk on the
    remaining units estimates the true risk, with noise.

    Attributes:
        name: name in tables.
        traces: the units; each has the same number of problems and of rollouts.
        sizes: the numbers of units to draw.
        procedure: samples per question.
        grid: for methods that search a grid and risks that may abstain; None is the default grid.
        order: labelled problems that are not drawn from, to learn from: a probe's readings.
        held_out: whether to measure on units left out of the draw, instead of on all units.
        risks: names of the risks studied.
        repeats: draws per size.
    """

    name: str
    traces: Traces
    sizes: Sequence[int] = SIZES
    procedure: Procedure = ONE_SAMPLE
    grid: Grid | None = None
    order: Traces | None = None
    held_out: bool = False
    risks: Sequence[str] = ("regret", "selective", "error")
    repeats: int = REPEATS
    unit_P: NDArray[np.intp] = field(init=False)
    rows_UR: NDArray[np.intp] = field(init=False)

    def __post_init__(self) -> None:
        unit_P = self.traces.unit_P
        order_R = np.argsort(unit_P[self.traces.problem_R], kind="stable")
        object.__setattr__(self, "unit_P", unit_P)
        object.__setattr__(self, "rows_UR", order_R.reshape(unit_P.max() + 1, -1))

    @property
    def n_units(self) -> int:
        """Number of units to draw from."""
        return len(self.rows_UR)

    @property
    def unit_size(self) -> int:
        """Number of problems of a unit."""
        return self.traces.n_problems // self.n_units

    @property
    def averaged(self) -> bool:
        """Whether a unit's loss averages several draws of the procedure."""
        return int(self.rows_UR.shape[1]) > self.procedure.samples

    @property
    def order_votes(self) -> bool:
        """Whether `order` has enough rollouts for the samples of a question."""
        return self.order is not None and int(self.order.rollouts_P.min()) >= self.procedure.samples

    def grid_for(self, risk: Risk) -> Grid | None:
        """The grid for methods that search a grid; None is the default grid."""
        return None if risk.answers_always else self.grid

    def alphas(self, risk: Risk) -> tuple[float, ...]:
        """Levels to certify; for `error` they lie above the error rate of the full budget."""
        if risk.name != "error":
            return ALPHAS_HELD_OUT if self.held_out else ALPHAS
        full = replay(self.traces, [full_budget(risk)], risk, self.procedure)
        return tuple(round(1 - full.full_right + above, 3) for above in ABOVE_ERROR)

    def draw(
        self, rng: np.random.Generator, n: int
    ) -> tuple[NDArray[np.intp], NDArray[np.intp] | None]:
        """Indices of `n` drawn units, and of the units to measure on (None: all units)."""
        if not self.held_out:
            return rng.integers(self.n_units, size=n), None
        order_U = rng.permutation(self.n_units)
        return order_U[:n], order_U[n:]

    def pool(
        self, policies: Sequence[ExitPolicy], risk: Risk, unit_U: NDArray[np.intp] | None = None
    ) -> Pool:
        """Replays policies on some units, given in ascending order, or on all units."""
        traces, unit_P = self.traces, self.unit_P
        if unit_U is not None:
            keep_P = np.isin(unit_P, unit_U)
            traces = traces.select(keep_P)
            unit_P = np.searchsorted(unit_U, unit_P[keep_P])
        return Pool.of(traces, unit_P, policies, risk, self.procedure)

    def take(self, unit_U: NDArray[np.intp]) -> Traces:
        """The traces of drawn units, named by draw position: a unit drawn twice becomes two."""
        traces, kept = self.traces, self.traces.confidence_tokens_RC
        rows_R = self.rows_UR[unit_U].ravel()
        problem_UR = traces.problem_R[self.rows_UR]
        local_UR = problem_UR - problem_UR[:, :1]
        size = self.unit_size
        names = [f"{place:05d}" for place in range(len(unit_U))]
        grouped = traces.groups[0] is not None
        return replace(
            traces,
            problem_ids=tuple(f"{name}.{i}" for name in names for i in range(size)),
            groups=tuple(name if grouped else None for name in names for _ in range(size)),
            problem_R=(size * np.arange(len(unit_U))[:, None] + local_UR[unit_U]).ravel(),
            rollout_R=traces.rollout_R[rows_R],
            natural_R=traces.natural_R[rows_R],
            final_R=traces.final_R[rows_R],
            tokens_RC=traces.tokens_RC[rows_R],
            confidence_RC=traces.confidence_RC[rows_R],
            answer_class_RC=traces.answer_class_RC[rows_R],
            answer_tokens_RC=traces.answer_tokens_RC[rows_R],
            correct_RC=traces.correct_RC[rows_R],
            confidence_tokens_RC=None if kept is None else kept[rows_R],
            familiarity_P=None,
            kinds=None,
        )


def populations(gpqa: Path | None, traces: Path, models: Path) -> Iterator[Population]:
    """All data sets of the study; the real trace only if its file is given."""
    if gpqa:
        yield Population("gpqa", read_traces(gpqa), sizes=(100,), held_out=True)
    for name, rollouts, votes in (("embedded", 8, (4, 8)), ("embedded-sft", 4, (4,))):
        recorded = read_traces(traces / f"{name}-calibration-{rollouts}.parquet")
        order = probe_readings(models / name, recorded)
        yield Population(name, _apart(recorded), order=order)
        yield Population(f"{name}, {rollouts} rollouts", recorded, FEW_SIZES, order=order)
        for samples in votes:
            yield Population(
                f"{name}, vote of {samples}", recorded, FEW_SIZES, Procedure(samples), VOTES, order
            )
    apart = _apart(recorded)
    yield Population("embedded-sft, no readings", apart)
    yield Population("embedded-sft, overconfident", _distorted(apart, 2.0, 1.0))
    yield Population("embedded-sft, underconfident", _distorted(apart, 0.5, -0.5))
    yield from _worlds()


def smallest() -> Population:
    """The first of the embedded model's problems, for a run of a few seconds."""
    (path, *_) = sorted(TRACES.glob("embedded-calibration-*.parquet"))
    traces = read_traces(path)
    few = traces.select(np.arange(traces.n_problems) < 100)
    order = probe_readings(MODELS / "embedded", traces)
    return Population("embedded", _apart(few), sizes=(50,), order=order, repeats=2)


def _worlds() -> Iterator[Population]:
    """Synthetic populations, except `CONSTANT` and `GUESSING`, without usable confidence."""
    worlds = _module(WORLDS)
    rng = np.random.default_rng(WORLD_SEED)
    alone = (
        worlds.CALIBRATED,
        worlds.OVERCONFIDENT,
        worlds.UNINFORMATIVE,
        worlds.OVERTHINKING,
        worlds.NEVER_CORRECT,
        worlds.TIES,
    )
    for world in alone:
        sizes = SIZES if world in alone[:2] else FEW_SIZES
        yield Population(f"world: {world.name}", world.draw(rng, WORLD_UNITS), sizes)
    grouped = worlds.GROUPED.draw(rng, WORLD_UNITS // worlds.GROUPED.group_size)
    yield Population("world: grouped", grouped, ONE_SIZE)
    clustered = worlds.CLUSTERED.draw(rng, WORLD_UNITS // ROLLOUTS, ROLLOUTS)
    yield Population("world: clustered", clustered, ONE_SIZE)
    yield Population(f"world: clustered, 1 of {ROLLOUTS}", _apart(clustered), ONE_SIZE)


def _distorted(traces: Traces, slope: float, offset: float) -> Traces:
    """The same reasoning with a miscalibrated probe: over- or underconfident."""
    return replace(traces, confidence_RC=expit(slope * logit(traces.confidence_RC) + offset))


def probe_readings(model: Path, traces: Traces) -> Traces | None:
    """The validation readings of a model's probe, as a fit with `--probe` learns from them."""
    if traces.fingerprint is None:
        return None
    return read_validation(model / "probe", traces.fingerprint)


def _apart(traces: Traces) -> Traces:
    """Makes every rollout its own problem, so that a draw is one rollout of a problem."""
    names = zip(traces.problem_R, traces.rollout_R, strict=True)
    return replace(
        traces,
        problem_ids=tuple(f"{problem:05d}.{rollout:02d}" for problem, rollout in names),
        groups=(None,) * traces.n_rollouts,
        problem_R=np.arange(traces.n_rollouts),
        rollout_R=np.zeros(traces.n_rollouts, dtype=np.int64),
        familiarity_P=None,
        kinds=None,
    )


def _module(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise FileNotFoundError(path)
    module: ModuleType = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module
