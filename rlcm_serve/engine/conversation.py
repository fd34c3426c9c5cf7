"""Conversations as prompts: the model's own chat template, in which what people say stays text."""

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

    A message may spell a special token: it must not close its turn, or a rollout. Such a message is
    put into the template as a placeholder, and encoded by itself.

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
        # The tokenizer can be told to split special tokens, but not those that are merely added.
        merely_added = _any_of(token.content for token in added if not token.special)
        self._begins_added = re.compile(f"(?={merely_added})")

    def encode(self, messages: Sequence[Message]) -> TokenIds:
        """The conversation's tokens, up to where the model begins.

        Raises:
            RequestRefused: the template does not take these turns, or leaves one of them out.
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
        """A word for each message that none of them holds."""
        word = "RLCM-MESSAGE"
        while any(word in message.content for message in messages):
            word += "-"
        return [f"{word}{number}." for number in range(len(messages))]

    def _require_all(self, messages: Sequence[Message], placeholders: Sequence[str]) -> None:
        """Some templates drop a role in silence."""
        text = self._render(messages, placeholders)
        for message, placeholder in zip(messages, placeholders, strict=True):
            if placeholder not in text:
                raise RequestRefused(
                    "messages",
                    f"the model's chat template leaves out a message of the {message.role}: put "
                    "what it says into a message of the user",
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
                "messages", f"the model's chat template does not take these turns: {error}"
            ) from error
        return text

    def _encode(self, text: str) -> TokenIds:
        return tuple(self._tokenizer.encode(text, add_special_tokens=False))

    def _encode_as_text(self, text: str) -> TokenIds:
        """Tokens of a text whose special tokens are only spelled."""
        ids: list[int] = []
        for piece in self._pieces(text):
            ids += self._tokenizer.encode(
                piece, add_special_tokens=False, split_special_tokens=True
            )
        return tuple(ids)

    def _pieces(self, text: str) -> list[str]:
        """The text, cut within each token that is merely added."""
        cuts = [0, *(found.start() + 1 for found in self._begins_added.finditer(text)), len(text)]
        return [text[start:end] for start, end in pairwise(cuts)]


def _any_of(words: Iterable[str]) -> str:
    """A pattern that matches each of these words, the longest first; nothing, of none."""
    longest_first = sorted(words, key=len, reverse=True)
    return "|".join(map(re.escape, longest_first)) or "(?!)"
