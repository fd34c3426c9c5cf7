"""OpenAI's harmony format of gpt-oss: messages in channels.

A completion is `<|channel|>analysis<|message|>...<|end|>`, then
`<|start|>assistant<|channel|>final<|message|>...<|return|>`. Thinking ends with the first
`<|end|>`. The answer is what stands in the channel `final`. Source: https://cookbook.openai.com/articles/openai-harmony
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlcm_serve.engine.thinking.base import Part, Place, Reader, ThinkingFormat, ids_of

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_START, _CHANNEL, _MESSAGE = "<|start|>", "<|channel|>", "<|message|>"
_END, _RETURN, _CALL = "<|end|>", "<|return|>", "<|call|>"
_ANSWER = f"{_CHANNEL}final{_MESSAGE}"
_NEXT_ANSWER = f"{_START}assistant{_ANSWER}"


class _HarmonyReader(Reader):
    """Follows the messages. Everything from the end of one to the text of the next is markup."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self._tokenizer = tokenizer
        names = (_START, _CHANNEL, _MESSAGE, _END, _RETURN, _CALL)
        self._name_of = {id_: name for name, id_ in ids_of(tokenizer, names).items()}
        self._header: list[int] = []
        self.markup = frozenset(self._name_of)

    def push(self, token: int) -> Part:
        """Text is answer in the channel `final` and in a message without a channel."""
        match self._name_of.get(token), self.place:
            case None, Place.HEADER:
                self._header.append(token)
            case None, Place.ANSWER:
                return Part.ANSWER
            case None, Place.START | Place.THINKING:
                return Part.THINKING
            case name, _ if name == _CHANNEL:
                self._header, self.place = [], Place.HEADER
            case name, _ if name == _MESSAGE:
                words = self._tokenizer.decode(self._header).split()
                is_answer = not words or words[0] == "final"
                self._header, self.place = [], Place.ANSWER if is_answer else Place.THINKING
            case name, _ if name is not None:
                self.place = Place.BETWEEN
        return Part.MARKUP


class HarmonyFormat(ThinkingFormat):
    """Thinking in the channel `analysis`, answer in the channel `final`."""

    name = "openai_gptoss"
    tokens = (_START, _CHANNEL, _MESSAGE, _END, _RETURN)
    start = _CHANNEL
    end = _END
    stops = (_RETURN,)
    closing = f"{_END}{_NEXT_ANSWER}"
    answer_header = _NEXT_ANSWER

    def reader(self, tokenizer: PreTrainedTokenizerBase) -> Reader:
        """A reader that follows the messages."""
        return _HarmonyReader(tokenizer)

    def lead(self, place: Place, *, is_empty: bool) -> str:
        """Ends the message if it is thinking, and opens the channel `final`."""
        if place is Place.THINKING:
            return self.closing
        if place is Place.HEADER:
            return f"{_MESSAGE}{self.closing}"
        if place is Place.BETWEEN:
            return _NEXT_ANSWER
        return _ANSWER if place is Place.START and is_empty else ""

    def suffix(self, lead: str, text: str) -> str:
        """A new message begins with its text; inside a message, the text is on a new line."""
        return f"{lead}{text}" if lead else f"\n{text}"
