"""What one key can find out about others, or take from them."""

from __future__ import annotations

import json
import statistics
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.attack.target import Target, attacked
from tests.served import QUESTION

pytestmark = pytest.mark.attack


def _cached(target: Target, text: str, key: int) -> int:
    """Prompt tokens that came from the cache."""
    response = target.send(json.dumps({"problem": text, "alpha": 0.1}).encode(), key=key)
    assert response.status_code == 200, response.text
    return int(response.json()["usage"]["cached_prompt_tokens"])


def test_the_prefix_cache_does_not_tell_what_other_keys_asked(target: Target) -> None:
    secret = f"{uuid.uuid4()} A dial shows 3. " + "A up 5. B down 3. " * 40 + QUESTION
    assert _cached(target, secret, key=0) == 0
    assert _cached(target, secret, key=0) > 100, "a key finds its own prompt"
    assert [_cached(target, secret, key=key) for key in (1, 2)] == [0, 0]


ASKED = {"problem": QUESTION, "alpha": 0.05, "n": 8, "stream": True, "on_infeasible": "full_budget"}


class Greed:
    """What the questions of one greedy key met: waits of those that started, and refusals."""

    def __init__(self) -> None:
        self.waits: list[tuple[float, float]] = []
        """When a question was sent, and the seconds until it started."""
        self.told: list[tuple[float, float]] = []
        """When a question was refused, and the seconds that it was told to wait."""

    def ask(self, target: Target, over: threading.Event) -> None:
        """Asks until it is over; comes back when told to."""
        headers = {"Authorization": f"Bearer {target.keys[0]}"}
        with httpx.Client(base_url=target.service.url, headers=headers, timeout=120) as client:
            while not over.is_set():
                sent = time.monotonic()
                with client.stream("POST", "/solve", json=ASKED) as response:
                    if response.status_code == 429:
                        seconds = int(response.headers["retry-after-ms"]) / 1000
                        self.told.append((sent, seconds))
                    else:
                        assert response.status_code == 200
                        for _ in response.iter_lines():
                            if sent:
                                self.waits.append((sent, time.monotonic() - sent))
                                sent = 0.0
                        continue
                over.wait(seconds)

    def ratios(self) -> list[float]:
        """What was told, over the wait of the question that joined the queue just before."""
        found = []
        for at, seconds in self.told:
            before = [(sent, wait) for sent, wait in self.waits if at - 2 < sent <= at]
            if before:
                found.append(seconds / max(before)[1])
        return found


@contextmanager
def greedy(target: Target, connections: int) -> Iterator[Greed]:
    """One key keeps so many connections busy."""
    greed, over = Greed(), threading.Event()
    threads = [threading.Thread(target=greed.ask, args=(target, over)) for _ in range(connections)]
    for thread in threads:
        thread.start()
    try:
        yield greed
    finally:
        over.set()
        for thread in threads:
            thread.join()


def test_a_greedy_key_leaves_a_modest_one_its_answers(tmp_path: Path) -> None:
    limits = ["--max-running", "4", "--max-waiting", "12"]
    with attacked(tmp_path, *limits) as target, greedy(target, 60) as greed:
        time.sleep(30)  # until the rate of the queue is known
        greed.told.clear()
        answers = []
        for _ in range(5):
            body = json.dumps(ASKED | {"stream": False}).encode()
            began = time.monotonic()
            answers.append((target.send(body, key=1).status_code, time.monotonic() - began))
        time.sleep(30)
        ratios = greed.ratios()
        waits = [wait for _, wait in greed.waits]
        sys.stdout.write(
            f"modest: {answers}; greedy: {len(waits)} started, {len(greed.told)} refused, waits of "
            f"{statistics.median(waits):.2f} s; told / true: {statistics.median(ratios):.2f} of "
            f"{len(ratios)}\n"
        )
        assert [status for status, _ in answers] == [200] * 5
        assert len(ratios) > 20
        assert 1 / 1.5 < statistics.median(ratios) < 1.5
