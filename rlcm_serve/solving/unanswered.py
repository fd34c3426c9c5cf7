"""The questions that were asked and not answered: what remembers them."""

from __future__ import annotations

import hashlib
import json
import time
from abc import ABC, abstractmethod

from rlcm_serve.recording.problems import plain_text
from rlcm_serve.solving.asking import Asked


def digest_of_ask(asked: Asked) -> bytes:
    """SHA-256 of a conversation as it is recognised again, and of the name of its profile.

    Takes time in proportion to the text. May be called from any thread.
    """
    turns = [[str(message.role), plain_text(message.content)] for message in asked.messages]
    written = json.dumps([asked.profile.name, turns])  # ASCII, half surrogate pairs included
    return hashlib.sha256(written.encode()).digest()


class UnansweredQuestions(ABC):
    """Questions that were asked and not answered, for a limited time and apart for each caller.

    Attributes:
        limit: for how long a question is remembered, in seconds.
    """

    limit: float

    @abstractmethod
    async def find(self, key_id: str | None, digest: bytes) -> float | None:
        """When the caller last asked the question without getting an answer, Unix time in seconds.

        None if the caller never did, or longer ago than `limit`.

        Raises:
            DatabaseRefused: the memory cannot be read.
        """

    @abstractmethod
    async def add(self, key_id: str | None, digest: bytes) -> None:
        """Remembers that the caller has asked the question just now, and got no answer.

        Raises:
            DatabaseRefused: the memory cannot be written.
        """


class UnansweredHere(UnansweredQuestions):
    """Those of one process, for as long as it runs."""

    limit = float("inf")

    def __init__(self) -> None:
        self._asked: dict[tuple[str | None, bytes], float] = {}

    async def find(self, key_id: str | None, digest: bytes) -> float | None:
        """As `UnansweredQuestions.find`."""
        return self._asked.get((key_id, digest))

    async def add(self, key_id: str | None, digest: bytes) -> None:
        """As `UnansweredQuestions.add`."""
        self._asked[key_id, digest] = time.time()
