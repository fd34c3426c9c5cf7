"""Server-sent events on their way to a client."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping

from sse_starlette import EventSourceResponse, ServerSentEvent

from rlcm_serve.json_lines import with_escaped_line_ends

_LINE_END = "\n"


def frame(data: str, event: str | None = None) -> bytes:
    """One event as it is sent; its data are JSON."""
    return with_escaped_line_ends(ServerSentEvent(data, event=event, sep=_LINE_END).encode())


def event_response(
    frames: AsyncGenerator[bytes], heartbeat: float, headers: Mapping[str, str] | None = None
) -> EventSourceResponse:
    """Sends frames as they come, and a comment every `heartbeat` seconds.

    `frames` is closed when it has ended, or the client has left.
    """
    return EventSourceResponse(frames, headers=headers, ping=heartbeat, sep=_LINE_END)
