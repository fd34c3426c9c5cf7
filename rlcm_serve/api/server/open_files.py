"""The limit on open files, of which every connection is one."""

from __future__ import annotations

import resource

MOST_FILES = 2**16
"""The highest limit that the service asks for."""
RESERVED = 256
"""Open files that are kept free for the database, the engine and uploads."""


def raise_limit() -> None:
    """Raises the process's limit to the highest that the system allows it.

    Many systems start programs with 1,024. Beyond the limit, libuv closes new connections.
    """
    now, highest = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_FILES if highest == resource.RLIM_INFINITY else min(highest, MOST_FILES)
    if now != resource.RLIM_INFINITY and now < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, highest))


def most_connections() -> int:
    """Number of connections for which there is room."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = MOST_FILES if limit == resource.RLIM_INFINITY else limit
    return limit - min(RESERVED, limit // 2)
