"""The text of an answer on its way to a client, cut at the request's stop sequences."""

from __future__ import annotations

from collections.abc import Sequence

from calibration import ExitPolicy
from rlcm_serve.core import Reading
from rlcm_serve.events import CheckpointEvent, Event, TokenEvent
from rlcm_serve.solving.sample import answers_at_last


def cut_at(text: str, stops: Sequence[str], start: int = 0) -> str:
    """The text up to the stop sequence that is complete first, as for one who reads along.

    Those that begin before `start` do not count.
    """
    found = ((at + len(stop), at) for stop in stops if (at := text.find(stop, start)) >= 0)
    return text[: min(found, default=(len(text), len(text)))[1]]


class AnswerStream:
    """The text that one sample writes after its thinking, once it is certain to be given.

    Whether an answer is given is known at the last reading, where the thinking ends. Until then
    the text waits. The pieces that `take` and `rest` return add up to the text of the response.

    Args:
        policy: of the question; None if no text is an answer before the end.
        stops: stop sequences; text that may be the start of one waits.
    """

    def __init__(self, policy: ExitPolicy | None, stops: Sequence[str] = ()) -> None:
        self._policy, self._stops = policy, stops
        self._readings: list[Reading] = []
        self._is_given = False
        self._written = ""
        self._sent = 0

    def take(self, event: Event) -> str:
        """The text that can be sent after this event; often empty."""
        match event:
            case CheckpointEvent(checkpoint=reading):
                self._readings.append(reading)
                self._is_given = (
                    reading.is_final
                    and self._policy is not None
                    and answers_at_last(self._policy, self._readings)
                )
            case TokenEvent(text=text, is_answer=True):
                # White space around the text is not part of it.
                self._written = (self._written + text) if self._written else text.lstrip()
            case _:
                return ""
        return self._send(self._safe()) if self._is_given else ""

    def rest(self, text: str) -> str:
        """What is left to send of the whole text, which was cut already."""
        return self._send(text)

    def _send(self, text: str) -> str:
        new = text[self._sent :]
        self._sent += len(new)
        return new

    def _safe(self) -> str:
        """The text so far without an end that may change: blanks, or the start of a stop.

        What was sent has no start of a stop at its end, so stops are looked for after it.
        """
        text = self._written.rstrip()
        if len(cut := cut_at(text, self._stops, self._sent)) < len(text):
            return cut
        begun = (
            length
            for stop in self._stops
            for length in range(1, len(stop))
            if text.endswith(stop[:length])
        )
        return text[: len(text) - max(begun, default=0)]
