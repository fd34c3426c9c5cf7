"""Files that are written completely or not at all."""

import errno
import os
from contextlib import suppress
from pathlib import Path


def write_text(path: Path, text: str, *, is_durable: bool = False) -> None:
    """Writes UTF-8. At any time, other readers see either the old content or the new one.

    Args:
        path: of the file.
        text: its content.
        is_durable: return once it is on disk. A crash of the machine leaves the old file or the
            new one then.

    Raises:
        OSError: the file cannot be written; the old file is unchanged.
    """
    path = replaceable(path)
    partial = path.with_name(f"{path.name}.partial")
    try:
        partial.write_text(text, "utf-8")
        if is_durable:
            flush(partial)  # before it gets its name: that may reach the disk first
        partial.replace(path)
        if is_durable:
            flush(path.parent)
    except OSError as error:
        with suppress(OSError):
            partial.unlink()
        if error.filename is not None:  # of the partial file
            error.filename = str(path)
        raise


def replaceable(path: Path) -> Path:
    """The file that a path names, itself no link, so that another file can take its place.

    Raises:
        OSError: what is there is no regular file: a folder, a device or a pipe would be lost.
    """
    there = path.resolve()
    if there.exists() and not there.is_file():
        raise OSError(errno.EINVAL, "this is not a regular file: give the path of one", str(path))
    return there


def flush(path: Path) -> None:
    """Returns once this file, or the names in this folder, are on disk.

    Raises:
        OSError: they cannot be written.
    """
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
