"""Work that would hold the event loop: where it is done, and in whose turn."""

from __future__ import annotations

import asyncio
import threading

import pytest

from rlcm_serve.api.server import workers as module
from rlcm_serve.api.server.workers import SMALL, Workers
from rlcm_serve.errors import Overloaded

LARGE = SMALL + 1


async def test_small_work_is_done_at_once_and_large_work_in_a_thread() -> None:
    workers = Workers()
    here = threading.get_ident()
    assert await workers.run("a", SMALL, threading.get_ident) == here
    assert await workers.run("a", LARGE, threading.get_ident) != here
    with pytest.raises(ZeroDivisionError):
        await workers.run("a", LARGE, lambda: 1 // 0)


class Held:
    """Work that threads begin and the test ends; `begun` names the callers in order."""

    def __init__(self) -> None:
        self.workers = Workers()
        self.begun: list[str] = []
        self._begins, self._go = threading.Semaphore(0), threading.Semaphore(0)

    def start(self, caller: str) -> asyncio.Task[None]:
        return asyncio.create_task(self.workers.run(caller, LARGE, self._work, caller))

    def _work(self, caller: str) -> None:
        self.begun.append(caller)
        self._begins.release()
        self._go.acquire(timeout=20)

    def end(self, count: int = 1) -> None:
        self._go.release(count)

    async def until_begun(self, *callers: str) -> None:
        for _ in callers:
            assert await asyncio.to_thread(self._begins.acquire, timeout=20)
        assert sorted(self.begun) == sorted(callers)


async def test_a_caller_has_one_thread_at_a_time() -> None:
    held = Held()
    tasks = [held.start(caller) for caller in ("a", "a", "a", "b")]
    await held.until_begun("a", "b")
    held.end(4)
    await asyncio.gather(*tasks)
    assert held.begun[2:] == ["a", "a"]


async def test_the_work_of_a_caller_who_has_left_keeps_its_turn_to_its_end() -> None:
    held = Held()
    gone, waits = held.start("a"), held.start("a")
    await held.until_begun("a")
    gone.cancel()
    await asyncio.wait({gone})
    for _ in range(20):
        await asyncio.sleep(0.001)
    assert held.begun == ["a"], "a thread cannot be ended"
    held.end(2)
    await waits
    assert held.begun == ["a", "a"]


async def test_only_so_much_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_OF_ONE", 2)
    monkeypatch.setattr(module, "MOST_WAITING", 3)
    held = Held()
    tasks = [held.start(caller) for caller in "aaabb"]
    await held.until_begun("a", "b")
    with pytest.raises(Overloaded, match="3 requests are waiting already"):
        await held.workers.run("a", LARGE, print)
    with pytest.raises(Overloaded):
        await held.workers.run("c", LARGE, print)
    assert await held.workers.run("a", SMALL, int) == 0, "small work does not wait"
    held.end(5)
    await asyncio.gather(*tasks)
    assert await held.workers.run("c", LARGE, int) == 0
