"""Asks all of vLLM's workers something."""

from __future__ import annotations

import asyncio
from itertools import chain
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vllm.v1.engine.async_llm import AsyncLLM


async def call_workers(llm: AsyncLLM, method: str, *args: Any) -> list[Any]:
    """What a method of the worker extension returns in every worker of every engine.

    vLLM's own `collective_rpc` asks all data-parallel engines, but returns the first one's replies.
    If vLLM dies during the call, the call may never return.

    Raises:
        EngineDeadError: vLLM has died.
        Exception: the method failed; vLLM gives its message alone.
    """
    client = llm.engine_core
    call = ("collective_rpc", method, None, args, None)
    engines = client.core_engines
    replies = await asyncio.gather(
        *(client._call_utility_async(*call, engine=engine) for engine in engines)
    )
    return [*chain.from_iterable(replies)]
