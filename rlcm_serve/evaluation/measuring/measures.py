"""The measures of an evaluation, as in `metrics.json`; reports are built from them alone.

Shares and confidences are in [0, 1]. Tokens are those of the evaluated model. Intervals are 95%
intervals over problems: of shares by `calibration.metrics.share_intervals`, of the rest bootstrap.
A tuple of a curve has one entry per point.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from calibration.metrics.estimates import Estimate
from calibration.metrics.reliability import ReliabilityBin
from calibration.metrics.vote_curves import VoteCurves

METRICS = ("ece", "pce", "adaptive_ece", "brier", "nll", "auroc", "aurc", "within_auroc")
"""The metrics of a source, in the order of tables."""


@dataclass(frozen=True, slots=True)
class SourceMeasures:
    """How well one source's final confidence matches the final answers.

    Attributes:
        source: value of `sources.Source`.
        reading_tokens: tokens per rollout that all its readings cost.
        missing: share of rollouts without a confidence, which counts as 0.
        metrics: by the names of `METRICS`.
        bins: reliability bins of equal width, without empty ones.
        right, wrong: number of rollouts by confidence, in bins of width 1 / len(right).
        mean, median: of the confidence.
        coverage, risk: points of the risk-coverage curve.
        votes: weighted by this confidence.
        risk_interval: 95% interval of each point of `risk`, unless it was chosen by its risk; empty
            in files of older evaluations.
        depth_auroc: AUROC within question and depth, of the readings at checkpoints.
        oracle_distance: tokens from the oracle exit to the exit by this source, by the accepted
            regret (as text, `0.01`); empty in files of older evaluations.
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
    votes: VoteCurves
    risk_interval: tuple[tuple[float, float], ...] = ()
    depth_auroc: Estimate = field(default_factory=partial(Estimate, None))
    oracle_distance: dict[str, Estimate] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AtBudget:
    """All rollouts at a smaller budget; rollouts that ended earlier keep their end.

    Attributes:
        tokens: the budget.
        accuracy: of the answers at the budget, forced unless the rollout had ended by itself.
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
class OracleExit:
    """The first reading from which on every answer is right, in rollouts that end right.

    Attributes:
        share: of rollouts that have one, because they end right.
        tokens: reasoning and answer tokens there; the mean over these rollouts.
        full_distance: tokens that the full budget takes beyond it, without readings.
    """

    share: float
    tokens: Estimate
    full_distance: Estimate


@dataclass(frozen=True, slots=True)
class Origin:
    """Where an exit policy comes from; `str` gives its name in tables.

    Attributes:
        certificate: id; None if the policy was fitted in this evaluation only.
        samples: per question, which vote.
        fitted_on: number of problems of the benchmark; None for a certificate.
    """

    certificate: str | None = None
    samples: int = 1
    fitted_on: int | None = None

    def __str__(self) -> str:
        if self.certificate is None:
            return f"fitted on {self.fitted_on} problems"
        several = f" (n = {self.samples})" if self.samples > 1 else ""
        return f"certificate {self.certificate}{several}"

    @property
    def kind(self) -> str:
        """It in one word."""
        return "certified" if self.certificate else "fitted"


@dataclass(frozen=True, slots=True)
class Controlled:
    """A risk target and the realised risk, on problems that did not take part in the fit.

    Attributes:
        source: of confidence, which drives the exits.
        origin: of the policy.
        risk: what alpha bounds.
        alpha: the target.
        reason: why the target is not certified; None if it is. The measures below need a policy.
        realised: risk; also None if no question was answered.
        answered, right: shares of questions answered, and answered correctly.
        tokens: per question, including those that readings cost.
        full_tokens: per question at the full budget, without readings.
        n_problems: number of test problems.
        answered_low, answered_high: 95% interval of `answered`; None, as below, in files of older
            evaluations.
        tokens_share_low, tokens_share_high: that of `tokens_share`; None for a single unit.
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
    answered_low: float | None = None
    answered_high: float | None = None
    tokens_share_low: float | None = None
    tokens_share_high: float | None = None

    @property
    def answers(self) -> Estimate:
        """The share answered, with its interval."""
        return Estimate(self.answered, self.answered_low, self.answered_high)

    @property
    def spends(self) -> Estimate:
        """`tokens_share` with its interval."""
        return Estimate(self.tokens_share, self.tokens_share_low, self.tokens_share_high)

    @property
    def measured_risk(self) -> Estimate:
        """The realised risk; without a value where there is none."""
        return self.realised or Estimate(None)

    @property
    def tokens_share(self) -> float | None:
        """Tokens as a share of the full budget's; None where nothing is certified."""
        if self.tokens is None or not self.full_tokens:
            return None
        return self.tokens / self.full_tokens


@dataclass(frozen=True, slots=True)
class Frontier:
    """Tokens and errors of a source's exits, by threshold.

    Not covered: no point of the curve was tested, so none has a guarantee.

    Attributes:
        threshold: λ2, decreasing; the first one never fires.
        tokens: relative to the full budget of one sample, including those that readings cost.
        error: share of wrong answers among all.
        error_low, error_high: its 95% interval; empty, as `at_error`, in files of older
            evaluations.
        at_error: `tokens` at each error of `equal_error.ALLOWED`, with its interval.
        samples: per question; several vote, weighted by their confidence.
        only_familiar: unfamiliar questions are thought through to the full budget.
        counts_suffix: whether tokens include those inserted to force an answer.
    """

    source: str
    threshold: tuple[float, ...]
    tokens: tuple[float, ...]
    error: tuple[float, ...]
    error_low: tuple[float, ...] = ()
    error_high: tuple[float, ...] = ()
    at_error: tuple[Estimate, ...] = ()
    samples: int = 1
    only_familiar: bool = False
    counts_suffix: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether it has exits alone, without a vote and for all questions."""
        return self.samples == 1 and not self.only_familiar


@dataclass(frozen=True, slots=True)
class Marker:
    """The frequency of one phrase, or of one category of phrases (RLCM App. E).

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
    """A family or level of a benchmark's problems; ECE is that of the run's own source."""

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
        n_problems, n_rollouts: total numbers.
        accuracy: Pass@1.
        tokens: reasoning and answer tokens per rollout.
        natural: share of rollouts that ended by themselves.
        unread: share of rollouts without a readable answer, which counts as wrong.
        categories, indicators: markers by category and by phrase; empty without texts.
        oracle_exit: what exits are compared with; None in files of older evaluations.
        shares: `natural` and `unread` with their intervals; empty in files of older evaluations.
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
    oracle_exit: OracleExit | None = None
    shares: dict[str, Estimate] = field(default_factory=dict)

    def share(self, name: str) -> Estimate:
        """The share of rollouts of that name, `natural` or `unread`."""
        return self.shares.get(name, Estimate(getattr(self, name)))

    @property
    def plain_frontiers(self) -> tuple[Frontier, ...]:
        """Those of each source's exits alone."""
        return tuple(frontier for frontier in self.frontiers if frontier.is_plain)

    def by_source(self, source: str) -> SourceMeasures | None:
        """The measures of a source of confidence, if it was read."""
        return next((found for found in self.sources if found.source == source), None)


@dataclass(frozen=True, slots=True)
class RunMeasures:
    """One run: a model, how it was sampled, and its benchmarks.

    Attributes:
        name: of the model, as on the command line.
        source: the run's own source of confidence, for tables and votes by budget.
        made_by: engine and settings, as plain names and values, for the report's last page.
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

    def benchmark(self, name: str) -> BenchmarkMeasures | None:
        """A benchmark, if the run has it."""
        return next((found for found in self.benchmarks if found.name == name), None)
