"""The processes of a test: what they use, and their end.

`sandbox_worker` imports it as a script's neighbour, so it needs nothing but the standard library.
"""

from __future__ import annotations

import os
import resource
import signal
import stat
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

BLOCK = 4096  # bytes; what the smallest file takes


def is_within(job: dict[str, Any]) -> bool:
    """Whether all processes of the test together are within the limits of memory, number, disk."""
    limits, pids = job["limits"], others(job["namespaces"])
    used = sum(pages(pid)[1] for pid in pids) * resource.getpagesize()
    if used > limits["memory"] or len(pids) > limits["processes"] + 1:
        return False
    on_disk = 0 if job["namespaces"] else disk_used(job["folder"], pids)
    return bool(on_disk <= limits["disk"])


def pages(pid: int) -> tuple[int, int]:
    """Pages of a process: all, and resident ones; none once it has ended."""
    try:
        total, resident, *_ = map(int, Path(f"/proc/{pid}/statm").read_text().split())
    except OSError:
        return 0, 0
    return total, resident


def disk_used(folder: str, pids: list[int]) -> int:
    """Bytes of what is in a folder, and of the deleted files that these processes have open."""
    files: dict[tuple[int, int], int] = {}
    for path in Path(folder).rglob("*"):
        with suppress(OSError):  # it was deleted meanwhile
            found = path.lstat()
            files[found.st_dev, found.st_ino] = found.st_blocks * 512 + BLOCK
    for pid in pids:
        try:
            for path in Path(f"/proc/{pid}/fd").iterdir():
                opened = path.stat()
                if stat.S_ISREG(opened.st_mode) and not opened.st_nlink:
                    files[opened.st_dev, opened.st_ino] = opened.st_blocks * 512 + BLOCK
        except PermissionError:
            if pages(pid)[0]:  # it has not ended: it runs a file that nobody may read, to hide
                return sys.maxsize
        except OSError:  # it ended meanwhile
            continue
    return sum(files.values())


def kill_all(child: int, namespaces: bool) -> int:
    """Kills and reaps every process of the test; the exit code of `child`."""
    code = 1
    while True:
        with suppress(ProcessLookupError):
            if namespaces:
                os.kill(-1, signal.SIGKILL)  # all processes of the namespace except the first
            else:
                for pid in others(namespaces=False):
                    os.kill(pid, signal.SIGKILL)
        try:
            pid, status = os.waitpid(-1, 0)
        except ChildProcessError:
            return code
        if pid == child:
            code = os.waitstatus_to_exitcode(status)


def others(namespaces: bool) -> list[int]:
    """The processes of the test: all in the namespace except the first, or all descendants."""
    if namespaces:
        try:
            names = [path.name for path in Path("/proc").iterdir()]
            return [int(name) for name in names if name.isdecimal() and name != "1"]
        except OSError:
            return []
    found, unseen = [], [os.getpid()]
    while unseen:
        parent = unseen.pop()
        with suppress(OSError):
            for task in Path(f"/proc/{parent}/task").iterdir():
                unseen += map(int, (task / "children").read_text().split())
        found.append(parent)
    return found[1:]


def processes_of(user: int) -> int:
    """The number of threads of this user."""
    count = 0
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if folder.stat().st_uid == user:
                count += len(list((folder / "task").iterdir()))
    return count
