"""Results of evaluations, drawn from a small seeded world instead of a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from calibration.metrics.early_exits import REGRETS
from calibration.metrics.estimates import Estimate
from calibration.metrics.ranking import auroc, risk_coverage
from calibration.metrics.reliability import (
    expected_calibration_error,
    positive_calibration_error,
    reliability_bins,
)
from calibration.metrics.scores import ScoredRollouts
from calibration.metrics.scoring import brier_score
from calibration.metrics.vote_curves import VoteCurves
from rlcm_serve.evaluation.measuring.equal_error import ALLOWED, tokens_at
from rlcm_serve.evaluation.measuring.markers import INDICATORS, PHRASES, Category
from rlcm_serve.evaluation.measuring.measures import (
    AtBudget,
    BenchmarkMeasures,
    Controlled,
    Frontier,
    Marker,
    OracleExit,
    Origin,
    Part,
    RunMeasures,
    SourceMeasures,
)
from rlcm_serve.evaluation.sources import ABOUT, Source

INTERVAL, CHECKPOINTS = 500, 12
"""Tokens between two readings, and the number of them."""
TITLES = {
    "math500": "MATH-500",
    "aime24": "AIME 2024",
    "aime25": "AIME 2025",
    "amc23": "AMC 2023",
    "gpqa-diamond": "GPQA Diamond",
}
SHARPNESS = {
    Source.PROBE: (3.2, 0.0),
    Source.SEQUENCE_PROBABILITY: (0.7, 1.6),
    Source.LOWEST_GROUP: (0.9, 0.2),
    Source.TAIL: (1.3, 0.5),
    Source.ANSWER_PROBABILITY: (2.2, 1.1),
    Source.AGREEMENT: (2.6, 0.4),
    Source.ENTROPY: (1.8, 0.8),
    Source.VERBALIZED: (1.0, 2.2),
}
"""How well each source separates right from wrong, and its overconfidence."""


@dataclass(frozen=True, slots=True)
class World:
    """One benchmark's rollouts (R) of problems (P) with readings (C) from every source."""

    problem_R: NDArray[np.intp]
    right_R: NDArray[np.bool_]
    class_R: NDArray[np.int64]
    final_R: NDArray[np.intp]
    right_RC: NDArray[np.bool_]
    confidence_RC: dict[Source, NDArray[np.float64]]

    @property
    def n_problems(self) -> int:
        return int(self.problem_R.max()) + 1

    @property
    def tokens_R(self) -> NDArray[np.intp]:
        return INTERVAL * (self.final_R + 1)

    def confidence_R(self, source: Source) -> NDArray[np.float64]:
        return self.confidence_RC[source][np.arange(len(self.final_R)), self.final_R]

    def estimate(self, value: float, spread: float = 0.5) -> Estimate:
        """An estimate with an interval of a plausible width."""
        half = 1.96 * spread / np.sqrt(self.n_problems)
        return Estimate(float(value), max(float(value - half), 0.0), float(value + half))


def draw(
    seed: int,
    n_problems: int = 60,
    n_rollouts: int = 8,
    skill: float = 0.6,
    sources: Sequence[Source] = tuple(Source),
) -> World:
    """Draws a world: problems differ in difficulty, rollouts in luck; a settled answer stays."""
    rng = np.random.default_rng(seed)
    problem_R = np.repeat(np.arange(n_problems), n_rollouts)
    chance_P = 1 / (1 + np.exp(-(skill + 1.6 * rng.standard_normal(n_problems))))
    right_R = rng.random(len(problem_R)) < chance_P[problem_R]
    final_R = np.minimum(
        rng.poisson(3 + 7 * (1 - chance_P[problem_R])), CHECKPOINTS - 1
    )  # harder, longer
    column_C = np.arange(CHECKPOINTS)
    solved_R = np.floor(0.7 * rng.random(len(problem_R)) * (final_R + 1))
    settled_RC = column_C >= solved_R[:, None]
    right_RC = right_R[:, None] & settled_RC
    mistaken_R = ~right_R & (rng.random(len(problem_R)) < 0.3)  # wrong, but looks right
    looks_right_RC = right_RC | (mistaken_R[:, None] & settled_RC)
    luck_RC = rng.standard_normal((len(problem_R), CHECKPOINTS)).cumsum(axis=1) / 3
    confidence_RC = {}
    for source in sources:
        sharpness, shift = SHARPNESS[source]
        logit_RC = (
            sharpness * (looks_right_RC - 0.5)
            + 1.6 * (chance_P[problem_R] - 0.5)[:, None]
            + shift
            + 0.9 * luck_RC
            + 0.3 * rng.standard_normal(right_RC.shape)
        )
        confidence_RC[source] = 1 / (1 + np.exp(-logit_RC))
    if Source.VERBALIZED in confidence_RC:
        confidence_RC[Source.VERBALIZED] = np.round(confidence_RC[Source.VERBALIZED] * 10) / 10
    if Source.AGREEMENT in confidence_RC:
        confidence_RC[Source.AGREEMENT] = np.round(confidence_RC[Source.AGREEMENT] * 4) / 4
    class_R = np.where(right_R, 0, rng.integers(1, 5, len(problem_R)))
    return World(problem_R, right_R, class_R, final_R, right_RC, confidence_RC)


@dataclass(frozen=True)
class MeasuredRun:
    """A run in the form that a comparison takes."""

    name: str
    source: Source
    measures: RunMeasures
    worlds: dict[str, World] = field(repr=False)
    manifest: dict[str, object] = field(default_factory=dict)

    def scored(self, benchmark: str, source: str) -> ScoredRollouts:
        world = self.worlds[benchmark]
        confidence_R = world.confidence_R(Source(source))
        return ScoredRollouts(world.problem_R, world.right_R, confidence_R, world.class_R)

    def problem_ids(self, benchmark: str) -> tuple[str, ...]:
        return tuple(f"{benchmark}/{p}" for p in range(self.worlds[benchmark].n_problems))


def measured_run(
    name: str = "embedded-small",
    seed: int = 0,
    benchmarks: Sequence[str] = ("math500",),
    sources: Sequence[Source] = tuple(Source),
    n_problems: int = 60,
    n_rollouts: int = 8,
    skill: float = 0.6,
) -> MeasuredRun:
    """A complete run; the same seed gives the same run."""
    worlds = {
        benchmark: draw(seed + 7 * i, n_problems, n_rollouts, skill - 0.5 * i, sources)
        for i, benchmark in enumerate(benchmarks)
    }
    measures = RunMeasures(
        name=name,
        source=sources[0] if sources else Source.PROBE,
        made_by={
            "Model": name,
            "Sampling": "temperature 0.6, top-p 0.95",
            "Budget": f"{INTERVAL * CHECKPOINTS:,} reasoning tokens, a reading every {INTERVAL}",
            "Seed": "0",
        },
        rollouts=dict.fromkeys(benchmarks, n_rollouts),
        created="2026-11-21",
        version="0.1.0",
        benchmarks=tuple(measure(benchmark, world, seed) for benchmark, world in worlds.items()),
    )
    manifest = {"model": name, "engine": {"sampling": {"temperature": 0.6}}, "answers": 4}
    return MeasuredRun(name, measures.source, measures, worlds, manifest)


def measure(name: str, world: World, seed: int = 0) -> BenchmarkMeasures:
    """All measures of one benchmark."""
    sources = tuple(world.confidence_RC)
    markers = _markers(world, seed)
    return BenchmarkMeasures(
        name=name,
        title=TITLES.get(name, name),
        grader="math-verify 0.9.0",
        problems=f"digest-of-{name}-{world.n_problems}",
        n_problems=world.n_problems,
        n_rollouts=len(world.problem_R),
        accuracy=world.estimate(world.right_R.mean(), 0.38),
        tokens=world.estimate(world.tokens_R.mean(), 1200.0),
        natural=float((world.final_R < CHECKPOINTS - 1).mean()),
        unread=0.013,
        oracle_exit=OracleExit(
            share=float(world.right_R.mean()),
            tokens=world.estimate(0.5 * world.tokens_R.mean(), 900.0),
            full_distance=world.estimate(0.5 * world.tokens_R.mean(), 900.0),
        ),
        sources=tuple(_source(world, source) for source in sources),
        parts=_parts(world, sources[0]) if sources else (),
        budgets=tuple(_at_budget(world, c, sources) for c in range(CHECKPOINTS)),
        controlled=(
            *_controlled(world, sources, "selective"),
            *_controlled(world, sources, "error"),
        ),
        frontiers=_frontiers(world, sources),
        categories=markers[: len(Category)],
        indicators=markers[len(Category) :],
    )


def _source(world: World, source: Source) -> SourceMeasures:
    confidence_R = world.confidence_R(source)
    right_R = world.right_R.astype(float)
    curve = risk_coverage(confidence_R, right_R)
    ranking = auroc(confidence_R, right_R) if 0 < right_R.mean() < 1 else None
    likelihood = np.where(world.right_R, confidence_R, 1 - confidence_R).clip(1e-6)
    values = {
        "ece": expected_calibration_error(confidence_R, right_R),
        "pce": positive_calibration_error(confidence_R, right_R),
        "adaptive_ece": expected_calibration_error(confidence_R, right_R, 15),
        "brier": brier_score(confidence_R, right_R),
        "nll": float(-np.log(likelihood).mean()),
        "auroc": ranking,
        "aurc": curve.area,
        "within_auroc": None if ranking is None else 0.5 + 0.6 * (ranking - 0.5),
    }
    edges = np.linspace(0, 1, 41)
    right, _ = np.histogram(confidence_R[world.right_R], edges)
    wrong, _ = np.histogram(confidence_R[~world.right_R], edges)
    thin = np.unique(np.linspace(0, len(curve.coverage_K) - 1, 80).astype(int))
    return SourceMeasures(
        source=source,
        reading_tokens=0.0 if ABOUT[source].online else 37.0 * float((world.final_R + 1).mean()),
        missing=0.04 if source is Source.VERBALIZED else 0.0,
        metrics={
            name: Estimate(None) if value is None else world.estimate(value, 0.2)
            for name, value in values.items()
        },
        depth_auroc=world.estimate(0.5 + 0.1 * SHARPNESS[source][0], 0.2),
        oracle_distance={
            f"{regret:g}": world.estimate(world.tokens_R.mean() * (0.4 - 4 * regret), 600.0)
            for regret in REGRETS
        },
        bins=reliability_bins(confidence_R, right_R),
        right=tuple(right.tolist()),
        wrong=tuple(wrong.tolist()),
        mean=float(confidence_R.mean()),
        median=float(np.median(confidence_R)),
        coverage=tuple(curve.coverage_K[thin].tolist()),
        risk=tuple(curve.risk_K[thin].tolist()),
        risk_interval=tuple(
            (max(0.0, risk - 0.07), min(1.0, risk + 0.07)) for risk in curve.risk_K[thin].tolist()
        ),
        votes=_votes(world, confidence_R),
    )


def _votes(world: World, confidence_R: NDArray[np.float64]) -> VoteCurves:
    """Votes of the first n rollouts of each problem."""
    n_rollouts = len(world.problem_R) // world.n_problems
    shape = (world.n_problems, n_rollouts)
    class_PR, right_PR = world.class_R.reshape(shape), world.right_R.reshape(shape)
    weight_PR = confidence_R.reshape(shape)
    curves: dict[str, list[Estimate]] = {"majority": [], "confidence": [], "oracle": []}
    for n in range(1, n_rollouts + 1):
        count_PK = (class_PR[:, :n, None] == np.arange(5)).sum(axis=1)
        mass_PK = ((class_PR[:, :n, None] == np.arange(5)) * weight_PR[:, :n, None]).sum(axis=1)
        best_PK = count_PK == count_PK.max(axis=1, keepdims=True)
        curves["majority"].append(world.estimate((best_PK[:, 0] / best_PK.sum(1)).mean(), 0.4))
        curves["confidence"].append(world.estimate((mass_PK.argmax(axis=1) == 0).mean(), 0.4))
        curves["oracle"].append(world.estimate(right_PR[:, :n].any(axis=1).mean(), 0.3))
    once = world.estimate(world.right_R.mean(), 0.38)
    numbers = tuple(range(1, n_rollouts + 1))
    return VoteCurves(
        n=numbers,
        pass_at_1=(once,) * n_rollouts,
        **{name: tuple(points) for name, points in curves.items()},
    )


def _at_budget(world: World, column: int, sources: Sequence[Source]) -> AtBudget:
    at_R = np.minimum(world.final_R, column)
    rows_R = np.arange(len(at_R))
    right_R = world.right_RC[rows_R, at_R].astype(float)
    accuracy = right_R.mean()
    exited = (
        {
            f"{alpha:g}": float(
                (world.confidence_RC[sources[0]][:, : column + 1].max(axis=1) >= 1 - alpha).mean()
            )
            for alpha in (0.05, 0.1, 0.2)
        }
        if sources
        else {}
    )
    return AtBudget(
        tokens=INTERVAL * (column + 1),
        accuracy=world.estimate(accuracy, 0.38),
        ended=float((world.final_R <= column).mean()),
        exited=exited,
        ece={
            source: world.estimate(
                expected_calibration_error(world.confidence_RC[source][rows_R, at_R], right_R), 0.15
            )
            for source in sources
        },
        majority=world.estimate(min(accuracy + 0.05, 1), 0.4),
        confidence=world.estimate(min(accuracy + 0.06, 1), 0.4),
        oracle=world.estimate(min(accuracy + 0.18, 1), 0.3),
    )


def _stopped(
    world: World, source: Source, threshold: float
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """The column in which each rollout stops, and its tokens including the cost of readings."""
    reached_RC = world.confidence_RC[source] >= threshold
    reached_RC[np.arange(len(world.final_R)), world.final_R] = True
    stop_R = reached_RC.argmax(axis=1)
    reading = 0 if ABOUT[source].online else 37
    return stop_R, (INTERVAL + reading) * (stop_R + 1.0)


def _frontiers(world: World, sources: Sequence[Source]) -> tuple[Frontier, ...]:
    first, *others = (_frontier(world, source) for source in sources)
    return (
        first, _voted(first, 2), _voted(first, 4), replace(first, only_familiar=True), *others
    )  # fmt: skip


def _frontier(world: World, source: Source) -> Frontier:
    thresholds = (1.01, *np.linspace(0.99, 0.3, 24).tolist())
    rows_R = np.arange(len(world.final_R))
    points = []
    for threshold in thresholds:
        stop_R, tokens_R = _stopped(world, source, threshold)
        share = tokens_R.mean() / world.tokens_R.mean()
        points.append((float(share), float(1 - world.right_RC[rows_R, stop_R].mean())))
    tokens, error = zip(*points, strict=True)
    found = Frontier(source, thresholds, tokens, error)
    bounds = [world.estimate(value) for value in error]
    at_error = [tokens_at(found, error[0] + more) for more in ALLOWED]
    return replace(
        found,
        error_low=tuple(one.low or 0.0 for one in bounds),
        error_high=tuple(one.high or 1.0 for one in bounds),
        at_error=tuple(
            Estimate(None) if one is None else world.estimate(one, 0.3) for one in at_error
        ),
        counts_suffix=True,
    )


def _voted(plain: Frontier, samples: int) -> Frontier:
    """A vote of several samples with half of the excess errors, at as many times the tokens."""
    return replace(
        plain,
        tokens=tuple(samples * tokens for tokens in plain.tokens),
        error=tuple(0.7 * error for error in plain.error),
        error_low=tuple(0.7 * error for error in plain.error_low),
        error_high=tuple(0.7 * error for error in plain.error_high),
        at_error=tuple(
            Estimate(one.value and 1.1 * one.value, one.low, one.high and 1.3 * one.high)
            for one in plain.at_error
        ),
        samples=samples,
    )


def _controlled(world: World, sources: Sequence[Source], risk: str) -> tuple[Controlled, ...]:
    found = []
    full = float(world.tokens_R.mean())
    rows_R = np.arange(len(world.final_R))
    for source in sources:
        origins = [Origin(fitted_on=world.n_problems)]
        if source is sources[0]:
            origins.insert(0, Origin("c0ffee12"))
        for origin in origins:
            for alpha in (0.02, 0.05, 0.1, 0.15, 0.2, 0.3):
                if alpha < (0.05 if source is Source.PROBE else 0.1):
                    reason = "no policy passed the test: record more problems, or raise the target"
                    found.append(Controlled(source, origin, risk, alpha, reason=reason))
                    continue
                certified = origin.certificate
                stop_R, tokens_R = _stopped(world, source, 1 - (1.0 if certified else 1.3) * alpha)
                right_R = world.right_RC[rows_R, stop_R]
                sure_R = world.confidence_RC[source][rows_R, stop_R] >= 1 - 2.5 * alpha
                shift = 0.2 * (list(SHARPNESS).index(source) % 3 - 1)
                realised = alpha * ((0.7 if certified else 0.85) + shift)
                found.append(
                    Controlled(
                        source,
                        origin,
                        risk,
                        alpha,
                        realised=world.estimate(realised, 0.25),
                        answered=float(sure_R.mean()),
                        right=float((right_R & sure_R).mean()),
                        tokens=float(tokens_R.mean()),
                        full_tokens=full,
                        n_problems=world.n_problems,
                        answered_low=world.estimate(sure_R.mean()).low,
                        answered_high=min(1.0, world.estimate(sure_R.mean()).high or 1.0),
                        tokens_share_low=world.estimate(tokens_R.mean() / full, 0.3).low,
                        tokens_share_high=world.estimate(tokens_R.mean() / full, 0.3).high,
                    )
                )
    return tuple(found)


def _parts(world: World, source: Source) -> tuple[Part, ...]:
    confidence_R, parts = world.confidence_R(source), []
    for level in range(3):
        of_R = world.problem_R % 3 == level
        right_R = world.right_R[of_R].astype(float)
        errors = [
            measure(confidence_R[of_R], right_R)
            for measure in (positive_calibration_error, expected_calibration_error)
        ]
        pce, ece = (world.estimate(error, 0.2) for error in errors)
        accuracy = world.estimate(right_R.mean(), 0.6)
        parts.append(Part(f"level {level + 1}", world.n_problems // 3, accuracy, pce, ece))
    return tuple(parts)


def _markers(world: World, seed: int) -> tuple[Marker, ...]:
    rng = np.random.default_rng(seed + 1)
    rate_I = np.where(rng.random(len(INDICATORS)) < 0.25, 0, 4 * rng.random(len(INDICATORS)) ** 4)
    rate = dict(zip(INDICATORS, rate_I.tolist(), strict=True))
    per_1000 = 1000 / float(world.tokens_R.mean())

    def marker(name: str, category: Category, count: float) -> Marker:
        return Marker(
            name,
            category,
            world.estimate(count, 0.4 * count),
            world.estimate(per_1000 * count, 0.4 * per_1000 * count),
        )

    return (
        *(marker(c, c, sum(rate[phrase] for phrase in PHRASES[c])) for c in Category),
        *(marker(phrase, c, rate[phrase]) for c in Category for phrase in PHRASES[c]),
    )
