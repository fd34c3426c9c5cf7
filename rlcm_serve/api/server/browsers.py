"""Refuses requests that a web page of another site makes its visitor's browser send.

A browser sends some requests for any page, without asking the service first. It also lets a page
read everything from a host name that the page's owner controls, even once that name stands for
127.0.0.1 (DNS rebinding). On a service without keys, both would act with the visitor's rights.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from rlcm_serve.api.access import METRICS_PATH
from rlcm_serve.api.error_responses import response_of
from rlcm_serve.api.server.hosts import Authority, is_same_origin
from rlcm_serve.errors import CrossOrigin, RlcmError, UnknownHost

if TYPE_CHECKING:
    from rlcm_serve.settings import Settings

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods whose routes change nothing."""
PROBE_PATHS = frozenset({"/health", "/readyz", METRICS_PATH})
"""Paths that monitoring calls by an address that nobody configured."""


class BrowserMiddleware:
    """Checks `Host` of all requests, and `Sec-Fetch-Site` and `Origin` of those with an effect.

    Programs send neither `Sec-Fetch-Site` nor `Origin`, and a page cannot leave them out.

    Args:
        app: what is behind it.
        settings: the service's settings.
    """

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._origins = frozenset(settings.cors_origins)
        self._checks_host = bool(settings.allowed_hosts) or not settings.keys_needed
        named = (_authority(name) for name in (settings.host, *settings.allowed_hosts))
        self._names = frozenset(found.name for found in named if found is not None)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] == "http":
            error = self._fault(scope["method"], scope["path"], Headers(scope=scope))
            if error is not None:
                await response_of(scope["path"], error)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _fault(self, method: str, path: str, headers: Headers) -> RlcmError | None:
        host = headers.get("host", "")
        if path not in PROBE_PATHS and not self._is_known(host):
            return UnknownHost(host)
        if method not in SAFE_METHODS and self._is_foreign(headers, host):
            return CrossOrigin(headers.get("origin", ""))
        return None

    def _is_known(self, host: str) -> bool:
        """Whether the service has this name. A proxy's `X-Forwarded-Host` does not count."""
        if not self._checks_host:
            return True
        found = Authority.parse(host)
        return found is not None and (found.is_loopback or found.name in self._names)

    def _is_foreign(self, headers: Headers, host: str) -> bool:
        """Whether a page of another origin sent the request.

        `Sec-Fetch-Site` is exact, but browsers send it only to https and to loopback. The order is
        that of CrossOriginProtection in Go's net/http.
        """
        origins = headers.getlist("origin")
        if origins and ("*" in self._origins or self._origins.issuperset(origins)):
            return False
        sites = headers.getlist("sec-fetch-site")
        if sites:
            return not {"same-origin", "none"}.issuperset(sites)
        return not all(is_same_origin(origin, host) for origin in origins)


def _authority(name: str) -> Authority | None:
    """A name or an address of the settings; IPv6 addresses have no brackets there."""
    return Authority.parse(f"[{name}]" if ":" in name and "[" not in name else name)
