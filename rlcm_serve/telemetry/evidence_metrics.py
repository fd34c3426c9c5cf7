"""Metrics of the records of answers."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Histogram

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class EvidenceMetrics:
    """Counts what `rlcm_serve.evidence.log` writes."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._records = Counter(
            "rlcm_evidence_records", "Answers whose record is on disk.", registry=registry
        )
        self._failures = Counter(
            "rlcm_evidence_failures",
            "Answers that were not given because their record could not be written.",
            registry=registry,
        )
        self._seconds = Histogram(
            "rlcm_evidence_write_seconds",
            "Seconds to write a batch of records to disk.",
            buckets=_SECONDS,
            registry=registry,
        )

    def written(self, records: int, seconds: float, written: bool) -> None:
        """Counts a batch."""
        (self._records if written else self._failures).inc(records)
        self._seconds.observe(seconds)
