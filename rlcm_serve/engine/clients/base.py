"""The contract between a running engine and vLLM's client."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vllm.v1.engine.async_llm import AsyncLLM


class Client(ABC):
    """vLLM's client, and what its owner does with it: settle, kill and close it.

    It also knows why vLLM died.
    """

    llm: AsyncLLM

    @abstractmethod
    def settle(self) -> None:
        """Call this after the first finished request, when all of vLLM's processes exist."""

    @abstractmethod
    def kill(self) -> None:
        """Kills vLLM's processes, even stopped ones; vLLM then tells everyone who waits."""

    @abstractmethod
    def cause_of_death(self) -> str:
        """Why vLLM has stopped, for the operator's log. May take a second, in any thread."""

    @abstractmethod
    def close(self) -> None:
        """Ends what was started, and frees what it held. May take seconds, in any thread."""
