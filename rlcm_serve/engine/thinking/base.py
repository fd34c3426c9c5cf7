"""What every thinking format says: its tokens, how it reads a sample, how it is closed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def ids_of(tokenizer: PreTrainedTokenizerBase, tokens: Iterable[str]) -> dict[str, int]:
    """The ids of those tokens that the vocabulary has."""
    ids = {token: tokenizer.convert_tokens_to_ids(token) for token in tokens}
    # For a token that is not in the vocabulary, the id is None or that of the unknown token.
    return {
        token: int(id_)
        for token, id_ in ids.items()
        if id_ is not None and tokenizer.convert_ids_to_tokens(id_) == token
    }


class Part(Enum):
    """What a token of a sample belongs to."""

    THINKING = "thinking"
    ANSWER = "answer"
    MARKUP = "markup"


class Place(Enum):
    """Where a sample is after the tokens read so far.

    `START`: the model has opened nothing yet, neither thinking nor an answer. `BETWEEN`: after a
    message, before the next one. `HEADER`: inside the markup that opens a message.
    """

    START = "start"
    BETWEEN = "between"
    HEADER = "header"
    THINKING = "thinking"
    ANSWER = "answer"


class Reader(ABC):
    """Reads one sample token by token, from the end of its prompt on."""

    place: Place = Place.START
    markup: frozenset[int] | None = None
    """Every token that may change the place. None: any token may."""

    @abstractmethod
    def push(self, token: int) -> Part:
        """Reads the next token; says what it belongs to. Text before any markup is thinking."""

    def read(self, tokens: Sequence[int]) -> list[Part]:
        """What each of these tokens belongs to."""
        markup, settled = self.markup, 0
        if markup is None:
            return [self.push(token) for token in tokens]
        # Behind the last markup, all tokens are alike. A rollout has thousands of these.
        if not markup.isdisjoint(tokens):
            settled = next(at for at in range(len(tokens), 0, -1) if tokens[at - 1] in markup)
        parts = [self.push(token) for token in tokens[:settled]]
        while settled < len(tokens) and not self.is_settled:
            parts.append(self.push(tokens[settled]))
            settled += 1
        rest = len(tokens) - settled
        return parts + [self.push(tokens[settled])] * rest if rest else parts

    @property
    def is_settled(self) -> bool:
        """Whether all tokens up to the next markup belong to the same part."""
        return self.place is not Place.HEADER

    @property
    def is_open(self) -> bool:
        """Whether thinking or an answer was opened."""
        return self.place not in (Place.START, Place.BETWEEN)


class ThinkingFormat(ABC):
    """How a family of models marks its thinking. Instances never change.

    Attributes:
        name: as vLLM names the reasoning parser, or `none`.
        tokens: special tokens that a vocabulary must have for this format.
        start: the token that opens thinking; "" without one.
        end: the token that ends thinking, for which exit control watches; "" without one.
        stops: tokens that end a completion, besides those in the model's files.
        instructions: tokens that, in the prompt before the question, tell the model to think.
    """

    name: str
    tokens: tuple[str, ...] = ()
    start: str = ""
    end: str = ""
    stops: tuple[str, ...] = ()
    instructions: tuple[str, ...] = ()

    @abstractmethod
    def reader(self, tokenizer: PreTrainedTokenizerBase) -> Reader:
        """A reader for a sample in which nothing was read yet."""

    @property
    @abstractmethod
    def closing(self) -> str:
        """What ends open thinking and leads to the answer; "" if there is nothing to end."""

    @abstractmethod
    def lead(self, place: Place, *, is_empty: bool) -> str:
        """What leads to the answer from this place; `is_empty` says that no token was sampled."""

    def suffix(self, lead: str, text: str) -> str:
        """`lead`, then `text` as the beginning of the answer."""
        return f"{lead}\n{text}"

    @property
    def answer_header(self) -> str:
        """What the model writes between the end of its thinking and its answer."""
        return ""


class _Everything(Reader):
    """Reads a sample without markup."""

    markup = frozenset()

    def push(self, token: int) -> Part:
        """All text is thinking, and the answer too."""
        return Part.THINKING


class NoThinking(ThinkingFormat):
    """A model that marks no thinking: its whole completion is read, and nothing is closed."""

    name = "none"
    closing = ""

    def reader(self, tokenizer: PreTrainedTokenizerBase) -> Reader:
        """A reader that finds no markup."""
        return _Everything()

    def lead(self, place: Place, *, is_empty: bool) -> str:
        """Nothing is to be closed."""
        return ""


NONE = NoThinking()
