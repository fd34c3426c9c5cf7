"""Rehearsals in this process: certificates that are judged on its answers without serving them."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from calibration import Certificate
from calibration.errors import CertificateError
from rlcm_serve.admission import Admission
from rlcm_serve.api.monitoring.comparisons import Comparisons, Place
from rlcm_serve.api.monitoring.replays import Given, Replays
from rlcm_serve.core import Question, Solution
from rlcm_serve.engine.contract import EngineIdentity
from rlcm_serve.errors import (
    CertificateMismatch,
    Conflict,
    DatabaseRefused,
    NotFound,
    NotReady,
    RlcmError,
)
from rlcm_serve.monitoring.running.live import LiveMonitoring
from rlcm_serve.solving.fingerprints import profiles_of
from rlcm_serve.solving.service import Service
from rlcm_serve.solving.shadow.background import stored
from rlcm_serve.solving.solver import Prepared
from rlcm_serve.store.certificates import CertificateStore
from rlcm_serve.store.rehearsals.stored import StoredRehearsals

if TYPE_CHECKING:
    from rlcm_serve.api.context import Context

FOLLOW_EVERY = 1.0
"""Seconds between two looks at what is rehearsed."""
_STORED_ID = re.compile(r"[0-9a-f]{12}")
_log = logging.getLogger(__name__)


class _Rehearsed(NamedTuple):
    certificate: Certificate
    profiles: tuple[str, ...]


class Rehearsals:
    """The rehearsals of this process: which certificates, and on which answers.

    Belongs to one event loop.

    Args:
        monitoring: stores the answers.
        certificates: has the rehearsed ones.
        service: has the engine and the grader.
        is_busy: whether callers' questions take every place.
    """

    def __init__(
        self,
        monitoring: LiveMonitoring,
        certificates: CertificateStore,
        service: Service,
        is_busy: Callable[[], bool],
    ) -> None:
        self.stored = StoredRehearsals(monitoring.database)
        self._monitoring, self._certificates = monitoring, certificates
        self._service = service
        self._rehearsed: tuple[_Rehearsed, ...] = ()
        self._known: list[str] = []
        self._comparisons = Comparisons(service, is_busy, self._keep)
        self._replays = Replays(monitoring, self.stored, self._comparisons)

    @property
    def running(self) -> tuple[str, ...]:
        """Ids of the certificates that are rehearsed in this process."""
        return tuple(one.certificate.id for one in self._rehearsed)

    async def start(self, id_: str, by: str | None) -> None:
        """Starts to rehearse a stored certificate, in all processes within seconds.

        Raises:
            NotFound: there is no such certificate.
            CertificateMismatch: it was fitted on another engine.
            Conflict: it is active.
            NotReady: no engine has started yet.
        """
        identities = self._service.guarantees.identities
        certificate = await self._monitoring.threads.read(self._certificates.get, id_)
        await self._start(certificate, identities, by)

    async def _start(
        self, certificate: Certificate, identities: Sequence[EngineIdentity], by: str | None
    ) -> None:
        self._require_rehearsable(certificate, identities)
        await self._monitoring.threads.write(self.stored.start, certificate.digest, by)
        await self._refresh()

    def _require_rehearsable(
        self, certificate: Certificate, identities: Sequence[EngineIdentity]
    ) -> None:
        profiles_of(certificate, identities)
        if certificate.digest in self._active():
            raise Conflict(
                f"certificate {certificate.id} is active, so the answers are its own: deactivate "
                "it first, or rehearse another one"
            )

    async def stop(self, id_: str) -> None:
        """Ends a rehearsal.

        Raises:
            NotFound: the certificate is not rehearsed.
        """
        threads = self._monitoring.threads
        certificate = await threads.read(self._certificates.get, id_)
        await threads.write(self.stored.stop, certificate.digest)
        await self._refresh()

    async def follow(self, first: str | None) -> NoReturn:
        """Rehearses what is rehearsed in the database, and `first` from the start on."""
        failure = ""
        while True:
            if first is not None:
                first = await self._start_first(first)
            try:
                await self._refresh()
                failure = ""
            except (NotReady, DatabaseRefused):
                pass
            except Exception as error:  # nobody waits for it  # noqa: BLE001
                if repr(error) != failure:
                    _log.exception("what is rehearsed is not followed, trying again: %s", error)
                failure = repr(error)
            await asyncio.sleep(FOLLOW_EVERY)

    async def _start_first(self, name: str) -> str | None:
        """Starts the certificate; its name again if the engine or the database is not ready."""
        try:
            await self._start_named(name)
        except (NotReady, DatabaseRefused):
            return name
        except (RlcmError, CertificateError, OSError) as error:
            _log.error("certificate %s is not rehearsed: %s", name, error)
        except Exception:  # nobody waits for it  # noqa: BLE001
            _log.exception("certificate %s is not rehearsed", name)
        return None

    async def _start_named(self, name: str) -> None:
        identities = self._service.guarantees.identities  # not ready: nothing is read or written
        certificate = await asyncio.to_thread(_of_file, Path(name))
        if certificate is None:
            return await self.start(name, None)
        self._require_rehearsable(certificate, identities)
        add = self._certificates.add
        await self._monitoring.threads.write(add, certificate, f"file {Path(name).name}")
        return await self._start(certificate, identities, None)

    async def _refresh(self) -> None:
        digests = await self._monitoring.threads.read(self.stored.running)
        if digests == self._known:
            return
        identities = self._service.guarantees.identities
        found = []
        for digest in digests:
            try:
                certificate = await self._monitoring.threads.read(
                    self._certificates.get, digest[:12]
                )
                found.append(_Rehearsed(certificate, profiles_of(certificate, identities)))
            except (NotFound, CertificateMismatch) as error:
                _log.warning("certificate %s is not rehearsed here: %s", digest[:12], error)
        self._rehearsed, self._known = tuple(found), digests
        _log.info("certificates rehearsed now: %s", ", ".join(self.running) or "none")

    def question(
        self, id_: str, key_id: str | None, question: Question
    ) -> AbstractContextManager[Place]:
        """A question that is asked, for as long as it is being answered, with its place."""
        draw = self._monitoring.draw
        is_drawn = draw.draws(id_, draw.share(key_id, question.kind))
        return self._comparisons.question(is_wanted=bool(self._rehearsed) and is_drawn)

    def given(self, place: Place, id_: str, prepared: Prepared, solution: Solution) -> None:
        """Takes an answer that is given; returns at once, and never fails.

        A certificate that became active just now, or from a file, is not replayed on it.
        """
        try:
            active = self._active() if self._rehearsed else set()
            certificates = tuple(
                one.certificate
                for one in self._rehearsed
                if solution.profile in one.profiles and one.certificate.digest not in active
            )
            if certificates:
                self._replays.put(Given(id_, certificates, prepared, solution, place))
        except Exception:  # the answer goes before  # noqa: BLE001
            _log.exception("the answer %s is not rehearsed", id_)

    def _active(self) -> set[str]:
        return {one.digest for one in self._service.guarantees.certificates}

    async def written(self) -> None:
        """Returns once what the answers before say is stored, or after a second."""
        await self._replays.written()

    async def close(self) -> None:
        """Stores what waits, and ends what is being compared."""
        await self._replays.close()
        await self._comparisons.close()

    async def _keep(self, id_: str, levels: Sequence[tuple[str, float, bool]]) -> None:
        async def write() -> bool:
            await self._monitoring.threads.write(self.stored.compared, id_, levels)
            return True

        await stored(write, f"the comparison of {id_}")


def place_for(
    context: Context, id_: str, key_id: str | None, question: Question
) -> AbstractContextManager[Place | None]:
    """The place of a question that is asked; None if nothing is rehearsed."""
    if context.rehearsals is None:
        return nullcontext()
    return context.rehearsals.question(id_, key_id, question)


def _of_file(file: Path) -> Certificate | None:
    """The certificate in a file; None if this is the id of a stored one."""
    if file.is_file():
        return Certificate.load(file)
    if _STORED_ID.fullmatch(str(file)) is None:
        raise NotFound(
            f"there is no file {str(file)!r}: give the file of a certificate, or the id of a "
            "stored one, as GET /certificates lists it"
        )
    return None


def open_rehearsals(
    monitoring: LiveMonitoring | None,
    certificates: CertificateStore,
    admission: Admission,
    service: Service,
) -> Rehearsals | None:
    """The rehearsals of this process; None if no answers are stored."""
    if monitoring is None:
        return None
    return Rehearsals(monitoring, certificates, service, lambda: admission.is_busy)
