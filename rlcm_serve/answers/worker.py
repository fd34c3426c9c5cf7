"""The process in which math-verify compares answers; `answers.grader` starts it as a script.

It prints `ready`. Then it reads one JSON pair of answers per line, and replies `true` or `false`. A
comparison that takes longer than the time limit in `argv[1]` (seconds) ends the process. It runs at
the niceness in `argv[2]`.
"""

from __future__ import annotations

import json
import logging
import os
import resource
import signal
import sys
from functools import lru_cache
from typing import Any

from math_verify import parse, verify

MEMORY_LIMIT = 4 * 2**30
"""Bytes of address space; an answer such as `2^{10^{12}}` would take all memory."""


@lru_cache(maxsize=4096)
def read(answer: str) -> list[Any]:
    """Parses an answer. Parsing is slow, and an answer is compared with many others."""
    expressions: list[Any] = parse(f"\\boxed{{{answer}}}", parsing_timeout=None)
    return expressions


def equal(answer: str, other: str) -> bool:
    """Whether two answers have the same value; tries both orders, as `verify` is not symmetric."""
    first, second = read(answer), read(other)
    return bool(
        verify(first, second, timeout_seconds=None) or verify(second, first, timeout_seconds=None)
    )


def main() -> None:
    """Serves comparisons until standard input ends."""
    time_limit = float(sys.argv[1])
    os.nice(int(sys.argv[2]))
    logging.disable()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    # The default action ends the process even while it is deep inside an arithmetic routine.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a library prints must not look like a reply
    equal("2/4", "0.5")  # the first comparison is slow
    replies.write("ready\n")
    for line in sys.stdin:
        answer, other = json.loads(line)
        signal.setitimer(signal.ITIMER_REAL, time_limit)
        verdict = equal(answer, other)
        signal.setitimer(signal.ITIMER_REAL, 0)
        replies.write(json.dumps(verdict) + "\n")


if __name__ == "__main__":
    main()
