"""`rlcm collect --ray` and `rlcm eval --ray`: engines in Ray's processes record the rollouts.

The journal stays here and is that of a run on one engine, so a run may continue with any number of
engines.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from rich.console import Console

from rlcm_serve.engine.contract import EngineIdentity
from rlcm_serve.engine.launch import EngineSettings
from rlcm_serve.engine.vllm_engine import VllmEngine
from rlcm_serve.ray.actors import Failure, engines_started, received, sent
from rlcm_serve.recording.concurrency import ROLLOUTS_AT_ONCE
from rlcm_serve.recording.offline import BuildRecorders
from rlcm_serve.recording.problems import LabelledProblem
from rlcm_serve.recording.recorder import FullBudgetRecorder
from rlcm_serve.recording.rollouts import FullBudgetRollout

Recording = TypeVar("Recording", bound=FullBudgetRollout)


class RecordingEngine(Generic[Recording]):
    """One engine with its recorders, in a process of Ray.

    Args:
        settings: of the engine.
        build: its recorders.
    """

    def __init__(self, settings: EngineSettings, build: BuildRecorders[Recording]) -> None:
        self._engine, self._profile, self._build = VllmEngine(settings), settings.profile, build
        self._recorders: Sequence[FullBudgetRecorder[Recording]] = ()
        self._open = ExitStack()

    async def start(self) -> tuple[EngineIdentity, int] | Failure:
        """Starts the engine; returns its identity and the number of recorders."""

        async def started() -> tuple[EngineIdentity, int]:
            await self._engine.start()
            reasoner = self._engine.under(self._profile)
            self._recorders = self._open.enter_context(self._build(reasoner))
            return reasoner.identity, len(self._recorders)

        return await sent(started())

    async def check_all(self, at: int, problems: Sequence[LabelledProblem]) -> Failure | None:
        """`FullBudgetRecorder.check_all` of the recorder with this number."""
        return await sent(self._recorders[at].check_all(problems))

    async def record(self, at: int, problem: LabelledProblem, number: int) -> Recording | Failure:
        """`FullBudgetRecorder.record` of the recorder with this number."""
        return await sent(self._recorders[at].record(problem, number))

    async def stop(self) -> None:
        """Stops the recorders and the engine."""
        self._open.close()
        self._engine.stop()


@dataclass(frozen=True, slots=True)
class RemoteRecorder(Generic[Recording]):
    """Records on several engines, as `FullBudgetRecorder` does on one.

    Attributes:
        actors: Ray's handles of `RecordingEngine`s.
        at: number of the recorder in each of them.
        busy: rollouts that each engine is recording.
    """

    actors: Sequence[Any]
    at: int
    busy: list[int] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "busy", [0] * len(self.actors))

    @property
    def concurrency(self) -> int:
        """Rollouts to record at a time, on all engines together."""
        return ROLLOUTS_AT_ONCE * len(self.actors)

    async def check_all(self, problems: Sequence[LabelledProblem]) -> None:
        """As `FullBudgetRecorder.check_all`; the engines are equal, so one of them decides."""
        await received(self.actors[0].check_all.remote(self.at, problems))

    async def record(self, problem: LabelledProblem, number: int) -> Recording:
        """As `FullBudgetRecorder.record`, on the engine that records the fewest rollouts."""
        idlest = min(range(len(self.actors)), key=self.busy.__getitem__)
        self.busy[idlest] += 1
        try:
            recorded: Recording = await received(
                self.actors[idlest].record.remote(self.at, problem, number)
            )
            return recorded
        finally:
            self.busy[idlest] -= 1


@asynccontextmanager
async def recorders_on_ray(
    count: int, settings: EngineSettings, build: BuildRecorders[Recording], console: Console
) -> AsyncIterator[tuple[EngineIdentity, Sequence[RemoteRecorder[Recording]]]]:
    """Recorders on engines in processes of Ray, in place of `recorders_here`.

    Raises:
        ModelRefused, EngineDead: an engine did not start, or the engines differ.
    """
    console.print(f"starting {count} engines on Ray", highlight=False)
    async with engines_started(count, RecordingEngine, settings, build) as (actors, found):
        identity, recorders = found
        yield identity, [RemoteRecorder(actors, at) for at in range(recorders)]
