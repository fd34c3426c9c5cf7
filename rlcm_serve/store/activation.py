"""Changing which certificates a running service answers under."""

from __future__ import annotations

import asyncio

from rlcm_serve.solving.service import Service
from rlcm_serve.store.certificates import CertificateStore


async def activate(store: CertificateStore, service: Service, id_: str) -> None:
    """Serves under a certificate from the next question on, and after every start.

    Raises:
        NotReady: no engine has started yet, so nothing says whether it fits.
        NotFound: there is no such certificate.
        CertificateMismatch: it was fitted on something else than this engine.
    """
    async with store.changing:
        identity = service.guarantees.identity
        service.use(await asyncio.to_thread(store.activate, id_, identity))


async def deactivate(store: CertificateStore, service: Service, id_: str) -> None:
    """Does not serve under a certificate any more.

    Raises:
        NotReady: no engine has started yet.
        NotFound: there is no such certificate.
        Conflict: it is not in force.
        CertificateMismatch: two files would take its place.
    """
    async with store.changing:
        identity = service.guarantees.identity
        service.use(await asyncio.to_thread(store.deactivate, id_, identity))
