"""Programs, right if they pass every test of their problem."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing

from rlcm_serve.evaluation.grading.base import Grader, Pair, classes_by_key
from rlcm_serve.evaluation.grading.code_tests import CodeTests
from rlcm_serve.evaluation.grading.sandbox import Limits, Sandbox
from rlcm_serve.recording.concurrency import OnProgress, ignore_progress

WORKERS = 2
FENCE = "```"
_BLOCK = re.compile(r"^[ \t]*```[^\n`]*\n(.*?)^[ \t]*```", re.DOTALL | re.MULTILINE)
_END = re.compile(r"^[ \t]*```", re.MULTILINE)


class CodeGrader(Grader):
    """Runs programs in a `Sandbox` on the tests of LiveCodeBench; one that fails is enough.

    Programs are the same only if their texts are, but for white space at the ends of lines: two
    that do the same stay apart, so majority votes among programs are of little use.

    Args:
        limits: of each test.
        workers: programs at a time.
    """

    opening = f"If I were to give the final answer now, the final answer would be\n{FENCE}python\n"
    answer_tokens = 2048

    def __init__(self, limits: Limits | None = None, workers: int = WORKERS) -> None:
        self._sandbox = Sandbox(limits)
        self._workers = workers
        used = self._sandbox.limits
        self.name = (
            f"tests 1, {used.cpu} s and {used.memory / 2**30:g} GiB, "
            f"Python {sys.version_info.major}.{sys.version_info.minor}"
        )

    def find(self, text: str) -> str | None:
        """The last fenced block."""
        blocks = _BLOCK.findall(text)
        return blocks[-1].strip("\n") or None if blocks else None

    def close(self, continuation: str) -> str | None:
        """What stands before the fence that closes the block."""
        end = _END.search(continuation)
        return continuation[: end.start()].strip("\n") or None if end else None

    def check_reference(self, reference: str) -> None:
        """As `CodeTests.read`."""
        CodeTests.read(reference)

    def grade(self, pairs: Sequence[Pair], on_progress: OnProgress = ignore_progress) -> list[bool]:
        """As `Grader.grade`; pairs that repeat are run once.

        Raises:
            RuntimeError: programs cannot be run here, and why.
        """
        verdict: dict[Pair, bool] = {}
        with ThreadPoolExecutor(self._workers, "code") as threads:
            running = {threads.submit(self._is_right, *pair): pair for pair in {*pairs}}
            try:
                for done, future in enumerate(as_completed(running), start=1):
                    verdict[running[future]] = future.result()
                    on_progress(done, len(running))
            except BaseException:
                threads.shutdown(wait=False, cancel_futures=True)
                raise
        return [verdict[pair] for pair in pairs]

    def classes(self, answers: Sequence[str | None]) -> list[int]:
        """As `Grader.classes`, by text."""
        return classes_by_key([None if answer is None else _key(answer) for answer in answers])

    def _is_right(self, program: str, reference: str) -> bool:
        tests = CodeTests.read(reference)
        with closing(self._sandbox.run(program, tests.inputs, tests.function)) as outcomes:
            return all(
                outcome.ended and tests.is_expected(at, outcome.output)
                for at, outcome in enumerate(outcomes)
            )


def _key(program: str) -> str:
    return "\n".join(line.rstrip() for line in program.strip().splitlines())
