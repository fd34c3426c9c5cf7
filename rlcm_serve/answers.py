"""Final answers: read from a model's text, compared by value, grouped into classes.

This is the one definition of answer equality. Serving, recording and evaluation all use it, and a
certificate names it (`GRADER`): whoever changes what counts as equal makes another grader.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from importlib.metadata import version
from itertools import combinations
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from calibration.voting import NO_ANSWER

GRADER = f"math-verify {version('math-verify')}"
"""Name and version of the grader, as in a certificate's fingerprint."""

_BOX = "\\boxed{"
_BOX_OR_BRACE = re.compile(r"\\boxed\s*\{|\\.|[{}]", re.DOTALL)
_INTEGER = re.compile(r"[+-]?[0-9]{1,300}")
_WORD = re.compile(r"[A-Za-z]{4,}")
_READY = "ready\n"
_WORKER = Path(__file__).with_name("answer_worker.py")

_log = logging.getLogger(__name__)


def last_boxed(text: str) -> str | None:
    r"""The content of the last balanced `\boxed{...}`; None if there is none, or nothing in it.

    Of nested boxes the inner one counts.
    """
    _, content = max(_boxes(text), default=(0, ""))
    return content.strip() or None


def close_boxed(text: str) -> str | None:
    r"""The answer of a forced continuation, whose text begins inside `\boxed{`.

    None if the box is empty or never closed: an answer that was cut off may read like another one.
    """
    for start, content in _boxes(_BOX + text):
        if start == len(_BOX):
            return content.strip() or None
    return None


def _boxes(text: str) -> Iterator[tuple[int, str]]:
    """Where each box's content starts, and that content, as the boxes close."""
    open_braces: list[int | None] = []  # a box's start; None for any other brace
    for found in _BOX_OR_BRACE.finditer(text):
        token = found.group()
        if token.startswith("\\boxed"):
            open_braces.append(found.end())
        elif token == "{":
            open_braces.append(None)
        elif token == "}" and open_braces:  # an escaped brace is content
            start = open_braces.pop()
            if start is not None:
                yield start, text[start : found.start()]


class AnswerGrader:
    """Compares answers by value with math-verify, in a process of its own.

    math-verify's own time limit needs the main thread, and some answers (`9^{9^{9^9}}`) would keep
    it busy for ever. So it runs in a worker with its limit off. A comparison that takes too long
    ends the worker and counts as not equal; the next one gets a new worker. Identical texts, plain
    integers and plain words need no worker at all. Results are remembered.

    May be used from any thread; the `_async` forms never block the event loop.

    Args:
        time_limit: seconds for one comparison.
        grouping_limit: seconds for one call of `classes`; pairs not compared by then are not equal.
    """

    def __init__(self, time_limit: float = 5.0, grouping_limit: float = 20.0) -> None:
        self.time_limit = time_limit
        self.grouping_limit = grouping_limit
        self._process: subprocess.Popen[str] | None = None
        self._ready = False
        self._lock = threading.Lock()
        self._compared = lru_cache(maxsize=100_000)(self._compare)

    def start(self) -> None:
        """Starts the worker without waiting for it; otherwise the first comparison starts it."""
        with self._lock:
            if self._process is None:
                self._process = self._spawn()

    def close(self) -> None:
        """Ends the worker; may be called twice."""
        if self._process is not None:
            self._process.kill()  # before the lock: it ends a comparison that holds it
        with self._lock:
            self._reap()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def equal(self, answer: str, other: str) -> bool:
        r"""Whether two answers have the same value, whichever comes first.

        `2/4` equals `\frac12` and `0.5`, and `7\text{ cm}` equals `7`. Not transitive: `50\%`
        equals `50` and `0.5`.
        """
        known = _equal_at_sight(answer, other)
        return self._compared(*sorted((answer, other))) if known is None else known

    def classes(self, answers: Sequence[str | None]) -> list[int]:
        """The class of each answer, numbered by first appearance; NO_ANSWER where there is none.

        Answers are in one class if a chain of equal ones joins them, so who is together does not
        depend on the order in which they came.
        """
        deadline = time.monotonic() + self.grouping_limit

        def equal_in_time(answer: str, other: str) -> bool:
            known = _equal_at_sight(answer, other)
            if known is None and time.monotonic() > deadline:
                _log.warning("grouping took over %g s: two answers stay apart", self.grouping_limit)
                return False
            return self.equal(answer, other) if known is None else known

        return _group(answers, equal_in_time)

    async def equal_async(self, answer: str, other: str) -> bool:
        """As `equal`, off the event loop."""
        known = _equal_at_sight(answer, other)
        return await asyncio.to_thread(self.equal, answer, other) if known is None else known

    async def classes_async(self, answers: Sequence[str | None]) -> list[int]:
        """As `classes`, off the event loop."""
        texts = {answer for answer in answers if answer is not None}
        if all(_equal_at_sight(*pair) is not None for pair in combinations(texts, 2)):
            return self.classes(answers)
        return await asyncio.to_thread(self.classes, answers)

    def _compare(self, answer: str, other: str) -> bool:
        """One comparison in the worker.

        Raises:
            RuntimeError: math-verify does not load.
        """
        with self._lock:
            if self._process is None:
                self._process = self._spawn()
            stdin, stdout = _pipes(self._process)
            if not self._ready:
                self._ready = stdout.readline() == _READY
                if not self._ready:
                    status = self._reap()
                    raise RuntimeError(f"the grader's worker ended ({status}) before it was ready")
            try:
                stdin.write(json.dumps([_tidy(answer), _tidy(other)]) + "\n")
                stdin.flush()
                reply = stdout.readline()
            except BrokenPipeError:
                reply = ""
            if not reply:
                status = self._reap()
        if reply:
            return bool(json.loads(reply))
        slow = status == -signal.SIGALRM
        why = f"over {self.time_limit:g} s" if slow else f"its worker ended with status {status}"
        _log.warning("comparing %.80r with %.80r: %s; taken as not equal", answer, other, why)
        return False

    def _spawn(self) -> subprocess.Popen[str]:
        # A script, not a module: what lies in the working directory cannot stand in for it (-P). A
        # session of its own: Ctrl-C is for the parent, and at its end the worker's input ends too.
        command = [sys.executable, "-P", "-W", "ignore", str(_WORKER), str(self.time_limit)]
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def _reap(self) -> int:
        """Ends the worker for good; its exit status."""
        process, self._process, self._ready = self._process, None, False
        if process is None:
            return 0
        process.kill()
        with suppress(BrokenPipeError), process:  # closes the pipes and waits
            pass
        return process.wait()


def _pipes(process: subprocess.Popen[str]) -> tuple[IO[str], IO[str]]:
    if process.stdin is None or process.stdout is None:
        raise RuntimeError("the grader's worker was started without pipes")
    return process.stdin, process.stdout


def _tidy(answer: str) -> str:
    # math-verify cannot read `7.`
    return answer.strip().rstrip(".,;").rstrip() or answer


def _equal_at_sight(answer: str, other: str) -> bool | None:
    """Whether two answers are equal, where that takes no mathematics; None where it does."""
    if _tidy(answer) == _tidy(other):
        return True
    value, other_value = _plain_value(_tidy(answer)), _plain_value(_tidy(other))
    return None if value is None or other_value is None else value == other_value


def _plain_value(answer: str) -> int | str | None:
    if _INTEGER.fullmatch(answer):
        return int(answer)
    if _WORD.fullmatch(answer):
        # math-verify reads a word as the product of its letters, in which their order is free.
        return answer.casefold()
    return None


def _group(answers: Sequence[str | None], equal: Callable[[str, str], bool]) -> list[int]:
    """Union-find over the distinct answers, sorted so that a time limit cuts the same pairs."""
    texts = sorted({answer for answer in answers if answer is not None})
    parent = {text: text for text in texts}

    def root(text: str) -> str:
        while parent[text] != text:
            text = parent[text]
        return text

    for text, other in combinations(texts, 2):
        if root(text) != root(other) and equal(text, other):
            parent[root(other)] = root(text)
    number: dict[str, int] = {}
    return [
        NO_ANSWER if answer is None else number.setdefault(root(answer), len(number))
        for answer in answers
    ]
