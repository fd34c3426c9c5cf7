"""Names and ports, as `Host` and `Origin` headers have them."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Self
from urllib.parse import urlsplit

_HOST = re.compile(r"(?P<name>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.-]+)(:(?P<port>[0-9]{0,5}))?")
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Authority:
    """A name in lower case, without the dot of a full name, or an address without brackets.

    `port` None means that none is given.
    """

    name: str
    port: int | None = None

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """The value of a `Host` header; None if it is invalid."""
        found = _HOST.fullmatch(text.strip())
        if found is None:
            return None
        name, port = found["name"].lower(), found["port"]
        if name.startswith("["):
            try:
                name = str(ipaddress.IPv6Address(name[1:-1]))
            except ValueError:
                return None
        return cls(name.removesuffix("."), int(port) if port else None)

    @property
    def is_loopback(self) -> bool:
        """Whether this is `localhost` or an address of this machine alone."""
        if self.name == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.name).is_loopback
        except ValueError:
            return False


def is_same_origin(origin: str, host: str) -> bool:
    """Whether a page of `origin` was loaded from the service that a request calls `host`.

    The scheme is not compared: behind a proxy, the page has https and the service does not. A port
    that one of them leaves out is the default of the page's scheme.
    """
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    default = _PORTS.get(parts.scheme)
    page, service = Authority.parse(parts.netloc), Authority.parse(host)
    if default is None or page is None or service is None:
        return False
    return (page.name, page.port or default) == (service.name, service.port or default)
