"""The contract of extractors: how an answer is found in a text, and how one is forced."""

from __future__ import annotations

from abc import ABC, abstractmethod


class Extractor(ABC):
    """Finds the answer in what a model wrote after its thinking, and opens a forced answer.

    Serving, recording and evaluation use the same extractor, so they read the same answers. An
    extractor has no state, and may be used from any thread.

    Attributes:
        spec: names the extractor, as in a profile.
        opening: text after the closed thinking that a forced answer continues; may be empty.
        answer_tokens: budget of a forced answer, if a few hundred tokens are not enough.
    """

    spec: str
    opening: str = ""
    answer_tokens: int | None = None

    @abstractmethod
    def find(self, text: str) -> str | None:
        """The answer in a text; None if there is none. An answer is never empty."""

    @abstractmethod
    def close(self, continuation: str, complete: bool = True) -> str | None:
        """The answer in a forced continuation of `opening`; None if it was cut off.

        Args:
            continuation: as the model wrote it.
            complete: whether the model ended it, rather than the token limit.
        """

    @abstractmethod
    def written(self, answer: str) -> str:
        """An answer as `find` reads it: `find(written(answer)) == answer` for answers of `close`.

        This is the text of a forced answer in responses.
        """
