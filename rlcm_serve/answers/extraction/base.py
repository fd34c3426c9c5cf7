"""The contract of extractors: how an answer is found in a text, and how one is forced."""

from __future__ import annotations

from abc import ABC, abstractmethod


class Extractor(ABC):
    """Finds the answer in what a model wrote after its thinking, and opens a forced answer.

    Serving, recording and evaluation use the same extractor, so they read the same answers. An
    extractor has no state, and may be used from any thread. An answer is never empty.

    Attributes:
        spec: names the extractor, as in a profile.
        version: of an extractor of your own. Change it with the code: certificates depend on it.
        opening: text after the closed thinking that a forced answer continues; may be empty.
        answer_tokens: budget of a forced answer, if a few hundred tokens are not enough, and
            nobody gives another one.
        is_slow: whether `find`, `find_cut` and `close` may take so long that they need a thread.
    """

    spec: str
    version: str = ""
    opening: str = ""
    answer_tokens: int | None = None
    is_slow: bool = False

    @property
    def name(self) -> str:
        """The extractor with its version, as in a certificate's fingerprint."""
        return f"{self.spec} {self.version}" if self.version else self.spec

    @abstractmethod
    def find(self, text: str) -> str | None:
        """The answer in a text; None if there is none."""

    def find_cut(self, text: str) -> str | None:
        """The answer in a text that the token limit ended; None if it may have been cut off too.

        An answer is forced then. Without an own rule, no answer in such a text counts.
        """
        return None

    @abstractmethod
    def close(self, continuation: str, complete: bool = True) -> str | None:
        """The answer in a forced continuation of `opening`; None if it was cut off.

        Args:
            continuation: as the model wrote it.
            complete: whether the model ended it, rather than the token limit.
        """

    @abstractmethod
    def shown(self, continuation: str, answer: str) -> str:
        """The text of a forced answer in responses; `find` reads the same answer in it.

        Args:
            continuation: as the model wrote it.
            answer: that `close` found in it.
        """
