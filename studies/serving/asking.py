"""Asks `/solve` from a process of its own, at little cost to the machine that is measured."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
from collections import Counter
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any

import uvloop

AT_A_TIME = 64
"""Questions at a time: one for each connection."""
QUESTION: dict[str, Any] = {"alpha": 0.1, "temperature": 0.0}
"""Fields of every question. Sampling is greedy, so the work is the same every time."""
_GENERATED = ("reasoning_tokens", "answer_tokens", "discarded_tokens", "cancelled_tokens")


class Asker:
    """A separate process that sends the same problems whenever it is told to."""

    def __init__(self, problems: list[str]) -> None:
        self._pipe, other = multiprocessing.Pipe()
        spawning = multiprocessing.get_context("spawn")
        self._process = spawning.Process(target=_ask_when_told, args=(other, problems))

    def __enter__(self) -> Asker:
        self._process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._pipe.send(None)
        self._process.join()

    def ask(self, ports: Sequence[int], changes: dict[str, object]) -> int:
        """Sends all problems to these ports of this host; returns the generated tokens.

        Args:
            ports: each gets an equal share of the connections.
            changes: fields of the body, over those of `QUESTION`.
        """
        self._pipe.send((ports, changes))
        tokens: int = self._pipe.recv()
        return tokens


def _ask_when_told(pipe: Connection, problems: list[str]) -> None:
    """The main loop of the separate process."""
    while (told := pipe.recv()) is not None:
        ports, changes = told
        pipe.send(uvloop.run(post_all(ports, problems, QUESTION | changes)))


async def post_all(ports: Sequence[int], problems: list[str], body: dict[str, Any]) -> int:
    """Sends every problem over several connections, each with one request after another."""
    left, usage = iter(problems), Counter[str]()

    async def work(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for problem in left:
            content = json.dumps(body | {"problem": problem}).encode()
            head = f"POST /solve HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(content)}\r\n"
            writer.write(f"{head}Content-Type: application/json\r\n\r\n".encode() + content)
            usage.update(_usage_in(await _body_of(reader)))
        writer.close()

    await asyncio.gather(*(work(ports[number % len(ports)]) for number in range(AT_A_TIME)))
    return sum(usage[name] for name in _GENERATED)


async def _body_of(reader: asyncio.StreamReader) -> bytes:
    """The next response's body, read with as little work as possible."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    if b" 200 " not in head.split(b"\r\n")[0]:
        raise RuntimeError(head.decode())
    if b"content-length:" in head:
        length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
        return await reader.readexactly(length)
    parts = []
    while size := int(await reader.readline(), 16):
        parts.append(await reader.readexactly(size))
        await reader.readline()
    await reader.readline()
    return b"".join(parts)


def _usage_in(body: bytes) -> dict[str, int]:
    """The usage of the solution, which is the whole body or its last event."""
    last = body.rpartition(b"data: ")[2]
    usage: dict[str, int] = json.loads(last)["usage"]
    return usage
