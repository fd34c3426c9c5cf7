"""How the service stands: in one word, for who waits for it, and in its own."""

from __future__ import annotations

from dataclasses import dataclass

from rlcm_serve.api.context import Context
from rlcm_serve.api.wire.overview import State
from rlcm_serve.errors import EngineDead, NotReady


@dataclass(frozen=True, slots=True)
class Status:
    """How the service stands.

    Attributes:
        state: `restarting`: its engine died or hung and is started again; `failed`: the engine was
            given up, and only a restart of the service helps.
        detail: the same in words, such as the stage of a start.
    """

    state: State
    detail: str


async def status_of(context: Context) -> Status:
    """How the service stands at this moment."""
    if context.admission.closed or context.draining.closed:
        return Status("stopping", "stopping")
    try:
        await context.service.check_health()
    except EngineDead as error:
        return Status("failed", str(error))
    try:
        await context.service.check_ready()
    except EngineDead as error:
        return Status("restarting", str(error))
    except NotReady as error:
        return Status("restarting" if _has_started(context) else "starting", error.stage)
    return Status("ready", context.service.stage)


def _has_started(context: Context) -> bool:
    try:
        _ = context.service.guarantees
    except NotReady:
        return False
    return True
