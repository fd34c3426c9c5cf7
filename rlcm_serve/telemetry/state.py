"""The state of the service, read whenever Prometheus collects the metrics."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Self

from prometheus_client import REGISTRY, Metric
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from rlcm_serve.errors import RlcmError
from rlcm_serve.store.job import JobState
from rlcm_serve.telemetry.monitoring_metrics import monitored

if TYPE_CHECKING:
    from calibration import Certificate
    from rlcm_serve.admission import Admission
    from rlcm_serve.solving.guarantees import Guarantees
    from rlcm_serve.solving.service import Service
    from rlcm_serve.store.answers.figures import MonitoringFigures

_WAITING = "vllm:num_requests_waiting"
logger = logging.getLogger(__name__)


class StateCollector(Collector):
    """Collects the state of the parts that are set; parts that are None are left out.

    Attributes:
        admission: the queue of questions.
        aggregations: the queue of batches.
        service: the engine and the certificates.
        jobs: counts the calibration jobs by state; may be slow.
        monitoring: reads the figures of live monitoring; may be slow.
        has_database: whether the database can be used now; jobs and monitoring need it.
    """

    def __init__(self) -> None:
        self.admission: Admission | None = None
        self.aggregations: Admission | None = None
        self.service: Service | None = None
        self.jobs: Callable[[], Mapping[JobState, int]] | None = None
        self.monitoring: Callable[[], MonitoringFigures] | None = None
        self.has_database = True

    def without_database(self) -> Self:
        """The same parts, while the database cannot be used."""
        state = copy(self)
        state.has_database = False
        return state

    def collect(self) -> Iterator[Metric]:
        """All metric families."""
        guarantees = _guarantees(self.service)
        certificates = () if guarantees is None else guarantees.certificates
        if self.admission is not None:
            yield from _queue(self.admission)
        if self.aggregations is not None:
            yield from _batches(self.aggregations)
        if self.service is not None:
            yield from _engine(self.service)
            yield from _vllm(self.service, self.admission)
            yield from _certificates(certificates)
            yield _void(guarantees)
        up = "1 if the database answers, 0 if it cannot be used."
        yield GaugeMetricFamily("rlcm_database_up", up, self.has_database)
        if not self.has_database:
            return
        if self.jobs is not None:
            try:
                yield _jobs(self.jobs())
            except Exception:
                # The rest of the page is needed most when something is broken.
                logger.exception("the jobs could not be counted")
        if self.monitoring is not None:
            try:
                yield from monitored(self.monitoring(), certificates)
            except Exception:
                logger.exception("the figures of live monitoring could not be read")


def _queue(admission: Admission) -> Iterator[Metric]:
    gauges = {
        "rlcm_queue_running": ("Questions being answered now.", admission.running),
        "rlcm_queue_running_limit": (
            "Most questions answered at the same time.",
            admission.max_running,
        ),
        "rlcm_queue_waiting": ("Questions waiting in the queue.", admission.waiting),
        "rlcm_queue_waiting_limit": (
            "Most questions in the queue; further ones are refused with status 429.",
            admission.max_waiting,
        ),
        "rlcm_queue_drain_per_second": (
            "Questions finished per second while all places were taken, over the last 60 s of such "
            "time. 0 while unknown.",
            admission.drain_rate or 0.0,
        ),
    }
    for name, (text, value) in gauges.items():
        yield GaugeMetricFamily(name, text, value=value)


def _batches(admission: Admission) -> Iterator[Metric]:
    running = "Batches that are being aggregated now."
    yield GaugeMetricFamily("rlcm_aggregations_running", running, value=admission.running)
    waiting = "Batches that wait to be aggregated."
    yield GaugeMetricFamily("rlcm_aggregations_waiting", waiting, value=admission.waiting)


def _engine(service: Service) -> Iterator[Metric]:
    try:
        up = service.solver is not None
    except RlcmError:
        up = False
    yield GaugeMetricFamily(
        "rlcm_engine_up",
        "1 if the engine can answer questions, 0 while it starts, or after it died or hung.",
        up,
    )
    model = GaugeMetricFamily("rlcm_model_info", "1, with the model's name.", labels=("model",))
    model.add_metric((service.engine.name,), 1)
    yield model
    yield GaugeMetricFamily(
        "rlcm_engine_requests",
        "Requests in the engine: samples that think and answers that are being forced.",
        value=service.engine.in_flight,
    )
    restarts = "Restarts of the engine after it died or hung."
    yield CounterMetricFamily("rlcm_engine_restarts", restarts, value=service.restarts)
    hangs = "Times the engine produced nothing for `hang_s` seconds and was killed."
    yield CounterMetricFamily("rlcm_engine_hangs", hangs, value=service.hangs)


def _vllm(service: Service, admission: Admission | None) -> Iterator[Metric]:
    """vLLM's own metrics. Routers balance by what waits, so our queue counts as waiting too."""
    if not service.engine.has_metrics:
        return
    queued = 0 if admission is None else admission.waiting
    for family in REGISTRY.collect():
        if family.name == _WAITING and family.samples:
            first = family.samples[0]
            family.samples[0] = first._replace(value=first.value + queued)
        if family.name.startswith("vllm:"):
            yield family


def _guarantees(service: Service | None) -> Guarantees | None:
    """What the service promises; None before its first start."""
    try:
        return None if service is None else service.guarantees
    except RlcmError:
        return None


def _certificates(certificates: Sequence[Certificate]) -> Iterator[Metric]:
    yield GaugeMetricFamily(
        "rlcm_certificates",
        "Active certificates; without any, no answer has a guarantee.",
        value=len(certificates),
    )
    levels = GaugeMetricFamily(
        "rlcm_certified_level_info",
        "1 for each certified level of an active certificate.",
        labels=("certificate", "risk", "samples", "vote", "max_tokens", "delta", "alpha"),
    )
    for certificate in certificates:
        fitted = certificate.fingerprint
        if fitted is None:
            continue
        procedure = (str(fitted.samples), fitted.vote, str(fitted.max_tokens))
        for level in certificate.levels:
            if level.certified:
                bounds = (f"{certificate.delta:g}", f"{level.alpha:g}")
                levels.add_metric((certificate.id, certificate.risk, *procedure, *bounds), 1)
    yield levels


def _void(guarantees: Guarantees | None) -> Metric:
    void = GaugeMetricFamily(
        "rlcm_certificate_void",
        "1 for an active certificate whose guarantee no answer of this engine has, 0 for others.",
        labels=("certificate",),
    )
    if guarantees is not None:
        for one in guarantees.certificates:
            void.add_metric((one.id,), guarantees.void(one.id) is not None)
    return void


def _jobs(counts: Mapping[JobState, int]) -> Metric:
    jobs = GaugeMetricFamily("rlcm_jobs", "Calibration jobs by state.", labels=("state",))
    for state in JobState:
        jobs.add_metric((state.value,), counts.get(state, 0))
    return jobs
