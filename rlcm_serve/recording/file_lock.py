"""One writer of a file at a time, among processes."""

from __future__ import annotations

import fcntl
from typing import IO, Any


def lock(file: IO[Any], held: Exception) -> None:
    """Keeps an open file to this process, and those that inherit it, until all have closed it.

    Raises:
        Exception: `held`, where another process has it.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise held from error
