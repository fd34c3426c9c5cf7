"""Wire types of the events that `/solve` streams."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from rlcm_serve.api.wire import terms
from rlcm_serve.api.wire.base import Wire
from rlcm_serve.api.wire.solution import CheckpointBody, GuaranteeBody, SampleBody
from rlcm_serve.core import NoGuarantee
from rlcm_serve.events import (
    CheckpointEvent,
    Event,
    ExitEvent,
    SampleEvent,
    TokenEvent,
    VoteEvent,
)
from rlcm_serve.solving.solver import Prepared

SampleNumber = Annotated[
    int, Field(ge=0, description="Number of the sample, counted from 0.", examples=[0])
]


class StartBody(Wire):
    """Event `start`: the service begins to answer. It names the policy and the guarantee."""

    id: terms.AnswerId
    samples: int = Field(examples=[4])
    """Number of samples that are generated."""
    max_tokens: int = Field(examples=[256])
    """Thinking budget of one sample, in tokens."""
    policy: dict[str, bool | int | float] | None = Field(
        examples=[{"lambda_low": 0.04, "patience": 128, "lambda_high": 0.97}]
    )
    """The exit policy: `lambda_low` is λ1 and `lambda_high` is λ2. Null if the service abstains
    without generating a sample.
    """
    guarantee: GuaranteeBody | None = Field(examples=[None])
    """The guarantee that covers the answer; null if none does."""
    no_guarantee_reason: str | None = Field(examples=[None])
    """Why no guarantee covers the answer; null if one does."""
    no_guarantee_code: NoGuarantee | None = Field(default=None, examples=[None])
    """The same in one word, as in the event `done`."""
    profile: str = Field(examples=["default"])
    """Prompt profile under which the question is answered."""

    @classmethod
    def from_prepared(cls, prepared: Prepared, id_: str = "") -> StartBody:
        """The first event of a question that is about to be answered."""
        under = prepared.terms
        return cls(
            id=id_,
            samples=prepared.question.samples,
            max_tokens=under.budget.thinking,
            policy=None if under.policy is None else under.policy.to_scalars(),
            guarantee=GuaranteeBody.of(under.guarantee),
            no_guarantee_reason=under.no_guarantee_reason,
            no_guarantee_code=under.no_guarantee_code,
            profile=under.asked.profile.name,
        )


class TokenBody(Wire):
    """Event `token`: text that a sample generated. Sent if `stream_tokens` is true."""

    sample: SampleNumber
    tokens: int = Field(examples=[1])
    """Number of tokens in this event."""
    text: str = Field(examples=[" up"])
    """The generated text."""
    is_answer: bool = Field(examples=[False])
    """Whether the text belongs to the answer that the model writes after its thinking."""


class CheckpointEventBody(CheckpointBody):
    """Event `checkpoint`: a confidence reading."""

    sample: SampleNumber


class ExitBody(Wire):
    """Event `exit`: a sample stopped thinking."""

    sample: SampleNumber
    exit: Literal["high", "low", "natural", "budget"] = Field(examples=["high"])
    """Why the thinking ended: `high` or `low` confidence, `natural` end, or `budget` used up."""
    tokens: int = Field(examples=[128])
    """Number of reasoning tokens."""
    confidence: float | None = Field(examples=[0.97])
    """Confidence of the sample when its thinking ended."""


class SampleEventBody(SampleBody):
    """Event `sample`: a sample finished or was cancelled."""

    sample: SampleNumber


class VoteBody(Wire):
    """Event `vote`: the vote so far."""

    counted: int = Field(examples=[3])
    """Number of samples that have finished."""
    samples: int = Field(examples=[4])
    """Number of samples of the question."""
    tally: dict[str, float] = Field(examples=[{"8": 2.71}])
    """Total weight of each answer in the vote."""
    leader: str | None = Field(examples=["8"])
    """The answer with the largest weight; null if there is none yet."""
    share: float = Field(examples=[0.96])
    """The leading answer's share of the total weight."""
    decided: bool = Field(examples=[True])
    """Whether the remaining samples can no longer change the result."""


EVENTS: dict[str, type[Wire]] = {
    "start": StartBody,
    "token": TokenBody,
    "checkpoint": CheckpointEventBody,
    "exit": ExitBody,
    "sample": SampleEventBody,
    "vote": VoteBody,
}
"""What each event of a stream carries, by its name, up to the last one."""


def body_of(event: Event, return_trace: bool = False) -> tuple[str, Wire]:
    """The name of an event in the stream, and its content."""
    match event:
        case TokenEvent():
            return "token", TokenBody.model_validate(event)
        case CheckpointEvent(sample, at):
            body = CheckpointEventBody(
                sample=sample, tokens=at.tokens, confidence=at.confidence, is_final=at.is_final
            )
            return "checkpoint", body
        case ExitEvent(sample, exit_, tokens, confidence):
            stopped = ExitBody(
                sample=sample, exit=exit_.value, tokens=tokens, confidence=confidence
            )
            return "exit", stopped
        case SampleEvent(sample, result):
            ended = SampleBody.from_sample(result, return_trace)
            return "sample", SampleEventBody(sample=sample, **dict(ended))
        case VoteEvent():
            return "vote", VoteBody.model_validate(event)
