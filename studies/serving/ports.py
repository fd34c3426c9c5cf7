"""Ports of this machine for services that a study starts."""

from __future__ import annotations

import socket


def free_port() -> int:
    """A port of this machine at which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])
