"""Engines in processes of Ray, one for each process, for the length of one command."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, TypeVar

import ray
from ray.exceptions import RayError, RayTaskError

from calibration.errors import CalibrationError
from rlcm_serve.errors import EngineDead, RequestRefused, RlcmError
from rlcm_serve.ray.cluster import started_ray

_AT_ONCE = 1000
"""Calls that one of Ray's processes takes at a time."""

Result = TypeVar("Result")


class Failure(NamedTuple):
    """An error in place of a result: not all exceptions can be sent.

    `field` is that of a `RequestRefused`; None for all other errors.
    """

    field: str | None
    message: str


async def sent(work: Awaitable[Result]) -> Result | Failure:
    """The result of `work`, or its error, in a form that Ray can send."""
    try:
        return await work
    except RequestRefused as error:
        return Failure(error.field, str(error))
    except (RlcmError, CalibrationError) as error:
        return Failure(None, str(error))


async def received(reference: Any) -> Any:
    """What a call to an engine's process returned.

    Raises:
        RequestRefused: the engine refused the request.
        EngineDead: the engine failed otherwise, or its process has ended.
    """
    try:
        result = await reference
    except RayTaskError as error:
        raise EngineDead(f"an engine on Ray failed in a way that is not known: {error}") from error
    except RayError as error:
        raise EngineDead(
            f"an engine on Ray has ended: run the same command again to continue ({error})"
        ) from error
    if isinstance(result, Failure):
        if result.field is not None:
            raise RequestRefused(result.field, result.message)
        raise EngineDead(result.message)
    return result


@asynccontextmanager
async def engines_started(
    count: int, kind: type[Any], *arguments: object
) -> AsyncIterator[tuple[Sequence[Any], Any]]:
    """Engines on the cluster that RAY_ADDRESS names, or on a cluster of this machine alone.

    Args:
        count: of engines.
        kind: class of each process; has coroutines `start`, which returns what must be equal for
            all of them, and `stop`.
        arguments: of the class.

    Yields:
        Ray's handles, and what `start` returned.

    Raises:
        RequestRefused, EngineDead: an engine did not start, or the engines differ.
    """
    with started_ray(os.environ.get("RAY_ADDRESS", "local")):
        gpus = 1 if ray.cluster_resources().get("GPU") else 0
        remote = ray.remote(num_cpus=1, num_gpus=gpus, max_concurrency=_AT_ONCE)(kind)
        actors = [remote.remote(*arguments) for _ in range(count)]
        try:
            found = await asyncio.gather(*(received(actor.start.remote()) for actor in actors))
            if any(other != found[0] for other in found):
                raise EngineDead("the engines on Ray differ: install the same model on all nodes")
            yield actors, found[0]
        finally:
            stopping = (received(actor.stop.remote()) for actor in actors)
            await asyncio.gather(*stopping, return_exceptions=True)
