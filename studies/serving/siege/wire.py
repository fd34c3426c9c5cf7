"""A client that sends any bytes, and reads one response at a time."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass


@dataclass(frozen=True)
class Answer:
    """A whole response: its headers in lower case, and the seconds until its end."""

    status: int
    headers: dict[str, str]
    body: bytes
    seconds: float

    @property
    def type(self) -> str:
        """The type of a problem, or an empty text."""
        try:
            document = json.loads(self.body)
            problem = document.get("error", document)
            return str(problem.get("rlcm", problem).get("type", "")).rpartition(":")[2]
        except (ValueError, AttributeError):
            return ""


class NoStatus(Exception):
    """The connection ended before the whole response had arrived."""


class Wire:
    """One connection at a time to a port on loopback, opened when it is needed."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def open(self) -> None:
        """Connects, unless it is connected.

        Raises:
            ConnectionRefusedError: nothing listens there.
        """
        if self._reader is None or self._reader.at_eof():
            self.hang_up()
            self._reader, self._writer = await asyncio.open_connection(
                "127.0.0.1", self._port, limit=2**20
            )

    async def ask(
        self, request: bytes, limit: float, *, head: bool = False, last: bool = False
    ) -> Answer:
        """The response to these bytes.

        Args:
            request: sent as it is.
            limit: seconds within which the whole response must have arrived.
            head: the response has no body.
            last: nothing more will be sent, and the service is told so.

        Raises:
            ConnectionRefusedError: nothing listens there.
            NoStatus: the connection ended too early.
            TimeoutError: the response is late.
        """
        await self.open()
        assert self._writer is not None
        began = time.monotonic()
        try:
            async with asyncio.timeout(limit):
                self._writer.write(request)
                if last:
                    self._writer.write_eof()
                status, headers = await self._read_head()
                has_none = head or status in (204, 304)
                body = b"" if has_none else await self._read_body(headers)
        except (OSError, EOFError) as error:
            if isinstance(error, TimeoutError):
                raise
            raise NoStatus(repr(error)) from error
        finally:
            done = time.monotonic() - began
        if headers.get("connection") == "close" or last:
            self.hang_up()
        return Answer(status, headers, body, done)

    def hang_up(self) -> None:
        """Closes the connection."""
        if self._writer is not None:
            self._writer.close()
        self._reader = self._writer = None

    async def _read_head(self) -> tuple[int, dict[str, str]]:
        assert self._reader is not None
        while True:
            head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            lines = head.lower().split("\r\n")
            if (status := int(lines[0].split()[1])) >= 200:
                return status, dict(line.split(": ", 1) for line in lines[1:] if line)

    async def _read_body(self, headers: dict[str, str]) -> bytes:
        assert self._reader is not None
        if "content-length" in headers:
            return await self._reader.readexactly(int(headers["content-length"]))
        parts = []
        while size := int(await self._reader.readuntil(b"\r\n"), 16):
            parts.append(await self._reader.readexactly(size))
            await self._reader.readexactly(2)
        await self._reader.readexactly(2)
        return b"".join(parts)


def post_bytes(path: str, headers: dict[str, str], body: object | None = None) -> bytes:
    """A POST as it should be, with a body in JSON if there is one."""
    content = b"" if body is None else json.dumps(body).encode()
    lines = {"Host": "localhost", "Content-Length": str(len(content))} | headers
    if body is not None:
        lines.setdefault("Content-Type", "application/json")
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"POST {path} HTTP/1.1\r\n{head}\r\n".encode() + content
