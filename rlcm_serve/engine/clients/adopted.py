"""A client that vLLM started, such as the one that `vllm serve` hands to its endpoint plugins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlcm_serve.engine.clients.base import Client

if TYPE_CHECKING:
    from vllm.v1.engine.async_llm import AsyncLLM


class AdoptedClient(Client):
    """Whoever started vLLM ends it, kills it and cleans up after it; so these methods do
    nothing, and how its processes end is not known here.

    After a `kill`, new requests to the engine are refused, and those in flight wait until vLLM
    answers or is ended.
    """

    def __init__(self, llm: AsyncLLM) -> None:
        self.llm = llm

    def settle(self) -> None:
        """Does nothing."""

    def kill(self) -> None:
        """Does nothing."""

    def cause_of_death(self) -> str:
        """Unknown here: whoever started vLLM sees how its processes end."""
        return "vLLM has stopped running; the log of its own server says why"

    def close(self) -> None:
        """Does nothing."""
