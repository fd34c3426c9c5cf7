"""Turns conversations into prompts with the model's chat template; messages stay plain text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from jinja2 import TemplateError

from rlcm_serve.core import Message, TokenIds
from rlcm_serve.errors import ModelRefused, RequestRefused

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class Conversations:
    """Encodes conversations for one model.

    A message may contain the text of a special token. It must not close its turn or a rollout. So
    the template gets a placeholder for such a message, and the message is encoded separately.

    Raises:
        ModelRefused: the tokenizer has no chat template.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        if not tokenizer.chat_template:
            raise ModelRefused(
                "the model's tokenizer has no chat template: add one to its folder "
                "(chat_template.jinja), or serve a model that was trained for conversations"
            )
        self._tokenizer = tokenizer
        added = tokenizer.added_tokens_decoder.values()
        self._spelled = re.compile(_any_of(token.content for token in added))
        # The tokenizer can split special tokens, but not tokens that were merely added.
        merely_added = _any_of(token.content for token in added if not token.special)
        self._begins_added = re.compile(f"(?={merely_added})")

    def encode(self, messages: Sequence[Message]) -> TokenIds:
        """The conversation's tokens, up to where the model begins.

        Raises:
            RequestRefused: the chat template does not accept these messages, or drops one.
        """
        placeholders = self._placeholders(messages)
        if len(messages) > 1:
            self._require_all(messages, placeholders)
        spelled = {
            placeholder: message.content
            for placeholder, message in zip(placeholders, messages, strict=True)
            if self._spelled.search(message.content)
        }
        text = self._render(
            messages,
            [
                placeholder if placeholder in spelled else message.content
                for placeholder, message in zip(placeholders, messages, strict=True)
            ],
        )
        ids: list[int] = []
        for piece in re.split(f"({_any_of(spelled)})", text):
            ids += self._encode_as_text(spelled[piece]) if piece in spelled else self._encode(piece)
        return tuple(ids)

    def _placeholders(self, messages: Sequence[Message]) -> list[str]:
        """One word per message that occurs in no message."""
        word = "RLCM-MESSAGE"
        while any(word in message.content for message in messages):
            word += "-"
        return [f"{word}{number}." for number in range(len(messages))]

    def _require_all(self, messages: Sequence[Message], placeholders: Sequence[str]) -> None:
        """Refuses messages that the template drops silently, as some do with a role."""
        text = self._render(messages, placeholders)
        for message, placeholder in zip(messages, placeholders, strict=True):
            if placeholder not in text:
                raise RequestRefused(
                    "messages",
                    f"the model's chat template drops {message.role} messages: put the content "
                    "into a user message",
                )

    def _render(self, messages: Sequence[Message], contents: Sequence[str]) -> str:
        turns = [
            {"role": message.role.value, "content": content}
            for message, content in zip(messages, contents, strict=True)
        ]
        try:
            text: str = self._tokenizer.apply_chat_template(
                turns, tokenize=False, add_generation_prompt=True
            )
        except (TemplateError, TypeError, ValueError) as error:
            raise RequestRefused(
                "messages", f"the model's chat template does not accept these messages: {error}"
            ) from error
        return text

    def _encode(self, text: str) -> TokenIds:
        return tuple(self._tokenizer.encode(text, add_special_tokens=False))

    def _encode_as_text(self, text: str) -> TokenIds:
        """Tokens of a text in which special tokens count as plain text."""
        ids: list[int] = []
        for piece in self._pieces(text):
            ids += self._tokenizer.encode(
                piece, add_special_tokens=False, split_special_tokens=True
            )
        return tuple(ids)

    def _pieces(self, text: str) -> list[str]:
        """The text, cut inside every merely added token, so that none is recognized."""
        cuts = [0, *(found.start() + 1 for found in self._begins_added.finditer(text)), len(text)]
        return [text[start:end] for start, end in pairwise(cuts)]


def _any_of(words: Iterable[str]) -> str:
    """A pattern that matches any of the words, the longest first; never matches without words."""
    longest_first = sorted(words, key=len, reverse=True)
    return "|".join(map(re.escape, longest_first)) or "(?!)"
