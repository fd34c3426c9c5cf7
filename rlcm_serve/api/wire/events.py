"""Wire types of the events that `/solve` streams."""

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

SampleNumber = Annotated[
    int, Field(ge=0, description="Number of the sample, counted from 0.", examples=[0])
]


class StartBody(Wire):
    """Event `start`: the service begins to answer. It names the policy and the guarantee."""

    samples: Annotated[
        int, Field(description="Number of samples that are generated.", examples=[4])
    ]
    max_tokens: Annotated[
        int, Field(description="Thinking budget of one sample, in tokens.", examples=[256])
    ]
    policy: Annotated[
        dict[str, bool | int | float] | None,
        Field(
            description="The exit policy: `lambda_low` is λ1 and `lambda_high` is λ2. Null if "
            "the service abstains without generating a sample.",
            examples=[{"lambda_low": 0.04, "patience": 128, "lambda_high": 0.97}],
        ),
    ]
    guarantee: Annotated[
        GuaranteeBody | None,
        Field(
            description="The guarantee that covers the answer; null if none does.", examples=[None]
        ),
    ]
    no_guarantee_reason: Annotated[
        str | None,
        Field(description="Why no guarantee covers the answer; null if one does.", examples=[None]),
    ]

    @classmethod
    def from_prepared(cls, prepared: Prepared) -> StartBody:
        """Of a question that is about to be answered."""
        terms = prepared.terms
        return cls(
            samples=prepared.question.samples,
            max_tokens=terms.budget.thinking,
            policy=None if terms.policy is None else terms.policy.to_scalars(),
            guarantee=GuaranteeBody.of(terms.guarantee),
            no_guarantee_reason=terms.no_guarantee_reason,
        )


class TokenBody(Wire):
    """Event `token`: text that a sample generated. Sent if `stream_tokens` is true."""

    sample: SampleNumber
    tokens: Annotated[int, Field(description="Number of tokens in this event.", examples=[1])]
    text: Annotated[str, Field(description="The generated text.", examples=[" up"])]
    is_answer: Annotated[
        bool,
        Field(
            description="Whether the text belongs to the answer that the model writes after its"
            " thinking.",
            examples=[False],
        ),
    ]


class CheckpointEventBody(CheckpointBody):
    """Event `checkpoint`: a confidence reading."""

    sample: SampleNumber


class ExitBody(Wire):
    """Event `exit`: a sample stopped thinking."""

    sample: SampleNumber
    exit: Annotated[
        Literal["high", "low", "natural", "budget"],
        Field(
            description="Why the thinking ended: `high` or `low` confidence, `natural` end, or "
            "`budget` used up.",
            examples=["high"],
        ),
    ]
    tokens: Annotated[int, Field(description="Number of reasoning tokens.", examples=[128])]
    confidence: Annotated[
        float | None,
        Field(description="Confidence of the sample when its thinking ended.", examples=[0.97]),
    ]


class SampleEventBody(SampleBody):
    """Event `sample`: a sample finished or was cancelled."""

    sample: SampleNumber


class VoteBody(Wire):
    """Event `vote`: the vote so far."""

    counted: Annotated[
        int, Field(description="Number of samples that have finished.", examples=[3])
    ]
    samples: Annotated[int, Field(description="Number of samples of the question.", examples=[4])]
    tally: Annotated[
        dict[str, float],
        Field(description="Total weight of each answer in the vote.", examples=[{"8": 2.71}]),
    ]
    leader: Annotated[
        str | None,
        Field(
            description="The answer with the largest weight; null if there is none yet.",
            examples=["8"],
        ),
    ]
    share: Annotated[
        float, Field(description="The leading answer's share of the total weight.", examples=[0.96])
    ]
    decided: Annotated[
        bool,
        Field(
            description="Whether the remaining samples can no longer change the result.",
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
