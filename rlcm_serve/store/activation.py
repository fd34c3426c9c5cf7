"""Activates and deactivates certificates of running services that share a database."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import NoReturn

from sqlalchemy.orm import Session

from rlcm_serve.errors import CertificateMismatch, DatabaseRefused, NotReady
from rlcm_serve.solving.guarantees import Guarantees
from rlcm_serve.solving.service import Service
from rlcm_serve.store.certificates import CertificateStore

FOLLOW_EVERY = 0.5
"""Seconds between two looks at what other processes have activated and deactivated."""

_log = logging.getLogger(__name__)


async def activate(
    store: CertificateStore,
    service: Service,
    ids: Sequence[str],
    also: Callable[[Session], None] | None = None,
) -> None:
    """Activates certificates for all later questions, and for every later start: all or none.

    The arguments are those of `CertificateStore.activate`; what `also` raises is raised, too.

    Raises:
        NotReady: no engine has started yet, so there is nothing to compare the certificate with.
        NotFound: there is no such certificate.
        CertificateMismatch: it was fitted on another engine.
        SignatureRefused: a signature is demanded, and it has none of a trusted key.
        NotRestoring: a guarantee was withdrawn, and the certificate may not take its place.
    """
    async with store.changing:
        identities = service.guarantees.identities
        service.use(await store.threads.write(store.activate, ids, identities, also))


async def require_activable(store: CertificateStore, service: Service, id_: str) -> None:
    """Returns if a certificate could be activated now; raises as `activate` otherwise."""
    identities = service.guarantees.identities
    await store.threads.read(store.require_activable, id_, identities)


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


async def restore(store: CertificateStore, service: Service, id_: str, by: str | None) -> None:
    """Puts the policies of a withdrawn certificate back, without a guarantee.

    Args:
        store: of the certificates.
        service: uses the result.
        id_: of the certificate.
        by: id of the API key that does it, for the record.

    Raises:
        NotReady: no engine has started yet.
        NotFound: there is no such certificate.
        Conflict: it is not withdrawn, or its policies are back already.
    """
    async with store.changing:
        identities = service.guarantees.identities
        service.use(await store.threads.write(store.restore, id_, identities, by))


async def follow(store: CertificateStore, service: Service) -> NoReturn:
    """Serves what other processes activate and deactivate in the same database, within a second.

    While the database cannot be reached, the certificates stay as they are; readiness says so.
    """
    followed = None
    has_failed = False
    while True:
        try:
            decided = await store.threads.check(store.decided)
            if decided != followed and await _uses_current(store, service):
                followed = decided
            has_failed = False
        except (NotReady, DatabaseRefused):
            pass
        except CertificateMismatch as error:  # once for each change
            followed = decided
            _log.warning("what another process activated is not served here: %s", error)
        except Exception:  # else a withdrawal would never arrive here  # noqa: BLE001
            if not has_failed:
                _log.exception("what is active in the database cannot be read; trying again")
            has_failed = True
        await asyncio.sleep(FOLLOW_EVERY)


async def _uses_current(store: CertificateStore, service: Service) -> bool:
    """Uses what is active now. False while the engine restarts: it may have loaded what was."""
    async with store.changing:
        before = service.guarantees
        now = await store.threads.read(store.current, before.identities)
        if _served(now) == _served(before):
            return True
        service.use(now)
        if service.guarantees is not now:
            return False
    ids = ", ".join(one.id for one in now.certificates) or "none"
    _log.info("certificates or what speaks for them changed; active now: %s", ids)
    return True


def _served(guarantees: Guarantees) -> tuple[object, ...]:
    """What answers depend on, for one engine."""
    certificates = guarantees.certificates
    verified = [guarantees.verified(one.id) for one in certificates]
    return certificates, verified, guarantees.unsigned, guarantees.withdrawn
