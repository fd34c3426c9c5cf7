"""Several files that belong together, replaced together."""

from collections.abc import Iterable, Mapping
from pathlib import Path


def replace_files(out: Path, files: Mapping[str, bytes], former: Iterable[str] = ()) -> None:
    """Write all files under temporary names, then rename them in order, the last one last.

    Args:
        out: their folder; created if it does not exist.
        files: contents by path within the folder.
        former: files of an earlier run; removed unless written again.
    """
    partial = {name: out / f"{name}.partial" for name in files}
    try:
        for name, content in files.items():
            partial[name].parent.mkdir(parents=True, exist_ok=True)
            partial[name].write_bytes(content)
        for name, path in partial.items():
            path.replace(out / name)
    finally:
        for path in partial.values():
            path.unlink(missing_ok=True)
    for name in set(former) - set(files):
        (out / name).unlink(missing_ok=True)
