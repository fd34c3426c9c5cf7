"""The limit on open files, in a process of its own."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import resource
from rlcm_serve.api.server import open_files
resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))
open_files.raise_limit()
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0], open_files.most_connections())
"""


def limits(soft: int, hard: int) -> list[int]:
    """The limit afterwards, and the connections for which there is room."""
    program = PROGRAM.format(soft=soft, hard=hard)
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return [int(word) for word in run.stdout.split()]


def test_the_limit_is_raised_and_leaves_files_for_other_purposes() -> None:
    assert limits(soft=1024, hard=4096) == [4096, 4096 - 256]
    assert limits(soft=100, hard=200) == [200, 100]
