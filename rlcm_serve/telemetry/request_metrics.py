"""Metrics of HTTP requests."""

from __future__ import annotations

from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320, 640)
"""Histogram buckets: from tenths of a second with a tiny model to many minutes."""
KEY_OUTCOMES = ("answered", "failed", "replayed", "running", "reused", "displaced")
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


@dataclass(frozen=True, slots=True)
class ServedRequest:
    """One finished HTTP request.

    `route` is a template such as `/certificates/{id}`. `seconds` is the time from arrival to the
    last byte. `first_event` is the time to the first event of a stream, None for other responses.
    `client_gone` says that the client disconnected before the end.
    """

    route: str
    method: str
    status: int
    seconds: float
    first_event: float | None = None
    client_gone: bool = False


class RequestMetrics:
    """Counts the requests that `rlcm_serve.api.server.middleware` reports."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = Counter(
            "rlcm_http_requests",
            "Finished HTTP requests; 499 if the client disconnected before the response began.",
            ("route", "method", "status"),
            registry=registry,
        )
        self._in_flight = Gauge(
            "rlcm_http_requests_in_flight", "HTTP requests being served now.", registry=registry
        )
        self._seconds = Histogram(
            "rlcm_http_request_seconds",
            "Seconds from a request to the end of its response, or until the client disconnected.",
            ("route",),
            buckets=SECONDS,
            registry=registry,
        )
        self._first_event = Histogram(
            "rlcm_http_first_event_seconds",
            "Seconds from a request to the first event of its stream; heartbeats do not count.",
            ("route",),
            buckets=SECONDS,
            registry=registry,
        )
        self._clients_gone = Counter(
            "rlcm_http_clients_gone",
            "Requests whose client disconnected before the end of the response.",
            ("route",),
            registry=registry,
        )
        self._with_key = Counter(
            "rlcm_idempotency",
            "What became of requests with an Idempotency-Key, and of the responses kept for them.",
            ("outcome",),
            registry=registry,
        )
        for outcome in KEY_OUTCOMES:
            self._with_key.labels(outcome)

    def with_key(self, outcome: str) -> None:
        """Counts one of `KEY_OUTCOMES`."""
        self._with_key.labels(outcome).inc()

    def began(self) -> None:
        """Counts a request in progress; `ended` removes it."""
        self._in_flight.inc()

    def ended(self, request: ServedRequest) -> None:
        """Counts a finished request."""
        self._in_flight.dec()
        # Callers can invent methods.
        method = request.method if request.method in METHODS else "other"
        self._requests.labels(request.route, method, str(request.status)).inc()
        self._seconds.labels(request.route).observe(request.seconds)
        if request.first_event is not None:
            self._first_event.labels(request.route).observe(request.first_event)
        if request.client_gone:
            self._clients_gone.labels(request.route).inc()
