"""Wire types of `GET /answers`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from rlcm_serve.api.wire.base import Wire

_ID = "chatcmpl-019aae2fb9c09f86d081884c7d659a2f"
_TIME = "2026-01-12T09:31:40.120+00:00"


class RecentAnswer(Wire):
    """An answer or an abstention, and what is known of it."""

    id: str = Field(examples=[_ID])
    """Id of the answer."""
    asked: str = Field(examples=["2026-01-12T09:31:38.770+00:00"])
    """When the question was asked, as an ISO 8601 time in UTC."""
    time: str = Field(examples=[_TIME])
    """When the answer was given, as an ISO 8601 time in UTC."""
    key: str | None = Field(examples=["9f2c01ab"])
    """Id of the API key that asked; null where no key is needed."""
    kind: str | None = Field(examples=[None])
    """Kind of the question; null if it named none."""
    profile: str = Field(examples=["default"])
    """Prompt profile under which the question was answered."""
    risk: str = Field(examples=["selective"])
    """What alpha limits."""
    certificate: str | None = Field(examples=["571b667eda0c"])
    """Id of the certificate that covers the answer; null without a guarantee."""
    alpha: float | None = Field(examples=[0.1])
    """Certified level that the question was served at; null without a guarantee."""
    outcome: Literal["answered", "abstained"] = Field(examples=["answered"])
    """Whether an answer was given."""
    confidence: float = Field(examples=[0.97])
    """Confidence at the exit, also of an abstention; with several samples, the winner's share of
    the vote.
    """
    tokens: int = Field(examples=[132])
    """Number of reasoning and answer tokens of all samples."""
    familiarity: float | None = Field(examples=[0.94])
    """Familiarity of the question; null if it was not read."""
    audit: bool = Field(examples=[True])
    """Whether the answer was drawn for audit. An abstention needs a label only under
    `regret`, and for a fresh certificate in place of a withdrawn one.
    """
    due: str = Field(examples=["2026-01-19T09:31:40.120+00:00"])
    """When a label must be in to count in the test, as an ISO 8601 time in UTC."""
    label: Literal["right", "wrong"] | None = Field(examples=["right"])
    """What its last label says; null without one."""
    tested: bool = Field(examples=[True])
    """Whether its label counts in the test of its level. Under `regret`, that takes a result of the
    full budget, and a label that says which of both answers is right.
    """
    question: str | None = Field(examples=[None])
    """Text of the question; null where the service keeps no texts, and for a key that neither asked
    nor has the scope `admin`.
    """
    answer: str | None = Field(examples=[None])
    """The answer; null where `question` is."""
    record: str | None = Field(examples=[f"/answers/{_ID}"])
    """Path of its record, with its readings; null where no records are kept, and for a key that may
    not read it.
    """


class RecentAnswers(Wire):
    """The latest answers, the newest first."""

    answers: list[RecentAnswer] = Field(examples=[[RecentAnswer.example()]])
    """At most `limit` of them. There may be fewer, or none, although there are more."""
    next: int | None = Field(examples=[8412])
    """Give it as `before` to see earlier answers; null if there are none."""
