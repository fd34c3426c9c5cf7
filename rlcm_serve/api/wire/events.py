"""What a stream of `/solve` sends: one wire type for each kind of server-sent event."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from rlcm_serve.api.wire.base import Wire
from rlcm_serve.api.wire.solution import CheckpointBody, GuaranteeBody, SampleBody
from rlcm_serve.events import (
    CheckpointEvent,
    Event,
    ExitEvent,
    SampleEvent,
    TokenEvent,
    VoteEvent,
)
from rlcm_serve.solving.solver import Prepared

SampleNumber = Annotated[int, Field(ge=0, description="Number of the sample.", examples=[0])]


class StartBody(Wire):
    """`start`: the question was taken; what it is answered under, and the thresholds in force."""

    samples: Annotated[int, Field(description="Samples drawn.", examples=[4])]
    max_tokens: Annotated[int, Field(description="Thinking budget of a sample.", examples=[256])]
    policy: Annotated[
        dict[str, bool | int | float] | None,
        Field(
            description="The exit policy, λ1 is lambda_low and λ2 lambda_high; null if the service "
            "abstains without drawing a sample.",
            examples=[{"lambda_low": 0.04, "patience": 128, "lambda_high": 0.97}],
        ),
    ]
    guarantee: Annotated[
        GuaranteeBody | None, Field(description="As in the response.", examples=[None])
    ]
    no_guarantee_reason: Annotated[
        str | None, Field(description="As in the response.", examples=[None])
    ]

    @classmethod
    def from_prepared(cls, prepared: Prepared) -> StartBody:
        """Of a question that is about to be answered."""
        terms = prepared.terms
        promised = terms.guarantee
        return cls(
            samples=prepared.question.samples,
            max_tokens=terms.budget.thinking,
            policy=None if terms.policy is None else terms.policy.to_scalars(),
            guarantee=None if promised is None else GuaranteeBody.model_validate(promised),
            no_guarantee_reason=terms.no_guarantee_reason,
        )


class TokenBody(Wire):
    """`token`: text that a sample has drawn, if stream_tokens asked for it."""

    sample: SampleNumber
    tokens: Annotated[int, Field(description="How many these are.", examples=[1])]
    text: Annotated[str, Field(description="What they say.", examples=[" up"])]
    is_answer: Annotated[
        bool,
        Field(
            description="Whether this is not thinking, but what the model writes after it.",
            examples=[False],
        ),
    ]


class CheckpointEventBody(CheckpointBody):
    """`checkpoint`: a reading of the probe."""

    sample: SampleNumber


class ExitBody(Wire):
    """`exit`: a sample has stopped thinking."""

    sample: SampleNumber
    exit: Annotated[
        Literal["high", "low", "natural", "budget"],
        Field(description="Why.", examples=["high"]),
    ]
    tokens: Annotated[int, Field(description="Reasoning tokens.", examples=[128])]
    confidence: Annotated[float | None, Field(description="The reading there.", examples=[0.97])]


class SampleEventBody(SampleBody):
    """`sample`: a sample has ended, or was cancelled."""

    sample: SampleNumber


class VoteBody(Wire):
    """`vote`: the vote so far."""

    counted: Annotated[int, Field(description="Samples that have ended.", examples=[3])]
    samples: Annotated[int, Field(description="Samples asked for.", examples=[4])]
    tally: Annotated[
        dict[str, float], Field(description="The weight of each answer.", examples=[{"8": 2.71}])
    ]
    leader: Annotated[
        str | None, Field(description="The answer with the most weight.", examples=["8"])
    ]
    share: Annotated[float, Field(description="Its share of all weight.", examples=[0.96])]
    decided: Annotated[
        bool,
        Field(
            description="Whether no other sample can change the answer, or that none is given.",
            examples=[True],
        ),
    ]


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
    """An event's name in the stream, and what is sent of it."""
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
