"""Rehearsals in this process: certificates that are judged on its answers without serving them."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, NoReturn

from calibration import Certificate
from calibration.errors import CertificateError
from rlcm_serve.admission import Admission
from rlcm_serve.answers.forcing import answer_rollout
from rlcm_serve.answers.profile_graders import verdicts_of
from rlcm_serve.core import Question, Sample, Solution
from rlcm_serve.engine.contract import EngineIdentity
from rlcm_serve.errors import (
    CertificateMismatch,
    Conflict,
    DatabaseRefused,
    EngineDead,
    NotFound,
    NotReady,
    RlcmError,
)
from rlcm_serve.evidence.live_replay import Replayed, replayed
from rlcm_serve.solving.fingerprints import profiles_of
from rlcm_serve.solving.service import Service
from rlcm_serve.solving.shadow.full_budget import POLL, PRIORITY
from rlcm_serve.solving.solver import Prepared
from rlcm_serve.store.answers.live import LiveMonitoring
from rlcm_serve.store.certificates import CertificateStore
from rlcm_serve.store.rehearsals.stored import StoredRehearsals

FOLLOW_EVERY = 1.0
"""Seconds between two looks at what is rehearsed."""
_STORED_ID = re.compile(r"[0-9a-f]{12}")
MOST_WAITING = 50
"""Answers that wait to be compared; others are not compared, and count as unlabelled."""
_log = logging.getLogger(__name__)


class _Rehearsed(NamedTuple):
    certificate: Certificate
    profiles: tuple[str, ...]


class Rehearsals:
    """Replays rehearsed certificates on each answer of this process. Belongs to one event loop.

    An answer at an earlier stop is not known from readings. After audited answers it is forced
    in the background, at the prefix where the level would have stopped, so that labels tell what
    the level would have lost.

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
        self._service, self._is_busy = service, is_busy
        self._rehearsed: tuple[_Rehearsed, ...] = ()
        self._known: list[str] = []
        self._turn = asyncio.Semaphore(1)
        self._comparing: set[asyncio.Task[None]] = set()

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

    def replay(self, question: Question, solution: Solution) -> tuple[Replayed, ...]:
        """What the levels of all rehearsed certificates would have done with an answer.

        A certificate that became active just now, or from a file, is left out.
        """
        found: list[Replayed] = []
        active = self._active() if self._rehearsed else set()
        for one in self._rehearsed:
            if solution.profile in one.profiles and one.certificate.digest not in active:
                found += replayed(one.certificate, question, solution)
        return tuple(found)

    def _active(self) -> set[str]:
        return {one.digest for one in self._service.guarantees.certificates}

    def compare(
        self, id_: str, prepared: Prepared, solution: Solution, levels: Sequence[Replayed]
    ) -> None:
        """Gets the answers of levels that stop an audited answer earlier, in the background."""
        earlier = [one for one in levels if one.answers and one.agrees is None]
        if not (earlier and solution.audited) or len(self._comparing) >= MOST_WAITING:
            return
        comparing = asyncio.create_task(self._compare(id_, prepared, solution, earlier))
        self._comparing.add(comparing)
        comparing.add_done_callback(self._comparing.discard)

    async def _compare(
        self, id_: str, prepared: Prepared, solution: Solution, levels: Sequence[Replayed]
    ) -> None:
        sample = solution.samples[0]
        if not isinstance(sample, Sample):
            return
        verdicts = verdicts_of(prepared.reasoner.identity.profile, self._service.grader)
        generation = replace(prepared.generation, priority=PRIORITY)
        agrees: dict[int | None, bool] = {}
        for stop in sorted({one.stop or 0 for one in levels}):
            async with self._turn:
                while self._is_busy():  # nobody tells when callers stop waiting  # noqa: ASYNC110
                    await asyncio.sleep(POLL)
                cut = sample.rollout.cut(stop)
                try:
                    forced = await answer_rollout(
                        prepared.reasoner, prepared.prompt, cut, generation
                    )
                except EngineDead:
                    return
            answer = forced.answers[0]
            given, other = await verdicts.classes_async([solution.answer, answer])
            agrees[stop] = answer is not None and given == other
        await self._monitoring.writer.written()
        found_levels = [(one.certificate, one.alpha, agrees[one.stop]) for one in levels]
        try:
            await self._monitoring.threads.write(self.stored.compared, id_, found_levels)
        except DatabaseRefused as error:
            _log.warning("the comparison of %s was not stored: %s", id_, error)

    async def close(self) -> None:
        """Ends what is being compared."""
        for task in self._comparing:
            task.cancel()
        await asyncio.gather(*self._comparing, return_exceptions=True)


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
    return Rehearsals(
        monitoring,
        certificates,
        service,
        lambda: admission.waiting > 0 or admission.running >= admission.max_running,
    )
