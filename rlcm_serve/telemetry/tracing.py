"""Whether traces are recorded: only with an endpoint is OpenTelemetry imported.

Spans carry figures and reasons, never prompts, answers or error messages.
"""

from __future__ import annotations

from rlcm_serve.errors import SettingsRefused
from rlcm_serve.telemetry.contract import Tracing


def start_tracing(endpoint: str | None) -> Tracing:
    """Starts tracing to an OpenTelemetry collector.

    Args:
        endpoint: URL of the collector's OTLP/HTTP receiver, such as `http://localhost:4318`; with
            None, nothing is recorded.

    Raises:
        SettingsRefused: OpenTelemetry is not installed.
    """
    if endpoint is None:
        return Tracing()
    try:
        from rlcm_serve.telemetry.spans import SpanTracing
    except ImportError as error:
        raise SettingsRefused(
            f"otlp_endpoint is set, but {error.name} is not installed: run "
            "`pip install '.[otel]'` in the checkout, or unset it"
        ) from error
    return SpanTracing.to(endpoint)
