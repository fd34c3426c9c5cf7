"""The process that reads answers of large batches; `aggregation.readers` starts it as a script.

It reads one JSON array of texts per line, and replies with an array of their canonical forms. It
runs at the niceness in `argv[1]`, until standard input ends.
"""

from __future__ import annotations

import gc
import os
import sys

import msgspec

from rlcm_serve.answers.canonical.reading import canonical


def main() -> None:
    """Serves until standard input ends."""
    os.nice(int(sys.argv[1]))
    gc.set_threshold(200_000, 20, 20)  # forms hold no cycles
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not look like a reply
    for line in sys.stdin.buffer:
        texts = msgspec.json.decode(line, type=list[str])
        replies.write(msgspec.json.encode([canonical(text) for text in texts]) + b"\n")
        replies.flush()


if __name__ == "__main__":
    main()
