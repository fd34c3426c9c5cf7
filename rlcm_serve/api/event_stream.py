"""Server-sent events on their way to a client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from fastapi import Response
from starlette.types import Receive, Scope, Send

MEDIA_TYPE = "text/event-stream"
_HEARTBEAT = b": ping\n\n"


def frame(data: str, event: str | None = None) -> bytes:
    """One event; `data` is one line, as JSON is."""
    name = "" if event is None else f"event: {event}\n"
    return f"{name}data: {data}\n\n".encode()


class EventStream(Response):
    """Sends frames as they come, and a comment every now and then.

    Args:
        frames: closed when it has ended, or the client has left.
        heartbeat: seconds from one comment to the next.
    """

    media_type = MEDIA_TYPE

    def __init__(self, frames: AsyncGenerator[bytes], heartbeat: float) -> None:
        # Proxies shall neither keep it nor wait for more of it.
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._frames = frames
        self._heartbeat = heartbeat

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves the request.

        Raises:
            Exception: whatever `frames` raised; the stream has no end then.
        """
        sending = asyncio.create_task(self._send(send))
        beside = {asyncio.create_task(self._beat(send)), asyncio.create_task(_leave(receive))}
        try:
            await asyncio.wait({sending, *beside}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sending, *beside):
                task.cancel()
            await asyncio.gather(sending, *beside, return_exceptions=True)
        if not sending.cancelled():
            sending.result()

    async def _send(self, send: Send) -> None:
        async with aclosing(self._frames) as frames:
            start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
            await send(start)
            async for part in frames:
                await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _beat(self, send: Send) -> None:
        while True:
            await asyncio.sleep(self._heartbeat)
            await send({"type": "http.response.body", "body": _HEARTBEAT, "more_body": True})


async def _leave(receive: Receive) -> None:
    """Returns once the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass
