"""The engine with its certificates and its grader: start, stop, and restart after a death."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from rlcm_serve.answers.grader import AnswerGrader
from rlcm_serve.core import NoGuarantee, Solution
from rlcm_serve.engine.contract import EngineIdentity, ReasoningEngine
from rlcm_serve.engine.restart import RestartPolicy
from rlcm_serve.errors import CertificateMismatch, DatabaseRefused, EngineDead, NotReady
from rlcm_serve.solving.guarantees import Guarantees
from rlcm_serve.solving.solver import Solver

LoadGuarantees = Callable[[Sequence[EngineIdentity], Sequence[Path]], Guarantees]
"""Loads the guarantees of an engine and its profiles from certificate files and from the store."""

READY_POLL = 0.1
"""Seconds between two looks at whether the engine is back."""

_log = logging.getLogger(__name__)


def _ignore_stage(stage: str) -> None:
    pass


class Service:
    """Starts the engine, provides the solver, and restarts the engine when it dies or hangs.

    If the engine dies or hangs, the questions in progress fail. `restart_policy` says when it is
    restarted. Until then there is no solver.

    Args:
        engine: an engine that has not been started.
        certificates: certificate files; without any, no answer comes with a guarantee.
        on_stage: called with every stage of a start.
        load: loads the guarantees after every start of the engine.
        restart_policy: how to notice a death or a hang, and when to restart.
    """

    def __init__(
        self,
        engine: ReasoningEngine,
        certificates: Sequence[Path] = (),
        on_stage: Callable[[str], None] = _ignore_stage,
        *,
        load: LoadGuarantees = Guarantees.load,
        restart_policy: RestartPolicy | None = None,
    ) -> None:
        self.engine = engine
        self.grader = AnswerGrader()
        self.stage = "waiting to start"
        self.restarts = 0
        """How often the engine was restarted successfully."""
        self.hangs = 0
        """How often the engine hung and was killed."""
        self.certificate_files = tuple(certificates)
        """The certificate files with which it was started."""
        self._on_stage = on_stage
        self._load = load
        self._restart_policy = restart_policy or RestartPolicy()
        self._supervisor: asyncio.Task[None] | None = None
        self._guarantees: Guarantees | None = None
        self._solver: Solver | None = None
        self._prefix = ""
        self._failed = False

    async def start(self) -> None:
        """Starts the engine and loads the certificates. From then on, a dead engine is restarted.

        Raises:
            ModelRefused: the engine cannot control the model.
            UnsupportedVllm: the installed vLLM cannot be used.
            EngineDead: the engine could not start.
            CertificateMismatch: a certificate was fitted on another engine.
            CertificateError: a certificate is damaged.
        """
        try:
            self.enter("starting the engine")
            self.grader.start()
            await self.engine.start()
            await self._take_certificates()
        except Exception as error:
            self._failed = True
            self.enter(f"failed to start: {_told(error)}")
            _log.error("the service failed to start: %s", error)
            raise
        self._supervisor = asyncio.create_task(self._supervise())

    async def _take_certificates(self) -> None:
        self.enter("checking the certificates")
        self._guarantees = await asyncio.to_thread(
            self._load, self.engine.identities, self.certificate_files
        )
        _warn_of(self._guarantees)
        self._solver = Solver(self.engine, self._guarantees, self.grader)
        self._prefix = ""
        self.enter("ready")

    async def _take_certificates_once_there(self) -> None:
        """Waits for the database while the engine lives: the engine is not what failed.

        Raises:
            EngineDead: it died meanwhile.
        """
        failed = 0
        while True:
            try:
                await self._take_certificates()
            except DatabaseRefused as error:
                _log.error("the engine runs, and waits for the database: %s", error)
                self.enter(f"waiting for the database: {_told(error)}")
            else:
                return
            await self._restart_policy.sleep(self._restart_policy.wait(failed))
            await self.engine.check_health()
            failed += 1

    async def _supervise(self) -> None:
        """Restarts the engine whenever it dies or hangs, until the service stops or gives up."""
        failed = 0
        trouble = "it died soon after each start"
        while True:
            if self._solver is not None:
                death = await self._restart_policy.until_dead(self.engine)
                self._solver = None
                self.hangs += death.hung
                self.stage = "the engine hung" if death.hung else "the engine died"
                _log.error("%s: %s", self.stage, await self._cause_of_death())
                failed = 0 if death.lasted else failed
            if failed == self._restart_policy.attempts:
                break
            trouble = await self._start_again(failed) or trouble
            # Counts as a failure until the engine has lasted: it may always die soon after a start.
            failed += 1
        self._failed = True
        self.engine.stop()
        self._prefix = ""
        self.enter(
            f"the engine is given up after {failed} attempts in a row ({trouble})"
            if self._restart_policy.attempts
            else f"{self.stage}, and is not restarted here"
        )
        _log.error("%s: no question can be answered until the service is restarted", self.stage)

    async def _cause_of_death(self) -> str:
        try:
            return await self.engine.cause_of_death()
        except Exception as error:  # it is started again all the same  # noqa: BLE001
            return f"nobody knows why: {error!r}"

    async def _start_again(self, failed: int) -> str | None:
        """Makes one attempt; returns what callers are told of its error if it failed."""
        wait = self._restart_policy.wait(failed)
        attempt = f"attempt {failed + 1} of {self._restart_policy.attempts}"
        self._prefix = "restarting the engine: "
        self.enter(f"{attempt} begins in {wait:.1f} s")
        await self._restart_policy.sleep(wait)
        try:
            await self.engine.start()
            await self._take_certificates_once_there()
        except Exception as error:  # noqa: BLE001
            _log.error("%s to restart the engine failed: %s", attempt, error)
            return _told(error)
        self.restarts += 1
        return None

    def stop(self) -> None:
        """Stops engine and grader; may be called twice, and during `start`."""
        if self._supervisor is not None:
            self._supervisor.cancel()
        self._solver = None
        self._prefix = ""
        self.enter("stopped")
        self.engine.stop()
        self.grader.close()

    @property
    def solver(self) -> Solver:
        """The solver, which answers questions.

        Raises:
            NotReady: the service has not started, failed to start, was stopped, or is restarting
                its engine.
        """
        if self._solver is None:
            raise NotReady(self.stage)
        return self._solver

    @property
    def guarantees(self) -> Guarantees:
        """The active guarantees; during a restart of the engine, the last active ones.

        Raises:
            NotReady: the service has not started.
        """
        if self._guarantees is None:
            raise NotReady(self.stage)
        return self._guarantees

    def use(self, guarantees: Guarantees) -> None:
        """Activates guarantees for all later questions; questions in progress keep their policy.

        During a restart of the engine this does nothing, because the next start loads them from
        the store.

        Raises:
            CertificateMismatch: they are for an engine that was replaced in the meantime.
        """
        if self._solver is None:
            return
        if guarantees.identities != self.engine.identities:
            raise CertificateMismatch(
                "the engine was restarted in the meantime, and its identity has changed: try again"
            )
        _warn_of(guarantees)
        self._guarantees = guarantees
        self._solver = Solver(self.engine, guarantees, self.grader)

    def given_now(self, solution: Solution) -> Solution:
        """A solution as it may be given now.

        It has no guarantee if its certificate is no longer active, or was withdrawn: whoever did
        that does not stand by it any more.
        """
        promised = solution.guarantee
        if promised is None:
            return solution
        withdrawn = self.guarantees.withdrawn.get(promised.certificate)
        if withdrawn is not None:
            why = f"{withdrawn.why}, while the question was being answered"
        elif promised.certificate in {one.id for one in self.guarantees.certificates}:
            return solution
        else:
            why = (
                f"certificate {promised.certificate} was deactivated or replaced while the "
                "question was being answered: ask again"
            )
        return replace(
            solution,
            guarantee=None,
            no_guarantee_reason=why,
            expectation=None,
            no_guarantee_code=NoGuarantee.WITHDRAWN,
        )

    async def check_health(self) -> None:
        """Returns unless the service has failed for good.

        Raises:
            EngineDead: the service could not start, or has given up on its engine.
        """
        if self._failed:
            raise EngineDead(self.stage)

    async def when_ready(self) -> Solver:
        """Waits while the engine starts or is restarted, then returns the solver.

        Raises:
            EngineDead: the service could not start, or has given up on its engine.
        """
        while True:
            await self.check_health()
            try:
                await self.check_ready()
                return self.solver
            except (NotReady, EngineDead):
                await asyncio.sleep(READY_POLL)

    async def check_ready(self) -> None:
        """Returns if the service can answer questions.

        Raises:
            NotReady: it cannot; the error names the stage of the start.
            EngineDead: the engine has just died.
        """
        await self.solver.engine.check_health()

    def enter(self, stage: str) -> None:
        """Sets the stage of a start; an engine may report its own stages here."""
        self.stage = self._prefix + stage
        self._on_stage(self.stage)


def _told(error: Exception) -> str:
    """What a stage says of an error. Anyone may read it at `/readyz`, so the details are logged."""
    return error.public if isinstance(error, DatabaseRefused) else "the log says why"


def _warn_of(guarantees: Guarantees) -> None:
    """Logs how the engine departs from those that the certificates were fitted on."""
    for certificate in guarantees.certificates:
        for caveat in guarantees.caveats(certificate.id):
            _log.warning("certificate %s: %s", certificate.id, caveat)
