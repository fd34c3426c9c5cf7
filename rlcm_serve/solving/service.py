"""An engine with its certificates and its grader, from start to stop, and back from the dead."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from rlcm_serve.answers.grader import AnswerGrader
from rlcm_serve.engine.contract import EngineIdentity, ReasoningEngine
from rlcm_serve.engine.restart import RestartPolicy
from rlcm_serve.errors import CertificateMismatch, EngineDead, NotReady
from rlcm_serve.solving.guarantees import Guarantees
from rlcm_serve.solving.solver import Solver

LoadGuarantees = Callable[[EngineIdentity, Sequence[Path]], Guarantees]
"""Makes the guarantees of an engine, from certificate files and wherever else they are kept."""


def _ignore_stage(stage: str) -> None:
    pass


class Service:
    """What answers questions once it has started, and again once its engine is back.

    An engine that dies takes the questions it was answering with it. It is started anew, as often
    as `restart_policy` says; meanwhile there is no solver.

    Args:
        engine: not started yet.
        certificates: the files to serve under; with none, every answer comes without a guarantee.
        on_stage: told of every stage of a start.
        load: makes the guarantees, after every start of the engine.
        restart_policy: notices its death, and says when to start it again.
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
        """How often the engine has come back."""
        self._certificates = tuple(certificates)
        self._on_stage = on_stage
        self._load = load
        self._supervision = restart_policy or RestartPolicy()
        self._supervising: asyncio.Task[None] | None = None
        self._guarantees: Guarantees | None = None
        self._solver: Solver | None = None
        self._prefix = ""
        self._failed = False

    async def start(self) -> None:
        """Loads everything; from then on the engine is started again whenever it dies.

        Raises:
            ModelRefused: the engine cannot control the model.
            UnsupportedVllm: the installed vLLM cannot be used.
            EngineDead: the engine could not start.
            CertificateMismatch: a certificate was fitted on something else.
            CertificateError: a certificate is damaged.
        """
        try:
            self.enter("starting the engine")
            self.grader.start()
            await self._start_engine()
        except Exception as error:
            self._failed = True
            self.enter(f"failed to start: {error}")
            raise
        self._supervising = asyncio.create_task(self._supervise())

    async def _start_engine(self) -> None:
        await self.engine.start()
        self.enter("checking the certificates")
        self._guarantees = self._load(self.engine.identity, self._certificates)
        self._solver = Solver(self.engine, self._guarantees, self.grader)
        self._prefix = ""
        self.enter("ready")

    async def _supervise(self) -> None:
        """Runs until the service stops, or gives the engine up."""
        failed = 0
        trouble = "it died soon after each start"
        while True:
            if self._solver is not None:
                lasted = await self._supervision.until_dead(self.engine)
                self._solver = None
                failed = 0 if lasted else failed
            if failed == self._supervision.attempts:
                break
            trouble = await self._start_again(failed) or trouble
            # Forgotten once the engine has lasted: one that always dies soon is as good as dead.
            failed += 1
        self._failed = True
        self.engine.stop()
        self.enter(f"given up after {failed} attempts in a row ({trouble})")

    async def _start_again(self, failed: int) -> str | None:
        """Returns what went wrong, if anything did."""
        wait = self._supervision.wait(failed)
        self._prefix = "the engine died: "
        self.enter(f"attempt {failed + 1} to start it again in {wait:.1f} s")
        await self._supervision.sleep(wait)
        try:
            await self._start_engine()
        except Exception as error:  # noqa: BLE001
            self.enter(str(error))
            return str(error)
        self.restarts += 1
        return None

    def stop(self) -> None:
        """Ends everything; may be called twice, and during `start`."""
        if self._supervising is not None:
            self._supervising.cancel()
        self._solver = None
        self.enter("stopped")
        self.engine.stop()
        self.grader.close()

    @property
    def solver(self) -> Solver:
        """What answers questions.

        Raises:
            NotReady: the service has not started, failed to, was stopped, or waits for its engine
                to come back.
        """
        if self._solver is None:
            raise NotReady(self.stage)
        return self._solver

    @property
    def guarantees(self) -> Guarantees:
        """Those in force; while the engine is away, those that were.

        Raises:
            NotReady: the service has not started.
        """
        if self._guarantees is None:
            raise NotReady(self.stage)
        return self._guarantees

    def use(self, guarantees: Guarantees) -> None:
        """Puts these into force for all questions to come; those that are running keep theirs.

        While the engine is away nothing is, and once it is back they are loaded from where they are
        kept.

        Raises:
            CertificateMismatch: they are for an engine that has been replaced meanwhile.
        """
        if self._solver is None:
            return
        if guarantees.identity != self.engine.identity:
            raise CertificateMismatch(
                "the engine has been started again meanwhile, and is another one: try again"
            )
        self._guarantees = guarantees
        self._solver = Solver(self.engine, guarantees, self.grader)

    async def check_health(self) -> None:
        """Returns unless there is nothing left to hope for.

        Raises:
            EngineDead: the service could not start, or has given its engine up.
        """
        if self._failed:
            raise EngineDead(self.stage)

    async def check_ready(self) -> None:
        """Returns if questions can be answered.

        Raises:
            NotReady: not yet, or not any more; it names the stage.
            EngineDead: the engine has died this moment.
        """
        await self.solver.engine.check_health()

    def enter(self, stage: str) -> None:
        """Notes how far a start has come; an engine may report its own stages here."""
        self.stage = self._prefix + stage
        self._on_stage(self.stage)
