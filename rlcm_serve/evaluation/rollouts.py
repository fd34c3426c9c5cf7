"""Rollouts recorded for evaluation: enough for every source of confidence, vote and curve."""

from __future__ import annotations

import msgspec

from rlcm_serve.recording.rollouts import FullBudgetRollout


class EvaluationReading(msgspec.Struct, frozen=True, omit_defaults=True):
    """One reading: its signals, and the answers that a stop there could give.

    Attributes:
        tokens: reasoning tokens before the reading.
        signals: online sources of confidence by name; absent where the engine cannot read them.
        answers: K forced answers; None where no answer can be read.
        answer_tokens: generated for each answer.
        answer_probability: probability of the first answer's tokens; None without an answer.
        entropy: of the next token after the thinking is closed, in nats; None if not recorded.
        verbalized: confidence in [0, 1] that the model states for the first answer, or None.
        verbalized_tokens: generated to state it.
        suffix_tokens: inserted to force an answer; None in recordings from before they were kept.
    """

    tokens: int
    signals: dict[str, float]
    answers: tuple[str | None, ...]
    answer_tokens: tuple[int, ...]
    answer_probability: float | None
    entropy: float | None
    verbalized: float | None = msgspec.field(name="verbalised")
    verbalized_tokens: int = msgspec.field(name="verbalised_tokens")
    suffix_tokens: int | None = None


class EvaluationRollout(FullBudgetRollout, frozen=True, omit_defaults=True):
    """One rollout at full budget, not graded yet; its last reading is the final one.

    Stored files keep the names `verbalised`, `verbalised_tokens` and `own_verbalised`.

    Attributes:
        text: the reasoning.
        tokens: reasoning tokens.
        natural: the model ended its reasoning before the budget did.
        own_text: what the model wrote after its reasoning; None if it wrote nothing.
        own_answer: the answer in `own_text`.
        own_tokens: generated for `own_text`.
        own_verbalized: the confidence stated in `own_text`.
        familiarity: p-value of the question's familiarity; None if it was not read.
    """

    text: str
    tokens: int
    natural: bool
    own_text: str | None
    own_answer: str | None
    own_tokens: int
    readings: tuple[EvaluationReading, ...]
    own_verbalized: float | None = msgspec.field(name="own_verbalised")
    familiarity: float | None = None

    def answer_at(self, at: int) -> tuple[str | None, int]:
        """The answer if the rollout stops at reading `at`, and the tokens generated for it.

        At the final reading this is the model's own answer if it wrote one. Otherwise it is the
        first forced answer (RLCM App. A).
        """
        reading = self.readings[at]
        if at < len(self.readings) - 1:
            return reading.answers[0], reading.answer_tokens[0]
        if self.own_answer is not None:
            return self.own_answer, self.own_tokens
        return reading.answers[0], self.own_tokens + reading.answer_tokens[0]

    def suffix_at(self, at: int) -> int | None:
        """Tokens inserted to force the answer of `answer_at`; None if they were not recorded."""
        if at == len(self.readings) - 1 and self.own_answer is not None:
            return 0
        return self.readings[at].suffix_tokens
