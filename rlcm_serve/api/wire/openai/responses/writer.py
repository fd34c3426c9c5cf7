"""Writes the responses of `/v1/responses`, whole or as a stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from rlcm_serve.api.error_responses import ErrorDocument
from rlcm_serve.api.wire.openai.outcome import Outcome
from rlcm_serve.api.wire.openai.responses.events import EVENTS, ErrorEvent
from rlcm_serve.api.wire.openai.responses.items import (
    OutputMessage,
    OutputRefusal,
    OutputText,
    ReasoningItem,
    ReasoningText,
)
from rlcm_serve.api.wire.openai.responses.request import ResponseRequest, TextOptions
from rlcm_serve.api.wire.openai.responses.response import (
    IncompleteDetails,
    ResponseBody,
    ResponseUsage,
)
from rlcm_serve.api.wire.openai.writer import ResponseWriter, Sent
from rlcm_serve.api.wire.response_format import TextFormat
from rlcm_serve.core import Guarantee, Question

Part = ReasoningText | OutputText | OutputRefusal
_PLAIN = TextOptions(format=TextFormat(type="text"))
_TYPES: dict[type[Part], str] = {
    ReasoningText: "reasoning_text",
    OutputText: "output_text",
    OutputRefusal: "refusal",
}


class ResponsesWriter(ResponseWriter):
    """Writes a response, or its events.

    The output is a reasoning item, if there is any thinking, and a message. A stream writes one
    part of one item at a time.
    """

    id_prefix = "resp_"

    def __init__(self, body: ResponseRequest, question: Question) -> None:
        super().__init__(body, question)
        self._same: dict[str, Any] = {
            "id": self.id,
            "created_at": self.created,
            "model": body.model,
            "instructions": body.instructions,
            "max_output_tokens": body.max_output_tokens,
            "metadata": body.metadata or {},
            "temperature": body.temperature,
            "top_p": body.top_p,
            "text": body.text or _PLAIN,
        }
        self._events = 0
        self._kind: type[Part] | None = None
        self._text = ""
        self._place: dict[str, Any] = {"output_index": -1}

    def _whole(self, outcome: Outcome, guarantee: Guarantee | None) -> str:
        return self._response(outcome).model_dump_json(by_alias=True)

    def _begin(self, guarantee: Guarantee | None) -> Iterator[Sent]:
        begun = ResponseBody(**self._same, status="in_progress", output=[])
        yield self._event("response.created", response=begun)
        yield self._event("response.in_progress", response=begun)

    def _think(self, text: str) -> Iterator[Sent]:
        yield from self._say(ReasoningText, text)

    def _write(self, text: str) -> Iterator[Sent]:
        yield from self._say(OutputText, text)

    def _refuse(self, text: str) -> Iterator[Sent]:
        yield from self._say(OutputRefusal, text)

    def _end(self, outcome: Outcome) -> Iterator[Sent]:
        if outcome.content == "":
            yield from self._turn_to(OutputText)
        response = self._response(outcome)
        yield from self._close(response.output[-1])
        yield self._event(f"response.{response.status}", response=response)

    def failure(self, error: ErrorDocument) -> Sent:
        """The event `error`; clients raise what is inside it."""
        event = ErrorEvent.of(error, self._events)
        return Sent(event.model_dump_json(), event.type)

    def _response(self, outcome: Outcome) -> ResponseBody:
        is_cut = outcome.finish_reason == "length"
        status: Literal["completed", "incomplete"] = "incomplete" if is_cut else "completed"
        part: OutputText | OutputRefusal = (
            OutputRefusal(type="refusal", refusal=outcome.refusal or "")
            if outcome.content is None
            else OutputText(type="output_text", text=outcome.content)
        )
        return ResponseBody(
            **self._same,
            status=status,
            incomplete_details=IncompleteDetails() if is_cut else None,
            output=[
                *([self._thought(outcome.thinking)] if outcome.thinking else []),
                OutputMessage(id=self._id("msg_"), status=status, content=[part]),
            ],
            usage=ResponseUsage.of(outcome.counts),
            rlcm=outcome.rlcm,
        )

    def _thought(self, text: str) -> ReasoningItem:
        content = [ReasoningText(type="reasoning_text", text=text)]
        return ReasoningItem(
            type="reasoning", id=self._id("rs_"), content=content, status="completed"
        )

    def _id(self, prefix: str) -> str:
        return prefix + self.id.removeprefix(self.id_prefix)

    def _say(self, kind: type[Part], text: str) -> Iterator[Sent]:
        """More text in a part of this kind."""
        if not text:
            return
        if self._kind is not kind:
            yield from self._turn_to(kind)
        self._text += text
        yield self._event(f"response.{_TYPES[kind]}.delta", **self._place, delta=text)

    def _turn_to(self, kind: type[Part]) -> Iterator[Sent]:
        """Begins a part, and its item if it is another one than that of the last part."""
        if self._kind in (OutputText, OutputRefusal):  # a refusal after a text withdraws it
            self._place["content_index"] += 1
        else:
            if self._kind is ReasoningText:
                yield from self._close(self._thought(self._text))
            item = (
                ReasoningItem(
                    type="reasoning", id=self._id("rs_"), content=[], status="in_progress"
                )
                if kind is ReasoningText
                else OutputMessage(id=self._id("msg_"), status="in_progress", content=[])
            )
            index = self._place["output_index"] + 1
            self._place = {"item_id": item.id, "output_index": index, "content_index": 0}
            yield self._event("response.output_item.added", output_index=index, item=item)
        self._kind, self._text = kind, ""
        part = _part(kind, "")
        yield self._event("response.content_part.added", **self._place, part=part)

    def _close(self, item: ReasoningItem | OutputMessage) -> Iterator[Sent]:
        """Ends the part and its item, which is complete now."""
        kind = self._kind or OutputText
        said = {"refusal" if kind is OutputRefusal else "text": self._text}
        yield self._event(f"response.{_TYPES[kind]}.done", **self._place, **said)
        part = _part(kind, self._text)
        yield self._event("response.content_part.done", **self._place, part=part)
        index = self._place["output_index"]
        yield self._event("response.output_item.done", output_index=index, item=item)

    def _event(self, name: str, **fields: Any) -> Sent:
        event = EVENTS[name].model_validate(
            {"type": name, "sequence_number": self._events, **fields}
        )
        self._events += 1
        return Sent(event.model_dump_json(by_alias=True), name)


def _part(kind: type[Part], text: str) -> Part:
    named = "refusal" if kind is OutputRefusal else "text"
    return kind.model_validate({"type": _TYPES[kind], named: text})
