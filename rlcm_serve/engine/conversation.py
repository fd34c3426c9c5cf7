"""Turns conversations into prompts with the model's chat template; messages stay plain text."""

from __future__ import annotations

import inspect
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

from jinja2 import TemplateError

from rlcm_serve.core import Message, TokenIds
from rlcm_serve.errors import ModelRefused, RequestRefused

if TYPE_CHECKING:
    from transformers import AddedToken, PreTrainedTokenizerBase

_TEMPLATE_FAILS = (
    *(TemplateError, ArithmeticError, AttributeError, LookupError),
    *(RuntimeError, TypeError, ValueError),
)
"""What a chat template raises on turns or variables that it does not expect."""


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
        # Splitting is a state of the tokenizer. Threads that share one would change it for others.
        self._splitting = deepcopy(tokenizer)
        markup = markup_of(tokenizer).values()
        self._spelled = re.compile(any_of(token.content for token in markup))
        # The tokenizer can split special tokens, but not tokens that were merely added.
        merely_added = any_of(token.content for token in markup if not token.special)
        self._begins_added = re.compile(f"(?={merely_added})")

    def encode(
        self, messages: Sequence[Message], variables: Mapping[str, Any] | None = None
    ) -> TokenIds:
        """The conversation's tokens, up to where the model begins.

        `variables` are of the chat template. Takes time in proportion to the messages. May be
        called from any thread.

        Raises:
            RequestRefused: the chat template does not accept these messages, or drops one.
        """
        placeholders = _Placeholders()
        variables = variables or {}
        if len(messages) > 1:
            self._require_all(messages, placeholders, variables)
        spelled = {
            number
            for number, message in enumerate(messages)
            if self._spelled.search(message.content)
        }
        text = self._render(
            messages,
            [
                placeholders.of(number) if number in spelled else message.content
                for number, message in enumerate(messages)
            ],
            variables,
        )
        between, numbers = placeholders.split(text)
        parts = self._ids(self._tokenizer, between)
        for number, part in zip(numbers, parts[1:], strict=True):
            parts[0] += self._encode_as_text(messages[number].content)
            parts[0] += part
        return tuple(parts[0])

    def require_variables(self, variables: Mapping[str, Any], system: str | None) -> None:
        """Returns if the chat template reads each of these variables.

        A variable with the value that it has anyway changes nothing. So other values are tried too,
        and a conversation with an answer in it, which some variables are about.

        Raises:
            RequestRefused: the template never reads one; the message names it.
        """
        own = inspect.signature(self._tokenizer.apply_chat_template).parameters
        for name in variables:
            if name in own:
                raise RequestRefused(
                    "variables",
                    f"the variable {name!r} is set by the service, not by a profile: remove it",
                )
            if not self._is_read(name, variables, system):
                raise RequestRefused(
                    "variables",
                    f"the model's chat template never reads the variable {name!r}: correct the "
                    "name, or remove it",
                )

    def _is_read(self, name: str, variables: Mapping[str, Any], system: str | None) -> bool:
        before = [] if system is None else [{"role": "system", "content": system}]
        question = [*before, {"role": "user", "content": "1"}]
        answered = [*question, {"role": "assistant", "content": "2"}, question[-1]]
        others = {other: variables[other] for other in variables if other != name}
        values = (variables[name], True, False, "other")
        tried = [others, *(others | {name: value} for value in values)]
        return any(
            len({self.rendered(turns, one, True) for one in tried}) > 1
            for turns in (question, answered)
        )

    def rendered(
        self, turns: Sequence[dict[str, Any]], variables: Mapping[str, Any], prompt: bool
    ) -> str | None:
        """The text of these turns, and with `prompt` what makes the model begin.

        None if the chat template does not accept them.
        """
        try:
            return self._text(turns, variables, prompt)
        except _TEMPLATE_FAILS:
            return None

    def _text(
        self, turns: Sequence[dict[str, Any]], variables: Mapping[str, Any], prompt: bool
    ) -> str:
        text: str = self._tokenizer.apply_chat_template(
            list(turns), tokenize=False, add_generation_prompt=prompt, **variables
        )
        return text

    def _require_all(
        self,
        messages: Sequence[Message],
        placeholders: _Placeholders,
        variables: Mapping[str, Any],
    ) -> None:
        """Refuses messages that the template drops silently, as some do with a role."""
        contents = [placeholders.of(number) for number in range(len(messages))]
        _, kept = placeholders.split(self._render(messages, contents, variables))
        dropped = set(range(len(messages))).difference(kept)
        if dropped:
            role = messages[min(dropped)].role
            raise RequestRefused(
                "messages",
                f"the model's chat template drops {role} messages: put the content into a user "
                "message",
            )

    def _render(
        self, messages: Sequence[Message], contents: Sequence[str], variables: Mapping[str, Any]
    ) -> str:
        turns = [
            {"role": message.role.value, "content": content}
            for message, content in zip(messages, contents, strict=True)
        ]
        try:
            return self._text(turns, variables, True)
        except _TEMPLATE_FAILS as error:
            raise RequestRefused(
                "messages", f"the model's chat template does not accept these messages: {error}"
            ) from error

    def _encode_as_text(self, text: str) -> list[int]:
        """Tokens of a text in which special tokens count as plain text."""
        # Cut inside every merely added token, so that none is recognized.
        cuts = [0, *(found.start() + 1 for found in self._begins_added.finditer(text)), len(text)]
        pieces = [text[start:end] for start, end in pairwise(cuts)]
        ids = self._ids(self._splitting, pieces, split_special_tokens=True)
        return list(chain.from_iterable(ids))

    def _ids(
        self, tokenizer: PreTrainedTokenizerBase, texts: list[str], **options: bool
    ) -> list[list[int]]:
        """The ids of each text, in one call: a call costs more than most texts."""
        found = tokenizer(texts, add_special_tokens=False, return_attention_mask=False, **options)
        ids: list[list[int]] = found["input_ids"]
        return ids


class _Placeholders:
    """Words that stand for messages in a rendered text. Nobody can guess them."""

    def __init__(self) -> None:
        self._word = secrets.token_hex(16)
        self._pattern = re.compile(f"{self._word}-([0-9]+)\\.")

    def of(self, number: int) -> str:
        """The word for the message of this number."""
        return f"{self._word}-{number}."

    def split(self, text: str) -> tuple[list[str], list[int]]:
        """The text around the words, and the numbers of the messages they stand for, in order."""
        parts = self._pattern.split(text)
        return parts[::2], [int(number) for number in parts[1::2]]


def markup_of(tokenizer: PreTrainedTokenizerBase) -> dict[int, AddedToken]:
    """The added tokens by id, which stay plain text where a message spells them.

    Tokens of blanks that are not special are text anyway: Gemma has some for runs of newlines.
    """
    return {
        id_: token
        for id_, token in tokenizer.added_tokens_decoder.items()
        if token.special or not token.content.isspace()
    }


def any_of(words: Iterable[str]) -> str:
    """A pattern that matches the longest of the words; without words it never matches.

    Words that begin alike share that part of the pattern. So a search takes the same time for one
    word and for a thousand, which some tokenizers have.
    """
    tree: dict[str, Any] = {}
    for word in words:
        node = tree
        for letter in word:
            node = node.setdefault(letter, {})
        node[""] = {}
    return _pattern(tree) or "(?!)"


def _pattern(node: Mapping[str, Any]) -> str:
    rests = [re.escape(letter) + _pattern(rest) for letter, rest in node.items() if letter]
    if not rests:
        return ""
    return f"(?:{'|'.join(rests)}){'?' if '' in node else ''}"
