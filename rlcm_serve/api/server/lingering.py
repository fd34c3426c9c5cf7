"""Closes connections so that clients get the response."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

LONGEST_LINGER = 2.0
"""Seconds for which a client may go on sending after the last response of its connection."""
MOST_DISCARDED = 16 * 2**20
"""Bytes that it may send in this time."""


class LingeringTransport:
    """A transport whose `close` waits for clients that are still sending.

    Without that wait, the unread data would make the kernel reset the connection, and many clients
    would never see the response. Whoever owns the transport discards what comes in the meantime.

    Args:
        transport: the transport itself.
        loop: its event loop.
        is_sending: whether the client's request is incomplete.
    """

    def __init__(
        self,
        transport: asyncio.Transport,
        loop: asyncio.AbstractEventLoop,
        is_sending: Callable[[], bool],
    ) -> None:
        self._transport = transport
        self._loop = loop
        self._is_sending = is_sending
        self._lingers = False
        self._discarded = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def is_closing(self) -> bool:
        """Whether nothing more may be written."""
        return self._lingers or self._transport.is_closing()

    def discard(self, count: int) -> None:
        """Counts bytes that came after `close`."""
        self._discarded += count
        if self._discarded > MOST_DISCARDED:
            self._transport.abort()

    def close(self) -> None:
        """Closes after everything is sent: at once, or when the client has closed its side."""
        if self.is_closing():
            return
        if not self._is_sending():
            self._transport.close()
            return
        self._lingers = True
        self._transport.resume_reading()
        self._transport.write_eof()
        self._loop.call_later(LONGEST_LINGER, self._transport.close)
