"""Metrics of HTTP requests."""

from __future__ import annotations

from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320, 640)
"""Reasoning takes from tenths of a second, with a model of a few MB, to many minutes."""
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


@dataclass(frozen=True, slots=True)
class ServedRequest:
    """One HTTP request that has ended.

    `route` is a template such as `/certificates/{id}`. `seconds` ran from its arrival to its last
    byte; `first_event` to the first event of a stream, None of anything else. `client_gone` says
    that its client left before that.
    """

    route: str
    method: str
    status: int
    seconds: float
    first_event: float | None = None
    client_gone: bool = False


class RequestMetrics:
    """Counts what `rlcm_serve.api.server.middleware` sees."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = Counter(
            "rlcm_http_requests",
            "HTTP requests that ended; status 499 if the client left before its response began.",
            ("route", "method", "status"),
            registry=registry,
        )
        self._in_flight = Gauge(
            "rlcm_http_requests_in_flight", "HTTP requests being served now.", registry=registry
        )
        self._seconds = Histogram(
            "rlcm_http_request_seconds",
            "From a request's arrival to the last byte of its response, or until its client left.",
            ("route",),
            buckets=SECONDS,
            registry=registry,
        )
        self._first_event = Histogram(
            "rlcm_http_first_event_seconds",
            "From a request's arrival to the first event of its stream; heartbeats do not count.",
            ("route",),
            buckets=SECONDS,
            registry=registry,
        )
        self._clients_gone = Counter(
            "rlcm_http_clients_gone",
            "Requests whose client left before the end of the response.",
            ("route",),
            registry=registry,
        )

    def began(self) -> None:
        """Counts a request that is being served; `ended` takes it off again."""
        self._in_flight.inc()

    def ended(self, request: ServedRequest) -> None:
        """Counts a request that has ended."""
        self._in_flight.dec()
        # A method is the caller's to invent.
        method = request.method if request.method in METHODS else "other"
        self._requests.labels(request.route, method, str(request.status)).inc()
        self._seconds.labels(request.route).observe(request.seconds)
        if request.first_event is not None:
            self._first_event.labels(request.route).observe(request.first_event)
        if request.client_gone:
            self._clients_gone.labels(request.route).inc()
