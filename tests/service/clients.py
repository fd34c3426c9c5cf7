"""Clients of a running service that ask long questions, many at a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import httpx

from tests.served import QUESTION, Served, events

LONG: dict[str, Any] = {
    # No policy is certified at this alpha, so no sample stops early.
    "alpha": 1e-6,
    "on_infeasible": "full_budget",
    "n": 8,
    "stop_when_decided": False,
}
"""A question that takes seconds."""


class Client:
    """One client's request: its outcome and its time."""

    def __init__(self, service: Served, stream: bool, **body: object) -> None:
        self._service = service
        self._body = {"problem": QUESTION, "stream": stream} | LONG | body
        self.names: list[str] = []
        self.status = 0
        self.problem: dict[str, Any] = {}
        self.headers: httpx.Headers = httpx.Headers()
        self.ended = 0.0

    def ask(self) -> Client:
        """Returns at the end of the response."""
        url = f"{self._service.url}/solve"
        with httpx.stream("POST", url, json=self._body, timeout=120) as response:
            self.status, self.headers = response.status_code, response.headers
            if response.headers["content-type"].startswith("text/event-stream"):
                for name, data in events(response.iter_lines()):
                    self.names.append(name)
                    self.problem = data
            else:
                response.read()
                self.problem = response.json()
        self.ended = time.monotonic()
        return self


def until(is_so: Callable[[], bool], seconds: float = 30) -> float:
    """Waits until the condition holds; returns the seconds that this took."""
    began = time.monotonic()
    while not is_so():
        assert time.monotonic() - began < seconds, "it never was"
        time.sleep(0.005)
    return time.monotonic() - began


def ask(
    threads: ThreadPoolExecutor, service: Served, plain: int, streamed: int, **body: object
) -> tuple[list[Client], list[Future[Client]]]:
    """Sends questions; returns once all of them are being answered."""
    clients = [Client(service, number >= plain, **body) for number in range(plain + streamed)]
    asking = [threads.submit(client.ask) for client in clients]
    until(lambda: service.metric("rlcm_queue_running") == len(clients))
    until(lambda: all("checkpoint" in client.names for client in clients[plain:]))
    return clients, asking
