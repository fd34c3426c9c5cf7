"""What Prometheus reads: requests, questions and their tokens, and the state of the service.

No label takes a value that callers choose: a route is the template it was declared with, and
neither keys nor callers are named (the access log names keys). Times are in seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version
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

from rlcm_serve.core import Question, Solution
from rlcm_serve.telemetry.question_metrics import QuestionMetrics
from rlcm_serve.telemetry.readout import Readout
from rlcm_serve.telemetry.request_metrics import SECONDS, RequestMetrics
from rlcm_serve.telemetry.state import StateCollector

if TYPE_CHECKING:
    from rlcm_serve.admission import Admission
    from rlcm_serve.solving.service import Service
    from rlcm_serve.store.job import JobState


class Metrics:
    """All metrics of one server, in a registry of their own: none of vLLM's are among them.

    Attributes:
        requests: told of every HTTP request by the middleware.
    """

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._registry = CollectorRegistry()
        self._state = StateCollector()
        self._registry.register(self._state)
        ProcessCollector(registry=self._registry)
        build = Info("rlcm_build", "The version that runs.", registry=self._registry)
        build.info({"version": version("rlcm-serve")})
        self.requests = RequestMetrics(self._registry)
        self._questions = QuestionMetrics(self._registry)
        self._queue_seconds = Histogram(
            "rlcm_queue_seconds",
            "What questions that were admitted had waited for a place.",
            buckets=SECONDS,
            registry=self._registry,
        )

    def watch(
        self,
        *,
        admission: Admission | None = None,
        service: Service | None = None,
        jobs: Callable[[], Mapping[JobState, int]] | None = None,
    ) -> None:
        """Has every page tell of these; `jobs` counts the calibration jobs by state."""
        if admission is not None:
            self._state.admission = admission
            admission.on_admitted = self._queue_seconds.observe
        if service is not None:
            self._state.service = service
        if jobs is not None:
            self._state.jobs = jobs

    def solved(self, question: Question, solution: Solution, seconds: float) -> None:
        """Counts a question that got its answer or abstention, `seconds` after it was asked."""
        self._questions.solved(question, solution, seconds)

    def failed(self, kind: str) -> None:
        """Counts a question that got neither; `kind` is one of few words, not a message."""
        self._questions.failed(kind)

    def readout(self) -> Readout:
        """The same numbers as on the page, to compute with.

        May ask a database for the jobs: call it outside of the event loop.
        """
        return Readout(self._registry.collect(), time.monotonic() - self._began)

    def page(self) -> tuple[bytes, str]:
        """Everything in Prometheus' text format, and its media type.

        May ask a database for the jobs: call it outside of the event loop.
        """
        return generate_latest(_WithoutBirthdays(self._registry)), CONTENT_TYPE_PLAIN_0_0_4


class _WithoutBirthdays(CollectorRegistry):
    """A registry's metrics without the time at which each series began.

    Those would double the page for what Prometheus does not read from this format.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        super().__init__()
        self._all = registry

    def collect(self) -> Iterator[Metric]:
        for metric in self._all.collect():
            metric.samples = [one for one in metric.samples if not one.name.endswith("_created")]
            yield metric
