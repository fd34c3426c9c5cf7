"""Final answers: compares them by value, groups them into classes.

This is the only definition of answer equality. Serving, recording and evaluation all use it, and a
certificate names it (`GRADER`). Any change to what counts as equal is a different grader.
"""

from __future__ import annotations

import asyncio
import json
import logging
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import IO, Self

from calibration.policy.voting import NO_ANSWER
from rlcm_serve.answers.canonical.form import group
from rlcm_serve.answers.canonical.reading import (
    UNREAD,
    Forms,
    canonical,
    equal_if_canonical,
    form_of,
    latex,
)
from rlcm_serve.answers.grading.verdicts import Verdicts
from rlcm_serve.errors import WorkerFailed

GRADER = f"rlcm-math 5 (math-verify {version('math-verify')})"
"""Name and version of the grader, as in a certificate's fingerprint."""

BACKGROUND = 10
"""Niceness of the processes that compare answers beside questions: these go first."""

_READY = "ready\n"
_READY_LIMIT = 120.0
"""Seconds in which a worker must say that it is ready; it takes 2 on an idle machine."""
_GRACE = 10.0
"""Seconds beyond the time limit after which a worker that has not ended itself is killed."""
_ATTEMPTS = 2
_THREADS = 32
"""Comparisons that wait at one time without blocking the event loop."""
_FROM_OUTSIDE = (-signal.SIGKILL, -signal.SIGTERM)
"""How a worker ends if an operator or the kernel's out-of-memory killer ends it, or `_reap`."""
_WORKER = Path(__file__).with_name("worker.py")

_log = logging.getLogger(__name__)


class AnswerGrader(Verdicts):
    """Compares answers by their canonical forms, and with math-verify where there is none.

    Answers in canonical form need no worker, and neither do identical texts. The others (integrals,
    numbers too large to compute) are compared pair by pair. math-verify's own time limit works only
    in the main thread, and some answers (`9^{9^{9^9}}`) would run forever. So math-verify runs in a
    worker process, with its own limit off. A comparison that takes too long ends the worker and
    counts as not equal; the next one starts a new worker. A comparison whose worker was killed from
    outside, or hung, is repeated once with a new worker. Results are cached.

    May be used from any thread; the `_async` methods never block the event loop.

    Args:
        time_limit: seconds for one comparison.
        grouping_limit: seconds that one call of `classes` or `matches` may spend on comparisons,
            without waiting for other threads or for a worker to start. Pairs that were not compared
            by then count as not equal.
        niceness: how far the worker steps back for other processes, as for `os.nice`.
    """

    name = GRADER

    def __init__(
        self, time_limit: float = 5.0, grouping_limit: float = 20.0, niceness: int = 0
    ) -> None:
        self.time_limit = time_limit
        self.grouping_limit = grouping_limit
        self.undecided = 0
        """How often pairs counted as not equal because time ran out, in all calls."""
        self._niceness = niceness
        self._process: subprocess.Popen[str] | None = None
        self._ready = False
        self._abandoned = False
        self._closings = 0
        self._lock = threading.Lock()
        self._spent = _Spent()
        self._compared = lru_cache(maxsize=100_000)(self._compare)
        # Comparisons wait for each other, and what else uses asyncio's threads must not wait too.
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="compare-answers")

    def start(self) -> None:
        """Starts the worker without waiting; without this, the first comparison starts it."""
        with self._lock:
            if self._process is None:
                self._process = self._spawn()

    def close(self) -> None:
        """Ends the worker, and with it all comparisons; may be called twice."""
        self._closings += 1
        if self._process is not None:
            self._process.kill()  # before taking the lock: this ends a comparison that holds it
        with self._lock:
            self._reap()

    def abandon(self) -> None:
        """Ends the worker for good; a comparison in progress, and any later one, raises an error.

        Does not wait; `close` must still be called.
        """
        self._abandoned = True
        if (process := self._process) is not None:
            process.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def equal(self, answer: str, other: str) -> bool:
        r"""Whether two answers have the same value, whichever comes first.

        `2/4` equals `\frac12` and `0.5`, and `7\text{ cm}` equals `7`. Not transitive: `7` equals
        `7\text{ cm}` and `7\text{ m}`, which differ.
        """
        known = equal_if_canonical(answer, other)
        if known is None:
            known = self._compared(*sorted((answer, other)))
        if known is None:
            self.undecided += 1
        return bool(known)

    def classes(
        self,
        answers: Sequence[str | None],
        limit: float | None = None,
        forms: Forms = UNREAD,
    ) -> list[int]:
        """The class of each answer, numbered by first appearance; NO_ANSWER where there is none.

        All answers of a class are equal. An answer that equals members of two classes, such as `5`
        beside `5 cm` and `5 m`, is in a class of its own. So the classes do not depend on the order
        of the answers. `limit` replaces the grouping limit, `forms` are those known already.
        """
        present = sorted({answer for answer in answers if answer is not None})
        read = {answer: form_of(answer, forms) for answer in present}
        known = {answer: form for answer, form in read.items() if form is not None}
        classes = _by_class(list(known), group(list(known.values())))
        self._place(classes, read, self.grouping_limit if limit is None else limit)
        class_of = {answer: at for at, members in enumerate(classes) for answer in members}
        number: dict[int, int] = {}
        return [
            NO_ANSWER if answer is None else number.setdefault(class_of[answer], len(number))
            for answer in answers
        ]

    def _place(self, classes: list[list[str]], forms: Forms, limit: float) -> None:
        """Adds the answers without a canonical form to the one class that each equals."""
        end = self._spent.seconds + limit
        late = False
        # Sorted, so that the time limit drops the same pairs whatever the order.
        for answer in sorted(answer for answer, form in forms.items() if form is None):
            equals = []
            for members in classes:
                late = late or (
                    self._spent.seconds >= end and self._is_open(answer, members, forms)
                )
                if late:
                    break
                if all(self.equal(answer, member) for member in members):
                    equals.append(members)
            if len(equals) == 1 and not late:
                equals[0].append(answer)
            else:
                classes.append([answer])
        if late:
            _log.warning("grouping took over %g s: the remaining answers count as different", limit)
            self.undecided += 1

    def _is_open(self, answer: str, members: Sequence[str], forms: Forms) -> bool:
        return any(equal_if_canonical(answer, member, forms) is None for member in members)

    def matches(
        self,
        answers: Sequence[str],
        reference: str,
        limit: float | None = None,
        forms: Forms = UNREAD,
    ) -> list[bool]:
        """Whether each answer equals the reference; False if not compared in time.

        `limit` replaces the grouping limit, `forms` are those known already.
        """
        end = self._spent.seconds + (self.grouping_limit if limit is None else limit)
        verdicts = []
        for answer in answers:
            known = equal_if_canonical(answer, reference, forms)
            in_time = known is not None or self._spent.seconds < end
            self.undecided += not in_time
            verdicts.append(in_time and (self.equal(answer, reference) if known is None else known))
        return verdicts

    async def equal_async(self, answer: str, other: str) -> bool:
        """Does what `equal` does, outside the event loop."""
        known = equal_if_canonical(answer, other)
        if known is not None:
            return known
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self.equal, answer, other)

    async def classes_async(self, answers: Sequence[str | None]) -> list[int]:
        """Does what `classes` does, outside the event loop."""
        distinct = set(answers) - {None}
        if len(distinct) <= 1 or all(answer is None or canonical(answer) for answer in distinct):
            return self.classes(answers)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self.classes, answers)

    def _compare(self, answer: str, other: str) -> bool | None:
        """Compares two answers in the worker, or in a second one if the first is lost.

        None means that they took too long, or too much memory.

        Raises:
            WorkerFailed: two workers were killed or hung, or ended before they were ready, or the
                grader was closed.
            RuntimeError: the grader was abandoned.
        """
        closings, lost = self._closings, "was closed"
        with self._lock:
            for _ in range(_ATTEMPTS):
                if self._closings > closings:  # also while this comparison waited for its turn
                    break
                try:
                    return self._ask(answer, other)
                except _WorkerLost as error:
                    self._check()
                    lost = str(error)
                    _log.warning("the process that compares answers %s", lost)
        raise WorkerFailed(f"the process that compares answers {lost}: send the request again")

    def _ask(self, answer: str, other: str) -> bool | None:
        if self._process is None:
            self._process = self._spawn()
        self._check()  # after the start: `abandon` may have found no worker to end
        stdin, stdout = _pipes(self._process)
        if not self._ready:
            if _line(stdout, _READY_LIMIT) != _READY:
                raise _WorkerLost(f"ended with status {self._reap()} before it was ready")
            self._ready = True
        with self._spent, suppress(BrokenPipeError):
            stdin.write(json.dumps([latex(answer), latex(other)]) + "\n")
            stdin.flush()
            if reply := _line(stdout, self.time_limit + _GRACE):
                return bool(json.loads(reply))
        status = self._reap()
        self._check()
        if status in _FROM_OUTSIDE:
            raise _WorkerLost("was killed, or did not reply")
        slow = status == -signal.SIGALRM
        why = f"took over {self.time_limit:g} s" if slow else f"ended the worker, status {status}"
        _log.warning("comparing %.80r with %.80r %s: counted as not equal", answer, other, why)
        return None

    def _check(self) -> None:
        if self._abandoned:
            raise RuntimeError("the grader was abandoned, so its verdicts are not needed any more")

    def _spawn(self) -> subprocess.Popen[str]:
        # A script and -P: a file in the working directory cannot replace a module. A new session:
        # Ctrl-C reaches only the parent, and when the parent ends, the worker's input ends too.
        arguments = [str(self.time_limit), str(self._niceness)]
        command = [sys.executable, "-P", "-W", "ignore", str(_WORKER), *arguments]
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def _reap(self) -> int:
        """Ends the worker, and returns its exit status."""
        process, self._process, self._ready = self._process, None, False
        if process is None:
            return 0
        process.kill()
        with suppress(BrokenPipeError), process:  # closes the pipes and waits
            pass
        return process.wait()


class _Spent(threading.local):
    """Seconds that this thread has been inside, as a context manager."""

    seconds = 0.0
    _began = 0.0

    def __enter__(self) -> None:
        self._began = time.monotonic()

    def __exit__(self, *_: object) -> None:
        self.seconds += time.monotonic() - self._began


class _WorkerLost(Exception):
    """The worker has ended, and the comparison is not the reason."""


def _line(stdout: IO[str], seconds: float) -> str:
    """The next line; empty at the end, and if none comes in time."""
    poll = select.poll()
    poll.register(stdout, select.POLLIN)
    return stdout.readline() if poll.poll(1000 * seconds) else ""


def _pipes(process: subprocess.Popen[str]) -> tuple[IO[str], IO[str]]:
    if process.stdin is None or process.stdout is None:
        raise RuntimeError("the grader's worker was started without pipes")
    return process.stdin, process.stdout


def _by_class(answers: Sequence[str], classes: Sequence[int]) -> list[list[str]]:
    members: dict[int, list[str]] = {}
    for answer, number in zip(answers, classes, strict=True):
        members.setdefault(number, []).append(answer)
    return list(members.values())
