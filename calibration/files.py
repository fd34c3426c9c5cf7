"""Files that are written completely or not at all."""

from contextlib import suppress
from pathlib import Path


def write_text(path: Path, text: str) -> None:
    """Writes UTF-8. At any time, other readers see either the old content or the new one.

    Raises:
        OSError: the file cannot be written; the old file is unchanged.
    """
    partial = path.with_name(f"{path.name}.partial")
    try:
        partial.write_text(text, "utf-8")
        partial.replace(path)
    except OSError as error:
        with suppress(OSError):
            partial.unlink()
        if error.filename is not None:  # of the partial file
            error.filename = str(path)
        raise
