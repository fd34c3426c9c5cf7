"""Activates and deactivates certificates of a running service."""

from __future__ import annotations

from rlcm_serve.solving.service import Service
from rlcm_serve.store.certificates import CertificateStore


async def activate(store: CertificateStore, service: Service, id_: str) -> None:
    """Activates a certificate for all later questions, and for every later start.

    Raises:
        NotReady: no engine has started yet, so there is nothing to compare the certificate with.
        NotFound: there is no such certificate.
        CertificateMismatch: it was fitted on another engine.
        SignatureRefused: a signature is demanded, and it has none of a trusted key.
    """
    async with store.changing:
        identities = service.guarantees.identities
        service.use(await store.threads.write(store.activate, id_, identities))


async def deactivate(store: CertificateStore, service: Service, id_: str) -> None:
    """Deactivates a certificate.

    Raises:
        NotReady: no engine has started yet.
        NotFound: there is no such certificate.
        Conflict: it is not active.
        CertificateMismatch: two files would take its place.
    """
    async with store.changing:
        identities = service.guarantees.identities
        service.use(await store.threads.write(store.deactivate, id_, identities))
