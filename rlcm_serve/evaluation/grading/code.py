"""Programs, which are right if they pass every test of their problem."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing

from rlcm_serve.evaluation.grading.base import KeyedGrader, Pair
from rlcm_serve.evaluation.grading.code_tests import CodeTests
from rlcm_serve.evaluation.grading.sandbox import Limits, Sandbox
from rlcm_serve.recording.concurrency import OnProgress, ignore_progress

WORKERS = 2
FENCE = "```"
_BLOCK = re.compile(r"^[ \t]*```[^\n`]*\n(.*?)^[ \t]*```", re.DOTALL | re.MULTILINE)
_END = re.compile(r"^[ \t]*```", re.MULTILINE)


class CodeGrader(KeyedGrader):
    """Runs programs in a `Sandbox` on the tests of LiveCodeBench, up to the first failed test.

    Two programs are equal only if their texts are, apart from blanks at the ends of lines. So
    programs that compute the same count as different, and majority votes are of little use.

    Args:
        limits: of each test.
        workers: programs that run at the same time.
    """

    opening = f"If I were to give the final answer now, the final answer would be\n{FENCE}python\n"
    answer_tokens = 2048

    def __init__(self, limits: Limits | None = None, workers: int = WORKERS) -> None:
        self._sandbox = Sandbox(limits)
        self._workers = workers
        used = self._sandbox.limits
        self.name = (
            f"tests 2, {used.cpu} s and {used.memory / 2**30:g} GiB, "
            f"Python {sys.version_info.major}.{sys.version_info.minor}"
        )

    def find(self, text: str) -> str | None:
        """The last fenced block."""
        blocks = _BLOCK.findall(text)
        return blocks[-1].strip("\n") or None if blocks else None

    def close(self, continuation: str) -> str | None:
        """The text before the fence that closes the block."""
        end = _END.search(continuation)
        return continuation[: end.start()].strip("\n") or None if end else None

    def check_reference(self, reference: str) -> None:
        """As `CodeTests.read`."""
        CodeTests.read(reference)

    def grade(self, pairs: Sequence[Pair], on_progress: OnProgress = ignore_progress) -> list[bool]:
        """As `Grader.grade`; repeated pairs are run once.

        Raises:
            RuntimeError: programs cannot be run here; the message says why.
        """
        verdict: dict[Pair, bool] = {}
        with ThreadPoolExecutor(self._workers, "code") as threads:
            running = {threads.submit(self.is_right, *pair): pair for pair in {*pairs}}
            try:
                for done, future in enumerate(as_completed(running), start=1):
                    verdict[running[future]] = future.result()
                    on_progress(done, len(running))
            except BaseException:
                threads.shutdown(wait=False, cancel_futures=True)
                raise
        return [verdict[pair] for pair in pairs]

    def key(self, answer: str) -> str:
        """The text without blanks at the ends of lines."""
        return "\n".join(line.rstrip() for line in answer.strip().splitlines())

    def is_right(self, answer: str, reference: str) -> bool:
        """Runs the program until its first failed test."""
        tests = CodeTests.read(reference)
        with closing(self._sandbox.run(answer, tests.inputs, tests.function)) as outcomes:
            return all(
                outcome.ended and tests.is_expected(at, outcome.output)
                for at, outcome in enumerate(outcomes)
            )
