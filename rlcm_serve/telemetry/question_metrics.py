"""Metrics of questions: outcomes, exits, confidences, tokens."""

from __future__ import annotations

import math

from prometheus_client import CollectorRegistry, Counter, Histogram

from calibration import ExitReason
from calibration.certificate.report_data import EXIT_EDGES
from rlcm_serve.core import Question, Sample, Solution
from rlcm_serve.telemetry.request_metrics import SECONDS

SHARES = EXIT_EDGES[1:]
"""Bins of confidences, the same as in the report data of certificates."""
CANCELLED = "cancelled"
NO_CERTIFICATE = ""
"""Label of questions without a guarantee."""
TOKEN_KINDS = ("prompt", "cached_prompt", "reasoning", "answer", "suffix", "discarded", CANCELLED)


def tokens_by_kind(solution: Solution) -> dict[str, int]:
    """The tokens of a solution, by `TOKEN_KINDS`.

    The prompt counts once, however many samples read it; `cached_prompt` is the part of it that no
    sample computed. `discarded` tokens were generated and dropped. `cancelled` tokens come from
    samples that were cancelled because the vote was decided. `suffix` tokens were inserted to force
    answers, not generated. Apart from `cached_prompt`, every token has exactly one kind.
    """
    finished = solution.finished
    cached = (sample.rollout.cached_prompt_tokens for sample in finished)
    return {
        "prompt": solution.prompt_tokens,
        "cached_prompt": min(cached, default=0),
        "reasoning": sum(len(sample.rollout.tokens) for sample in finished),
        "answer": sum(sample.answer_tokens for sample in finished),
        "suffix": sum(sample.suffix_tokens for sample in finished),
        "discarded": sum(sample.rollout.discarded for sample in finished),
        CANCELLED: sum(sample.tokens for sample in solution.cancelled),
    }


class QuestionMetrics:
    """Counts the solver's solutions and failures."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._outcomes = _Outcomes(registry)
        self._samples = _Samples(registry)
        self._tokens = _Tokens(registry)

    def solved(self, question: Question, solution: Solution, seconds: float) -> None:
        """Counts a question that ended with an answer or an abstention after `seconds`."""
        self._outcomes.count(question, solution, seconds)
        self._samples.count(solution)
        self._tokens.count(solution)

    def failed(self, kind: str) -> None:
        """Counts a question that failed; `kind` is one of a few labels, not a message."""
        self._outcomes.failures.labels(kind).inc()


class _Outcomes:
    def __init__(self, registry: CollectorRegistry) -> None:
        self.questions = Counter(
            "rlcm_questions",
            "Questions by outcome (answered, abstained), with or without a guarantee.",
            ("outcome", "guarantee"),
            registry=registry,
        )
        for outcome in ("answered", "abstained"):
            for guarantee in ("given", "withheld"):
                self.questions.labels(outcome, guarantee)
        self.certified = Counter(
            "rlcm_certified_questions",
            "Questions answered or abstained from under each certified level.",
            ("certificate", "alpha"),
            registry=registry,
        )
        self.failures = Counter(
            "rlcm_question_failures",
            "Questions that ended without answer or abstention, by kind of error.",
            ("kind",),
            registry=registry,
        )
        self.seconds = Histogram(
            "rlcm_question_seconds",
            "Seconds from a question to its answer or abstention, including the queue.",
            buckets=SECONDS,
            registry=registry,
        )
        self.samples = Histogram(
            "rlcm_question_samples",
            "Samples requested per question.",
            buckets=(1, 2, 4, 8, 16, 32, 64),
            registry=registry,
        )
        self.confidence = Histogram(
            "rlcm_answer_confidence",
            "Confidence of answers; with several samples, the answer's share of the vote.",
            buckets=SHARES,
            registry=registry,
        )

    def count(self, question: Question, solution: Solution, seconds: float) -> None:
        outcome = "abstained" if solution.abstained else "answered"
        promised = solution.guarantee
        self.questions.labels(outcome, "withheld" if promised is None else "given").inc()
        if promised is not None:
            level = f"{promised.alpha_certified:g}"
            self.certified.labels(promised.certificate, level).inc()
        self.seconds.observe(seconds)
        self.samples.observe(question.samples)
        if solution.confidence is not None:
            self.confidence.observe(solution.confidence)


class _Samples:
    def __init__(self, registry: CollectorRegistry) -> None:
        self.exits = Counter(
            "rlcm_exits",
            "Samples by the reason for which they stopped thinking.",
            ("reason",),
            registry=registry,
        )
        for reason in (*ExitReason, CANCELLED):
            self.exits.labels(str(reason))
        self.confidences = Histogram(
            "rlcm_sample_confidence",
            "Last confidence reading of each sample, with or without an answer, by the certificate "
            "of its guarantee; empty without a guarantee.",
            ("certificate",),
            buckets=SHARES,
            registry=registry,
        )
        self.confidences.labels(NO_CERTIFICATE)
        self.broken_readings = Counter(
            "rlcm_broken_readings",
            "Samples whose last reading was not a number (NaN).",
            registry=registry,
        )

    def count(self, solution: Solution) -> None:
        self.exits.labels(CANCELLED).inc(len(solution.cancelled))
        promised = solution.guarantee
        certificate = NO_CERTIFICATE if promised is None else promised.certificate
        for sample in solution.finished:
            self._count_one(sample, certificate)

    def _count_one(self, sample: Sample, certificate: str) -> None:
        self.exits.labels(str(sample.rollout.exit)).inc()
        if math.isnan(sample.rollout.confidence):
            self.broken_readings.inc()
        else:
            self.confidences.labels(certificate).observe(sample.rollout.confidence)


class _Tokens:
    def __init__(self, registry: CollectorRegistry) -> None:
        self.by_kind = Counter(
            "rlcm_tokens",
            "Tokens by kind. A prompt counts once; cached_prompt is part of it; suffix tokens were "
            "inserted, not generated.",
            ("kind",),
            registry=registry,
        )
        for kind in TOKEN_KINDS:
            self.by_kind.labels(kind)
        self.expected = Counter(
            "rlcm_full_budget_tokens",
            "Expected tokens of the questions at full budget, without early exits, from the "
            "calibration data of their certificates.",
            registry=registry,
        )
        self.saved = Counter(
            "rlcm_tokens_saved",
            "Tokens below the expected full budget, summed over the questions that cost less.",
            registry=registry,
        )
        self.over = Counter(
            "rlcm_tokens_over",
            "Tokens above the expected full budget, summed over the questions that cost more. The "
            "net saving is rlcm_tokens_saved minus rlcm_tokens_over.",
            registry=registry,
        )

    def count(self, solution: Solution) -> None:
        for kind, tokens in tokens_by_kind(solution).items():
            self.by_kind.labels(kind).inc(tokens)
        saved = solution.tokens_saved
        if saved is None or solution.expectation is None:
            return
        self.expected.inc(solution.expectation.full_budget_tokens)
        # A counter cannot decrease, so the questions that cost more have a separate one.
        (self.saved if saved >= 0 else self.over).inc(abs(saved))
