"""What is kept of a rollout: enough to give any source of confidence, any vote, any curve."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Self

from rlcm_serve.recording.recorder import Key


@dataclass(frozen=True, slots=True)
class EvaluationReading:
    """The state after `tokens` reasoning tokens: what it says of itself, what it would answer.

    Attributes:
        tokens: of reasoning, so far.
        signals: the online sources, by name; those that the engine cannot read are left out.
        answers: forced here, K of them; None where none can be read.
        answer_tokens: generated for each of them.
        answer_probability: of the first one's own tokens; None without an answer.
        entropy: of the next token once the thinking is closed, nats; None where it never is.
        verbalised: what the model says when it is asked how sure it is of the first answer.
        verbalised_tokens: generated to say it.
    """

    tokens: int
    signals: dict[str, float]
    answers: tuple[str | None, ...]
    answer_tokens: tuple[int, ...]
    answer_probability: float | None
    entropy: float | None
    verbalised: float | None
    verbalised_tokens: int


@dataclass(frozen=True, slots=True)
class EvaluationRollout:
    """One rollout at full budget; its last reading is the final one.

    Attributes:
        text: the reasoning.
        tokens: of it.
        natural: it ended by itself, not by the budget.
        own_text: what the model wrote after it; None if it wrote nothing.
        own_answer: found in it.
        own_tokens: of it.
        own_verbalised: the confidence it stated there by itself.
    """

    problem_id: str
    rollout: int
    text: str
    tokens: int
    natural: bool
    own_text: str | None
    own_answer: str | None
    own_tokens: int
    own_verbalised: float | None
    readings: tuple[EvaluationReading, ...]

    @property
    def key(self) -> Key:
        return self.problem_id, self.rollout

    def given(self, at: int) -> tuple[str | None, int]:
        """The answer given if it stops at reading `at`, and the tokens generated for it.

        The model's own at the end, if it wrote one; else the first forced one (RLCM App. A).
        """
        reading = self.readings[at]
        if at == len(self.readings) - 1:
            if self.own_answer is not None:
                return self.own_answer, self.own_tokens
            return reading.answers[0], self.own_tokens + reading.answer_tokens[0]
        return reading.answers[0], reading.answer_tokens[0]

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, plain: dict[str, Any]) -> Self:
        """The record of `to_json`."""
        readings = tuple(
            EvaluationReading(
                **reading
                | {
                    "answers": tuple(reading["answers"]),
                    "answer_tokens": tuple(reading["answer_tokens"]),
                }
            )
            for reading in plain["readings"]
        )
        return cls(**plain | {"readings": readings})
