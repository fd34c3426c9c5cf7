"""Programs, which are right if they pass every test of their problem."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing

from rlcm_serve.answers.extraction.code import CodeExtractor
from rlcm_serve.answers.grading.base import KeyedGrader, Pair
from rlcm_serve.evaluation.grading.code_tests import CodeTests
from rlcm_serve.evaluation.grading.sandbox import Limits, Sandbox
from rlcm_serve.events import OnProgress, ignore_progress

WORKERS = 2


class CodeGrader(KeyedGrader):
    """Runs programs in a `Sandbox` on the tests of LiveCodeBench, up to the first failed test.

    Two programs are equal only if their texts are, apart from blanks at the ends of lines. So
    programs that compute the same count as different, and majority votes are of little use.

    Args:
        limits: of each test.
        workers: programs that run at the same time.
    """

    extractor = CodeExtractor()

    def __init__(self, limits: Limits | None = None, workers: int = WORKERS) -> None:
        self._sandbox = Sandbox(limits)
        self._workers = workers
        used = self._sandbox.limits
        self.name = (
            f"tests 2, {used.cpu} s and {used.memory / 2**30:g} GiB, "
            f"Python {sys.version_info.major}.{sys.version_info.minor}"
        )

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
