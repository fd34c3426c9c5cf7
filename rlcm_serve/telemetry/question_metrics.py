"""Metrics of questions: outcomes, exits, confidences, tokens."""

from __future__ import annotations

import math
from functools import partial

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
        counter = partial(Counter, registry=registry)
        histogram = partial(Histogram, registry=registry)
        self.questions = counter(
            "rlcm_questions",
            "Questions by outcome (answered, abstained), with or without a guarantee.",
            ("outcome", "guarantee"),
        )
        for outcome in ("answered", "abstained"):
            for guarantee in ("given", "withheld"):
                self.questions.labels(outcome, guarantee)
        self.certified = counter(
            "rlcm_certified_questions",
            "Questions by outcome (answered, abstained) under each certified level.",
            ("certificate", "alpha", "outcome"),
        )
        self.failures = counter(
            "rlcm_question_failures",
            "Questions that ended without answer or abstention, by kind of error.",
            ("kind",),
        )
        self.seconds = histogram(
            "rlcm_question_seconds",
            "Seconds from a question to its answer or abstention, including the queue.",
            buckets=SECONDS,
        )
        self.samples = histogram(
            "rlcm_question_samples",
            "Samples requested per question.",
            buckets=(1, 2, 4, 8, 16, 32, 64),
        )
        self.confidence = histogram(
            "rlcm_answer_confidence",
            "Confidence of answers; with several samples, the answer's share of the vote.",
            buckets=SHARES,
        )

    def count(self, question: Question, solution: Solution, seconds: float) -> None:
        outcome = "abstained" if solution.abstained else "answered"
        promised = solution.guarantee
        self.questions.labels(outcome, "withheld" if promised is None else "given").inc()
        if promised is not None:
            level = f"{promised.alpha_certified:g}"
            self.certified.labels(promised.certificate, level, outcome).inc()
        self.seconds.observe(seconds)
        self.samples.observe(question.samples)
        if solution.confidence is not None:
            self.confidence.observe(solution.confidence)


class _Samples:
    def __init__(self, registry: CollectorRegistry) -> None:
        counter = partial(Counter, registry=registry)
        self.exits = counter(
            "rlcm_exits", "Samples by the reason for which they stopped thinking.", ("reason",)
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
        self.broken_readings = counter(
            "rlcm_broken_readings", "Samples whose last reading was not a number (NaN)."
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
        counter = partial(Counter, registry=registry)
        self.by_kind = counter(
            "rlcm_tokens",
            "Tokens by kind. A prompt counts once; cached_prompt is part of it; suffix tokens were "
            "inserted, not generated.",
            ("kind",),
        )
        for kind in TOKEN_KINDS:
            self.by_kind.labels(kind)
        self.expected = counter(
            "rlcm_full_budget_tokens",
            "Expected tokens of the questions at full budget, without early exits, from the "
            "calibration data of their certificates.",
        )
        self.saved = counter(
            "rlcm_tokens_saved",
            "Tokens below the expected full budget, summed over the questions that cost less.",
        )
        self.over = counter(
            "rlcm_tokens_over",
            "Tokens above the expected full budget, summed over the questions that cost more. The "
            "net saving is rlcm_tokens_saved minus rlcm_tokens_over.",
        )

    def count(self, solution: Solution) -> None:
        for kind, tokens in solution.tokens_by_kind.items():
            self.by_kind.labels(kind).inc(tokens)
        saved = solution.tokens_saved
        if saved is None or solution.expectation is None:
            return
        self.expected.inc(solution.expectation.full_budget_tokens)
        # A counter cannot decrease, so the questions that cost more have a separate one.
        (self.saved if saved >= 0 else self.over).inc(abs(saved))
