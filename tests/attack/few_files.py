"""A service with a scripted engine and a low limit on open files: `few_files.py FOLDER LIMIT`."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

from tests.service.listening import listening


def main() -> None:
    """Prints the address, and serves until standard input closes."""
    folder, limit = Path(sys.argv[1]), int(sys.argv[2])
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    with listening(folder) as (url, _):
        sys.stdout.write(f"{url}\n")
        sys.stdout.flush()
        sys.stdin.read()


if __name__ == "__main__":
    main()
