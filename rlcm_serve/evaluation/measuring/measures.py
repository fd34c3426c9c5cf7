"""What an evaluation measures: the figures of `metrics.json`, and all that a report is made of.

Shares and confidences are in [0, 1], tokens are of the evaluated model, intervals 95 % by
resampling problems. A tuple of a curve has one entry per point.
"""

from __future__ import annotations

from dataclasses import dataclass

from calibration.metrics import ReliabilityBin
from calibration.metrics.estimates import Estimate

METRICS = ("ece", "pce", "adaptive_ece", "brier", "nll", "auroc", "aurc", "within_auroc")
"""Names of a source's metrics, in the order of a table."""


@dataclass(frozen=True, slots=True)
class Votes:
    """One answer from n rollouts, averaged over problems and draws of n (RLCM §5.2, App. F)."""

    n: tuple[int, ...]
    pass_at_1: tuple[Estimate, ...]
    majority: tuple[Estimate, ...]
    confidence: tuple[Estimate, ...]
    oracle: tuple[Estimate, ...]


@dataclass(frozen=True, slots=True)
class SourceMeasures:
    """How well one source of confidence knows the rollouts' own answers, at their end.

    Attributes:
        source: its name, of `sources.Source`.
        reading_tokens: tokens that all its readings cost, per rollout.
        missing: share of the rollouts in which it says nothing, and counts as 0.
        metrics: by the names of `METRICS`.
        bins: of equal width, the empty ones left out.
        right, wrong: rollouts by confidence, in bins of width 1 / len(right).
        mean, median: of the confidence.
        coverage, risk: of the risk-coverage curve, thinned.
        votes: weighted by it.
    """

    source: str
    reading_tokens: float
    missing: float
    metrics: dict[str, Estimate]
    bins: tuple[ReliabilityBin, ...]
    right: tuple[int, ...]
    wrong: tuple[int, ...]
    mean: float
    median: float
    coverage: tuple[float, ...]
    risk: tuple[float, ...]
    votes: Votes


@dataclass(frozen=True, slots=True)
class AtBudget:
    """All rollouts cut after so many tokens, those that had ended before as they ended.

    Attributes:
        tokens: the budget.
        accuracy: of the answers given there, forced unless the rollout had ended by itself.
        ended: share of rollouts that had ended by themselves.
        exited: share that a certified policy would have stopped, by its alpha (as text, `0.1`).
        ece: by source.
        majority, confidence, oracle: votes over all rollouts of a problem, weighted by the run's
            own source.
    """

    tokens: int
    accuracy: Estimate
    ended: float
    exited: dict[str, float]
    ece: dict[str, Estimate]
    majority: Estimate
    confidence: Estimate
    oracle: Estimate


@dataclass(frozen=True, slots=True)
class Origin:
    """Where an exit policy comes from; as text, what tables call it.

    Attributes:
        certificate: its id; None if the policy was fitted for this evaluation alone.
        samples: that are drawn of a question, and vote.
        fitted_on: problems of the benchmark it was fitted on; None if it comes with a certificate.
    """

    certificate: str | None = None
    samples: int = 1
    fitted_on: int | None = None

    def __str__(self) -> str:
        if self.certificate is None:
            return f"fitted on {self.fitted_on} problems"
        several = f" (n = {self.samples})" if self.samples > 1 else ""
        return f"certificate {self.certificate}{several}"


@dataclass(frozen=True, slots=True)
class Controlled:
    """A risk target and what came of it on problems that had no part in fitting its policy.

    Attributes:
        source: of the confidence that drives the exits.
        origin: of its policy.
        risk: what alpha bounds.
        alpha: the target.
        reason: why nothing is certified; None if something is, and only then are there figures.
        realised: risk; None too where nothing was answered.
        answered, right: shares of the questions answered, and answered right.
        tokens: per question, those its readings cost included.
        full_tokens: per question at the full budget, without readings.
        n_problems: it was measured on.
    """

    source: str
    origin: Origin
    risk: str
    alpha: float
    reason: str | None = None
    realised: Estimate | None = None
    answered: float | None = None
    right: float | None = None
    tokens: float | None = None
    full_tokens: float | None = None
    n_problems: int = 0


@dataclass(frozen=True, slots=True)
class Frontier:
    """A source's exits at one threshold after another: tokens spent against answers wrong.

    It promises nothing: no point of it was tested.

    Attributes:
        threshold: λ2, falling; the first never fires.
        tokens: share of the full budget's, those that its readings cost included.
        error: share of all answers wrong.
    """

    source: str
    threshold: tuple[float, ...]
    tokens: tuple[float, ...]
    error: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Marker:
    """How often one phrase, or one category of them, is written (RLCM App. E).

    Attributes:
        name: the phrase, or the category.
        category: self-correction, hedging or knowledge-gap.
        per_rollout: count.
        per_1000_tokens: count per 1,000 tokens of reasoning.
    """

    name: str
    category: str
    per_rollout: Estimate
    per_1000_tokens: Estimate


@dataclass(frozen=True, slots=True)
class Part:
    """Some of a benchmark's problems, a family or a level; ECE is of the run's own source."""

    name: str
    n_problems: int
    accuracy: Estimate
    pce: Estimate
    ece: Estimate


@dataclass(frozen=True, slots=True)
class BenchmarkMeasures:
    """One benchmark under one model.

    Attributes:
        name, title: of the benchmark.
        grader: name and version.
        problems: digest of the problems and references.
        n_problems, n_rollouts: counts, n_rollouts of all problems together.
        accuracy: Pass@1.
        tokens: reasoning and answer tokens per rollout.
        natural: share of rollouts that ended by themselves.
        unread: share of rollouts without a readable answer; they count as wrong.
        categories, indicators: markers by category and by phrase; empty without texts.
    """

    name: str
    title: str
    grader: str
    problems: str
    n_problems: int
    n_rollouts: int
    accuracy: Estimate
    tokens: Estimate
    natural: float
    unread: float
    sources: tuple[SourceMeasures, ...]
    parts: tuple[Part, ...]
    budgets: tuple[AtBudget, ...]
    controlled: tuple[Controlled, ...]
    frontiers: tuple[Frontier, ...]
    categories: tuple[Marker, ...]
    indicators: tuple[Marker, ...]


@dataclass(frozen=True, slots=True)
class RunMeasures:
    """One run: a model, how it was sampled, and its benchmarks.

    Attributes:
        name: of the model, as it was asked for.
        source: the run's own source of confidence, which tables and votes by budget use.
        made_by: of the engine and its settings, plain names and values, for the report's last page.
        rollouts: per problem, by benchmark.
        created: date.
        version: of this project.
    """

    name: str
    source: str
    made_by: dict[str, str]
    rollouts: dict[str, int]
    created: str
    version: str
    benchmarks: tuple[BenchmarkMeasures, ...]
