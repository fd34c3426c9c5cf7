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
        with httpx.Client(
            base_url=target.service.url, headers=headers, timeout=120, verify=False
        ) as client:
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


def _towers(count: int) -> bytes:
    rows = [
        {"problem_id": f"p{at // 8}", "answer": f"k^{{9^{{9^{{9^{{{at}}}}}}}}}", "confidence": 0.5}
        for at in range(count)
    ]
    return json.dumps({"rollouts": rows}).encode()


def test_batches_of_towers_keep_nobody_else_out(tmp_path: Path) -> None:
    """Five bodies of 175 kB with one key; others still get their batches and their answers."""
    honest = [
        {"problem_id": "p", "answer": answer, "confidence": 0.5} for answer in ("1/2", "0.5", "3")
    ]
    body = json.dumps({"rollouts": honest}).encode()
    with attacked(tmp_path, "--aggregate-compare-s", "30") as target:
        found: list[httpx.Response] = []

        def send(tower: bytes) -> None:
            found.append(target.send(tower, "/aggregate", timeout=400))

        began = time.monotonic()
        threads = [threading.Thread(target=send, args=(_towers(2100),)) for _ in range(5)]
        for thread in threads:
            thread.start()
        time.sleep(5)
        others = []
        for _ in range(5):
            asked = time.monotonic()
            response = target.send(body, "/aggregate", key=1)
            others.append((response.status_code, time.monotonic() - asked))
            assert response.json()["summary"]["uncompared"] == 0
        question = json.dumps({"problem": QUESTION, "alpha": 0.1}).encode()
        asked = time.monotonic()
        assert target.send(question, key=2).status_code == 200
        answered = time.monotonic() - asked
        for thread in threads:
            thread.join()
        sys.stdout.write(
            f"honest batches: {others}; a question: {answered:.1f} s; the last of five bodies of "
            f"{len(_towers(2100))} bytes: {time.monotonic() - began:.0f} s\n"
        )
        assert [status for status, _ in others] == [200] * 5
        assert {response.status_code for response in found} <= {200, 504}
        for response in found:
            if response.status_code == 200:
                assert response.json()["summary"]["uncompared"] > 200
        assert answered < 20


def test_idle_batches_keep_nobody_else_out(target: Target) -> None:
    over = threading.Event()

    def silent() -> Iterator[bytes]:
        yield b'{"rollouts": ['
        over.wait(120)

    def send(found: list[int]) -> None:
        headers = {"Authorization": f"Bearer {target.keys[0]}", "Content-Type": "application/json"}
        url = f"{target.service.url}/aggregate"
        found.append(httpx.post(url, content=silent(), headers=headers, timeout=120).status_code)

    statuses: list[int] = []
    threads = [threading.Thread(target=send, args=(statuses,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    time.sleep(2)
    body = json.dumps({"rollouts": [{"problem_id": "p", "answer": "1", "confidence": 1}]}).encode()
    began = time.monotonic()
    assert target.send(body, "/aggregate", key=1).status_code == 200
    sys.stdout.write(f"beside four idle bodies: {time.monotonic() - began:.2f} s\n")
    began = time.monotonic()
    assert target.send(body, "/aggregate", key=0, timeout=100).status_code == 200
    assert time.monotonic() - began < 60, "their own key waits until they are given up"
    over.set()
    for thread in threads:
        thread.join()
