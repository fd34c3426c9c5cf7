"""What is asked of `/solve`, and of the chat interface."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, model_validator
from pydantic.config import JsonDict

from rlcm_serve.api.wire.base import Wire
from rlcm_serve.core import (
    MAX_SAMPLES,
    MAX_TEMPERATURE,
    Message,
    OnInfeasible,
    Question,
    RiskName,
    Role,
    VoteRule,
)

PROBLEM = "A dial shows 3. A up 5. B down 3. C up 9. D up 4. What does it show now?"
MAX_SEED = 2**53 - 1
"""What every reader of JSON holds exactly, OpenAPI documents included."""


class MessageBody(Wire):
    """One turn of a conversation."""

    role: Annotated[
        Literal["system", "user", "assistant"],
        Field(description="Who says it.", examples=["user"]),
    ]
    content: Annotated[str, Field(description="What is said.", examples=[PROBLEM])]

    def to_message(self) -> Message:
        """In the service's own terms."""
        return Message(Role(self.role), self.content)


class QuestionSettings(Wire):
    """How a question is to be answered: what `/solve` and the chat interface have in common."""

    vote: Annotated[
        Literal["confidence", "majority"],
        Field(description="How samples are merged (RLCM §5.2).", examples=["confidence"]),
    ] = "confidence"
    risk: Annotated[
        Literal["selective", "error", "regret"],
        Field(
            description="What alpha bounds: of the questions answered, the share answered wrong "
            "(selective); of all questions, the share answered wrong (error); of all questions, "
            "the share that only the full budget answers right (regret).",
            examples=["selective"],
        ),
    ] = "selective"
    max_tokens: Annotated[
        int | None,
        Field(
            ge=1,
            description="Thinking budget of one sample, in tokens; by default the engine's, which "
            "is the certified one.",
            examples=[256],
        ),
    ] = None
    temperature: Annotated[
        float | None,
        Field(
            ge=0,
            le=MAX_TEMPERATURE,
            description="Of the sampling, 0 is greedy; by default the certified one.",
            examples=[0.8],
        ),
    ] = None
    top_p: Annotated[
        float | None,
        Field(
            gt=0, le=1, description="Of the sampling; by default the certified one.", examples=[1.0]
        ),
    ] = None
    seed: Annotated[
        int | None,
        Field(
            ge=0,
            le=MAX_SEED,
            description="Of the sampling, where the engine can honour one; else 422.",
            examples=[7],
        ),
    ] = None
    on_infeasible: Annotated[
        Literal["error", "full_budget", "abstain"],
        Field(
            description="If no policy is certified at alpha: a 409, an answer at the full budget "
            "without a guarantee, or an abstention that costs nothing.",
            examples=["error"],
        ),
    ] = "error"
    timeout_s: Annotated[
        float | None,
        Field(
            gt=0,
            description="Seconds for all of it, waiting included; by default the server's limit.",
            examples=[60.0],
        ),
    ] = None
    stop_when_decided: Annotated[
        bool,
        Field(
            description="End samples that can change neither the winner nor the abstention, "
            "unless the server is set never to.",
            examples=[True],
        ),
    ] = True

    def question(self, messages: list[Message], alpha: float, samples: int) -> Question:
        """The question that `messages` ask under these settings.

        Raises:
            RequestRefused: a value is out of range.
        """
        return Question.of_conversation(
            messages,
            alpha=alpha,
            samples=samples,
            vote=VoteRule(self.vote),
            risk=RiskName(self.risk),
            max_tokens=self.max_tokens,
            temperature=self.temperature,
            top_p=self.top_p,
            seed=self.seed,
            on_infeasible=OnInfeasible(self.on_infeasible),
            timeout=self.timeout_s,
            stop_when_decided=self.stop_when_decided,
        )


_ONE_OF_TWO: JsonDict = {
    "oneOf": [
        {"required": [given], "properties": {given: {"type": kind}, other: {"type": "null"}}}
        for given, other, kind in (
            ("problem", "messages", "string"),
            ("messages", "problem", "array"),
        )
    ]
}
_TOKENS_NEED_A_STREAM: JsonDict = {
    "if": {"properties": {"stream_tokens": {"const": True}}, "required": ["stream_tokens"]},
    "then": {"properties": {"stream": {"const": True}}, "required": ["stream"]},
}


class SolveRequest(QuestionSettings):
    """A problem, and the risk accepted for it. Give `problem` or `messages`."""

    # What `_ask_once` checks, for those who read the schema.
    model_config = ConfigDict(json_schema_extra=_ONE_OF_TWO | _TOKENS_NEED_A_STREAM)

    problem: Annotated[
        str | None,
        Field(
            min_length=1,
            description="The problem, in words.",
            examples=[PROBLEM],
            json_schema_extra={"pattern": r"\S"},
        ),
    ] = None
    messages: Annotated[
        list[MessageBody] | None,
        Field(
            min_length=1,
            description="A conversation whose last message asks the question. A single user "
            "message is the same as `problem`; with anything before it there is no guarantee.",
            examples=[[{"role": "user", "content": PROBLEM}]],
        ),
    ] = None
    alpha: Annotated[float, Field(gt=0, lt=1, description="The accepted risk.", examples=[0.1])]
    n: Annotated[
        int, Field(ge=1, le=MAX_SAMPLES, description="Samples, merged by voting.", examples=[4])
    ] = 1
    return_trace: Annotated[
        bool,
        Field(
            description="Also return what each sample thought, and every confidence read.",
            examples=[False],
        ),
    ] = False
    stream: Annotated[
        bool,
        Field(description="Answer with server-sent events.", examples=[False]),
    ] = False
    stream_tokens: Annotated[
        bool,
        Field(description="Of a stream: also send the text as it is drawn.", examples=[False]),
    ] = False

    @model_validator(mode="after")
    def _ask_once(self) -> Self:
        if (self.problem is None) == (self.messages is None):
            raise ValueError("give problem or messages, one of the two")
        if self.stream_tokens and not self.stream:
            raise ValueError("stream_tokens is for a stream: set stream as well")
        return self

    def to_question(self) -> Question:
        """The question in the service's own terms.

        Raises:
            RequestRefused: a value is out of range.
        """
        asked = [Message(Role.USER, self.problem)] if self.problem is not None else []
        messages = [*asked, *(m.to_message() for m in self.messages or ())]
        return self.question(messages, self.alpha, self.n)
