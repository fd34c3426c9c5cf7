"""The metrics for Prometheus: requests, questions, tokens, and the state of the service.

No label has a value that callers choose. A route is the template of its declaration. Keys and
callers are not in the metrics; the access log has the ids of keys. Times are in seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import version
from itertools import chain
from typing import TYPE_CHECKING

from prometheus_client import (
    CollectorRegistry,
    Histogram,
    Info,
    Metric,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector

from rlcm_serve.telemetry.evidence_metrics import EvidenceMetrics
from rlcm_serve.telemetry.question_metrics import QuestionMetrics
from rlcm_serve.telemetry.readout import Readout
from rlcm_serve.telemetry.request_metrics import SECONDS, RequestMetrics
from rlcm_serve.telemetry.state import StateCollector

if TYPE_CHECKING:
    from rlcm_serve.admission import Admission
    from rlcm_serve.solving.service import Service
    from rlcm_serve.store.answers.figures import MonitoringFigures
    from rlcm_serve.store.job import JobState


class Metrics:
    """All metrics of one server, in a registry of its own. vLLM's are read from the engine.

    Attributes:
        requests: counts HTTP requests; the middleware reports them.
        questions: counts questions and their tokens.
        evidence: counts the records of answers.
    """

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._registry = CollectorRegistry()
        self._state = StateCollector()
        ProcessCollector(registry=self._registry)
        build = Info("rlcm_build", "The running version of rlcm-serve.", registry=self._registry)
        build.info({"version": version("rlcm-serve")})
        self.requests = RequestMetrics(self._registry)
        self.questions = QuestionMetrics(self._registry)
        self.evidence = EvidenceMetrics(self._registry)
        self._own: dict[str, tuple[CollectorRegistry, QuestionMetrics]] = {}
        self._queue_seconds = Histogram(
            "rlcm_queue_seconds",
            "Seconds that admitted questions waited in the queue.",
            buckets=SECONDS,
            registry=self._registry,
        )

    def watch(
        self,
        *,
        admission: Admission | None = None,
        aggregations: Admission | None = None,
        service: Service | None = None,
        jobs: Callable[[], Mapping[JobState, int]] | None = None,
        monitoring: Callable[[], MonitoringFigures] | None = None,
    ) -> None:
        """Adds the state of these to every page.

        `jobs` counts the calibration jobs by state, `monitoring` reads the figures of live
        monitoring.
        """
        if admission is not None:
            self._state.admission = admission
            admission.on_admitted = self._queue_seconds.observe
        if aggregations is not None:
            self._state.aggregations = aggregations
        if service is not None:
            self._state.service = service
        if jobs is not None:
            self._state.jobs = jobs
        if monitoring is not None:
            self._state.monitoring = monitoring

    def questions_of(self, key_id: str | None) -> Sequence[QuestionMetrics]:
        """Where a question of this key is counted: for the service, and for the key alone."""
        return (self.questions,) if key_id is None else (self.questions, self._of(key_id)[1])

    def readout(self, key_id: str | None = None) -> Readout:
        """What was counted, for the service or only for one key's questions.

        Without the state of the parts that `watch` adds, and without vLLM's metrics.
        """
        registry = self._registry if key_id is None else self._of(key_id)[0]
        return Readout(registry.collect(), time.monotonic() - self._began)

    def _of(self, key_id: str) -> tuple[CollectorRegistry, QuestionMetrics]:
        # Operators make keys, so there are few.
        if key_id not in self._own:
            registry = CollectorRegistry()
            self._own[key_id] = registry, QuestionMetrics(registry)
        return self._own[key_id]

    def page(self, *, has_database: bool = True) -> tuple[bytes, str]:
        """All metrics in Prometheus' text format, and its media type.

        Reads the database if it can be used, so call it outside the event loop.
        """
        state = self._state if has_database else self._state.without_database()
        return generate_latest(_Page(state, self._registry)), CONTENT_TYPE_PLAIN_0_0_4


class _Page(CollectorRegistry):
    """The metrics of several collectors, without the creation time of each series.

    Prometheus does not read creation times from this format, and they would double the page.
    """

    def __init__(self, *collectors: Collector | CollectorRegistry) -> None:
        super().__init__()
        self._collectors = collectors

    def collect(self) -> Iterator[Metric]:
        for metric in chain.from_iterable(one.collect() for one in self._collectors):
            metric.samples = [one for one in metric.samples if not one.name.endswith("_created")]
            yield metric
