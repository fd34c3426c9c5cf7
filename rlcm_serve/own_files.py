"""Files of one process alone: its log of vLLM, and its folder for temporary files.

Several processes may be given the same places. A lock of the kernel (flock) tells which files a
running process owns. It ends with the process, however that dies.
"""

from __future__ import annotations

import atexit
import errno
import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import NamedTuple

_SCRATCH = "rlcm-own-"
_logs: dict[Path, OwnLog] = {}
_folders: dict[Path, Path] = {}


class OwnLog(NamedTuple):
    """A file that this process writes, and no other."""

    path: Path
    descriptor: int


def own_log(log: Path) -> OwnLog:
    """The log that this process writes until it ends.

    It is `log`, or the first of `NAME-2`, `NAME-3` and so on that no other process writes. What an
    earlier process left in it is kept beside it, with the suffix `.1`.
    """
    ours = _logs.get(log)
    if ours is None or not _is_in_place(ours):
        if ours is not None:
            os.close(ours.descriptor)
        ours = _logs[log] = _open_log(log)
        keep_last(ours)
    return ours


def keep_last(log: OwnLog) -> None:
    """Empties a log after copying it to `.1`: it may say why vLLM died."""
    if log.path.is_file() and log.path.stat().st_size:
        shutil.copyfile(log.path, log.path.with_name(f"{log.path.name}.1"))
        os.truncate(log.descriptor, 0)


def scratch() -> Path:
    """The folder of this process for temporary files, removed when it ends.

    What processes left that were killed is removed when another one gets its folder.
    """
    parent = Path(tempfile.gettempdir())
    if parent not in _folders or not _folders[parent].is_dir():
        _remove_left(parent)
        _folders[parent] = _new_folder(parent)
    return _folders[parent]


def _open_log(log: Path) -> OwnLog:
    log.parent.mkdir(parents=True, exist_ok=True)
    for number in count(1):
        path = log if number == 1 else log.with_name(f"{log.stem}-{number}{log.suffix}")
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        if not path.is_file() or _lock(opened):  # everybody may write /dev/null
            return OwnLog(path, opened)
        os.close(opened)
    raise AssertionError("counting ended")


def _lock(opened: int) -> bool:
    """Locks an open file. False if another process holds its lock."""
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.EOPNOTSUPP):  # the file system has no locks
            raise
    return True


def _is_in_place(log: OwnLog) -> bool:
    """Whether the open file is still the one at its path."""
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(log.descriptor), log.path.stat())
    return False


def _new_folder(parent: Path) -> Path:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_SCRATCH, dir=parent))
        with suppress(FileNotFoundError):
            # The descriptor, and with it the lock, stays open as long as the process runs. It also
            # keeps systemd-tmpfiles from removing what is old.
            fcntl.flock(os.open(folder, os.O_RDONLY), fcntl.LOCK_EX)
            if folder.is_dir():  # else another process removed it before it was locked
                atexit.register(shutil.rmtree, folder, ignore_errors=True)
                return folder


def _remove_left(parent: Path) -> None:
    for folder in parent.glob(f"{_SCRATCH}*"):
        with suppress(OSError):  # it is another user's, or has just been removed
            opened = os.open(folder, os.O_RDONLY)
            try:
                if _lock(opened):
                    shutil.rmtree(folder)
            finally:
                os.close(opened)
