"""Files that are written whole or not at all."""

from pathlib import Path


def write_text(path: Path, text: str) -> None:
    """Writes UTF-8; whoever reads meanwhile, or after a kill, finds what was there before.

    Raises:
        OSError: it cannot be written; `path` is as it was.
    """
    partial = path.with_name(f"{path.name}.partial")
    partial.write_text(text, "utf-8")
    partial.replace(path)
