"""An engine with its certificates and its grader, from start to stop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from rlcm_serve.answers import AnswerGrader
from rlcm_serve.engine.base import ReasoningEngine
from rlcm_serve.errors import EngineDead, NotReady
from rlcm_serve.guarantees import Guarantees
from rlcm_serve.solver import Solver


def _tell_nobody(stage: str) -> None:
    pass


class Service:
    """What answers questions once it has started.

    Args:
        engine: not started yet.
        certificates: the files to serve under; with none, every answer comes without a guarantee.
        on_stage: told of every stage of the start.
    """

    def __init__(
        self,
        engine: ReasoningEngine,
        certificates: Sequence[Path] = (),
        on_stage: Callable[[str], None] = _tell_nobody,
    ) -> None:
        self.engine = engine
        self.grader = AnswerGrader()
        self.stage = "waiting to start"
        self._certificates = tuple(certificates)
        self._on_stage = on_stage
        self._solver: Solver | None = None
        self._failed = False

    async def start(self) -> None:
        """Loads everything.

        Raises:
            ModelRefused: the engine cannot control the model.
            EngineDead: the engine could not start.
            CertificateMismatch: a certificate was fitted on something else.
            CertificateError: a certificate is damaged.
        """
        try:
            self.enter("starting the engine")
            self.grader.start()
            await self.engine.start()
            self.enter("checking the certificates")
            guarantees = Guarantees.load(self.engine.identity, self._certificates)
        except Exception as error:
            self._failed = True
            self.enter(f"failed to start: {error}")
            raise
        self._solver = Solver(self.engine, guarantees, self.grader)
        self.enter("ready")

    def stop(self) -> None:
        """Ends everything; may be called twice, and during `start`."""
        self._solver = None
        self.enter("stopped")
        self.engine.stop()
        self.grader.close()

    @property
    def solver(self) -> Solver:
        """What answers questions.

        Raises:
            NotReady: the service has not started, failed to, or was stopped.
        """
        if self._solver is None:
            raise NotReady(self.stage)
        return self._solver

    async def check_health(self) -> None:
        """Returns while the service starts and once it is up.

        Raises:
            EngineDead: the engine has died, or the service could not start.
        """
        if self._failed:
            raise EngineDead(self.stage)
        if self._solver is not None:
            await self.engine.check_health()

    async def check_ready(self) -> None:
        """Returns if questions can be answered.

        Raises:
            NotReady: not yet, or not any more; it names the stage.
            EngineDead: the engine has died.
        """
        await self.solver.engine.check_health()

    def enter(self, stage: str) -> None:
        """Notes how far the start has come; an engine may report its own stages here."""
        self.stage = stage
        self._on_stage(stage)
