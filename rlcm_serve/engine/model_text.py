"""Text of one model: encodes prompts, decodes reasoning and answers, knows the special ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from itertools import chain
from typing import TYPE_CHECKING, Any, Self

from calibration import ExitReason
from rlcm_serve.answers.extraction.named import opening_under
from rlcm_serve.core import Budget, Message, Rollout, TokenIds
from rlcm_serve.engine.conversation import Conversations, markup_of
from rlcm_serve.engine.model_files import ModelFiles, spare_ids
from rlcm_serve.engine.prompts import FORCED_ANSWER
from rlcm_serve.engine.rollout_stream import RolloutCount, RolloutStream, texts_of
from rlcm_serve.engine.text_stream import TextStream
from rlcm_serve.engine.thinking import Part, Reader, Rendering, available_formats, find_format
from rlcm_serve.engine.thinking.base import ids_of
from rlcm_serve.errors import ModelRefused, ProfileRefused, RequestRefused
from rlcm_serve.profiles.parts import PROBLEM
from rlcm_serve.profiles.profile import Profile

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class ModelText:
    """A model's tokenizer under one thinking format and one set of template variables.

    `under` makes another one from the same tokenizer, in milliseconds.

    Args:
        files: configuration of the model.
        tokenizer: the model's tokenizer.
        thinking: name of the thinking format. None takes `thinking` of the generation config, or
            else detects it.
        variables: of the chat template, such as `enable_thinking`.
        system: the system prompt that every conversation begins with; it may turn thinking off.
        around: what every user's message has before and after the question; it may, too.

    Raises:
        ModelRefused: the vocabulary has no two unused ids, or there is no chat template, or the
            thinking format is not known or does not fit.
    """

    def __init__(
        self,
        files: ModelFiles,
        tokenizer: PreTrainedTokenizerBase,
        *,
        thinking: str | None = None,
        variables: Mapping[str, Any] | None = None,
        system: str | None = None,
        around: tuple[str, str] = ("", ""),
    ) -> None:
        self.tokenizer = tokenizer
        self.stop_high, self.stop_low = spare_ids(tokenizer, files.vocabulary)
        ends = files.generation.get("eos_token_id")
        # vLLM stops at the tokenizer's own end as well, whatever the files say.
        ends = {*(ends if isinstance(ends, list) else [ends]), tokenizer.eos_token_id}
        self._eos = frozenset(ends - {None})
        self.other_ends = sorted(self._eos - {tokenizer.eos_token_id})
        """Ids that end a text and are not the tokenizer's own end; no file's digest has them."""
        self._conversations = Conversations(tokenizer)
        self._markup = frozenset(markup_of(tokenizer))
        known = available_formats().values()
        self._markers = set(
            ids_of(tokenizer, chain(*((one.start, one.end) for one in known))).values()
        )
        self.longest_token = max(map(len, tokenizer.get_vocab()))
        self.named = thinking or files.thinking
        """The thinking format that the settings or the files name; None if it was detected."""
        self._adopt(thinking, variables or {}, system, around)

    def under(
        self,
        *,
        thinking: str | None = None,
        variables: Mapping[str, Any] | None = None,
        system: str | None = None,
        around: tuple[str, str] = ("", ""),
    ) -> Self:
        """The same model under another format, other variables, or another system prompt.

        Raises:
            ModelRefused: as the constructor.
        """
        other = copy(self)
        other._adopt(thinking, variables or {}, system, around)
        return other

    def under_profile(self, profile: Profile) -> Self:
        """The same model as a profile asks it.

        `suffix_text` stays the same whatever the profile's extractor: certificates depend on it.

        Raises:
            ProfileRefused: the chat template does not accept the profile's system prompt, or never
                reads one of its variables, or the thinking format does not fit.
        """
        try:
            self._conversations.require_variables(profile.variables, profile.system)
            begin, _, end = profile.template.partition(PROBLEM)
            other = self.under(
                thinking=profile.thinking,
                variables=profile.variables,
                system=profile.system,
                around=(begin, end),
            )
            other.prompt(profile.messages("1"))
            other.suffix_tokens = len(other.close(opening_under(profile)))
        except (ModelRefused, RequestRefused) as error:
            raise ProfileRefused(f"profile {profile.name!r}: {error}") from error
        return other

    def _adopt(
        self,
        thinking: str | None,
        variables: Mapping[str, Any],
        system: str | None,
        around: tuple[str, str],
    ) -> None:
        self.variables = dict(variables)
        rendering = Rendering(self._conversations.rendered, self.variables, system, around)
        self.format = find_format(rendering, self.tokenizer, thinking or self.named)
        ids = ids_of(self.tokenizer, (self.format.end, *self.format.stops))
        self.think_end = ids.pop(self.format.end, None)
        self.end_ids = self._eos | set(ids.values())
        self._stops = self.end_ids | {self.stop_high, self.stop_low}
        prompt = rendering.prompt()
        self._tail = self._encode(prompt.tail if prompt else "")
        head = self._encode(prompt.head) if prompt else ()
        self._last = self._last_markup((*head, *self._tail))
        self.suffix_text = self.format.suffix(self.format.closing, FORCED_ANSWER)
        self.suffix_tokens = len(self.close(FORCED_ANSWER))
        """Tokens that close the thinking and open a forced answer, under the profile."""
        self.answer_header = len(self._encode(self.format.answer_header))

    def _encode(self, text: str) -> TokenIds:
        return tuple(self.tokenizer.encode(text, add_special_tokens=False))

    def prompt(self, messages: Sequence[Message]) -> TokenIds:
        """A conversation in the chat template, up to where the model begins.

        Raises:
            RequestRefused: the chat template does not accept these messages, or their text turns
                thinking on or off.
        """
        ids = self._conversations.encode(messages, self.variables)
        last = self._last_markup(ids)
        if last != self._last and not self._markers.isdisjoint((last, self._last)):
            raise RequestRefused(
                "messages",
                f"the prompt of these messages ends with {self._shown(last)}, and other prompts "
                f"end with {self._shown(self._last)}, so thinking would not be as configured: "
                "remove words such as /think and /no_think, and end with a user message",
            )
        return ids

    def _last_markup(self, ids: Sequence[int]) -> int | None:
        """The last token of markup; the text of a question has none."""
        return next((id_ for id_ in reversed(ids) if id_ in self._markup), None)

    def _shown(self, id_: int | None) -> str:
        return "no special token" if id_ is None else repr(self.tokenizer.decode([id_]))

    def close(self, text: str = "", after: TokenIds | None = None) -> TokenIds:
        """Tokens that lead from the thinking to the answer, then `text` as its beginning.

        Args:
            text: the beginning of the answer.
            after: every token of the sample so far; None for thinking that is open.
        """
        lead = self.format.closing
        if after is not None:
            reader = self.reader()
            reader.read(after)
            lead = self.format.lead(reader.place, is_empty=not after)
        return self._encode(self.format.suffix(lead, text) if text else lead)

    def reader(self) -> Reader:
        """A reader for a sample, which goes on where its prompt ends."""
        reader = self.format.reader(self.tokenizer)
        reader.read(self._tail)
        return reader if reader.is_open else self.format.reader(self.tokenizer)

    def ends(self, budget: Budget, *, answers: bool) -> tuple[int, tuple[int, ...]]:
        """Where a sample ends: after so many tokens, or at any of these ids.

        A stop id follows the budget. A natural end is followed by the token that closes the
        thinking, the header of the answer in formats that have one, and the model's own answer.
        Without `answers`, the sample ends with its thinking, as far as the format marks that.
        """
        if answers or self.think_end is None:
            return budget.thinking + self.answer_header + budget.answer + 2, tuple(self._stops)
        return budget.thinking + 2, (*self._stops, self.think_end)

    def sampled(self, ids: Sequence[int]) -> Sequence[int]:
        """New ids without the id that stopped the request."""
        return ids[:-1] if ids and ids[-1] in self._stops else ids

    def stream(self, *, text: bool, after: TokenIds = ()) -> RolloutCount:
        """The tokens of one sample as they arrive, with or without their text.

        They come after the reasoning tokens `after`.
        """
        if not text:
            return RolloutCount(self.think_end)
        stream = RolloutStream(self.tokenizer, self.reader(), self.think_end)
        for id_ in after:  # one by one, as they came: half a character holds a whole piece back
            stream.push((id_,))
        return stream

    def answer(self, ids: Sequence[int]) -> str:
        """The text of an answer, without special tokens."""
        text: str = self.tokenizer.decode(ids, skip_special_tokens=True)
        return text

    def continuation(self, ids: Sequence[int], after: Sequence[int]) -> str:
        """The text that follows these tokens of a sample, without markup."""
        reader = self.reader()
        reader.read(after)
        plain = () if reader.is_open else (Part.THINKING,)
        return self.answer(texts_of(reader, ids, Part.ANSWER, *plain))

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """What each token of an answer adds to its text."""
        stream = TextStream(self.tokenizer, skip_special_tokens=True)
        pieces = [stream.push([id_]) for id_ in ids]
        if pieces:
            pieces[-1] += stream.flush()
        return pieces

    def rollout(
        self,
        ids: Sequence[int],
        stop_reason: int | str | None,
        budget: Budget,
        *,
        is_cut: bool = False,
    ) -> Rollout:
        """Separates the reasoning from the stop id, the markup and the model's own answer.

        Args:
            ids: every id generated for one sample.
            stop_reason: the id that stopped the request, as vLLM reports it.
            budget: token budget of the generation.
            is_cut: whether the token limit ended the request.

        Returns:
            The rollout, without its readings. Its text has no markup; its tokens have it.
        """
        kept, answer, discarded, exit_ = list(ids), list[int](), 1, ExitReason.NATURAL
        is_closed = False
        if stop_reason in (self.stop_high, self.stop_low):
            kept.pop()
            exit_ = ExitReason.HIGH if stop_reason == self.stop_high else ExitReason.LOW
            if len(kept) >= budget.thinking:
                exit_ = ExitReason.BUDGET
        elif self.think_end is not None and self.think_end in kept:
            end = kept.index(self.think_end)
            kept, answer, is_closed = kept[:end], kept[end + 1 :], True
        elif kept and kept[-1] in self.end_ids:
            kept.pop()
        else:
            discarded = 0
        reader = self.reader()
        text = texts_of(reader, kept, Part.THINKING, Part.ANSWER)
        own = list[int]()
        if is_closed:
            reader.read(ids[len(kept) : len(kept) + 1])
            own = texts_of(reader, answer, Part.ANSWER)
        elif exit_ is ExitReason.NATURAL:
            # A completion without markup is both the rollout and the answer. So is an answer
            # without thinking before it.
            own = kept if not reader.is_open else texts_of(self.reader(), kept, Part.ANSWER)
        return Rollout(
            tokens=tuple(kept),
            text=self.tokenizer.decode(text),
            exit=exit_,
            readings=(),
            answer_text=self.answer(own) if own else None,
            answer_tokens=len(answer),
            discarded=discarded,
            answer_complete=not is_cut,
        )
