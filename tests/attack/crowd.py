"""Many clients that wait as they are told: each keeps its connection and honours Retry-After."""

from __future__ import annotations

import asyncio
import json
import resource
from collections import Counter
from dataclasses import dataclass, field

import httpx

CONNECTION_FILES = 256
"""Open files that this process needs beside its connections."""


@dataclass
class Crowd:
    """What became of the requests of all clients.

    `statuses` counts responses; `unanswered` has what ended the requests that got none.
    """

    statuses: Counter[int] = field(default_factory=Counter)
    unanswered: Counter[str] = field(default_factory=Counter)
    posts: int = 0

    def __str__(self) -> str:
        without = f"{self.unanswered.total()} without a status {dict(self.unanswered)}"
        return f"{self.posts} posts, {without}, {dict(self.statuses)}"


async def ask_all(url: str, clients: int, body: dict[str, object], spread: float = 0.5) -> Crowd:
    """Lets every client ask until it is answered with 200.

    Args:
        url: of the service.
        clients: how many; each has a connection of its own.
        body: of every request.
        spread: seconds within which the clients begin.
    """
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 2 * clients + CONNECTION_FILES), most))
    crowd = Crowd()
    waits = [number * spread / clients for number in range(clients)]
    await asyncio.gather(*(_Client(url, body, crowd).ask_until_answered(wait) for wait in waits))
    return crowd


class _Client:
    def __init__(self, url: str, body: dict[str, object], crowd: Crowd) -> None:
        at = httpx.URL(url)
        self._host, self._port = at.host, at.port or 80
        content = json.dumps(body).encode()
        self._request = (
            f"POST /solve HTTP/1.1\r\nHost: {at.host}:{self._port}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
        ).encode() + content
        self._crowd = crowd
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def ask_until_answered(self, wait: float) -> None:
        await asyncio.sleep(wait)
        while True:
            try:
                status, headers = await self._ask()
            except (OSError, EOFError) as error:
                self._crowd.unanswered[type(error).__name__] += 1
                self._hang_up()
                await asyncio.sleep(1)
                continue
            self._crowd.statuses[status] += 1
            if headers.get("connection") == "close":
                self._hang_up()
            if status == 200:
                self._hang_up()
                return
            await asyncio.sleep(float(headers["retry-after"]))

    async def _ask(self) -> tuple[int, dict[str, str]]:
        """The status and the headers of the response.

        A connection that the service is seen to have closed is not used again, as in any client.
        """
        if self._reader is None or self._writer is None or self._reader.at_eof():
            self._hang_up()
            self._reader, self._writer = await asyncio.open_connection(self._host, self._port)
        self._crowd.posts += 1
        self._writer.write(self._request)
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode()
        lines = head.split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines[1:] if line)
        await self._reader.readexactly(int(headers["content-length"]))
        return int(lines[0].split()[1]), headers

    def _hang_up(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._reader = self._writer = None
