"""Wire type of the record of an answer."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from rlcm_serve.api.wire import terms
from rlcm_serve.api.wire.base import Wire

_DIGEST = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"


class RecordedSample(Wire):
    """One sample of a recorded answer."""

    exit: terms.ExitName = Field(examples=["high"])
    """Why the sample's thinking ended."""
    tokens: int = Field(examples=[128])
    """Number of reasoning tokens."""
    answer_sha256: str | None = Field(examples=[_DIGEST])
    """SHA-256 of the sample's answer in UTF-8; null without an answer."""
    readings: list[list[float | None]] = Field(examples=[[[32, 0.41], [64, 0.97]]])
    """Tokens and confidence of each reading."""


class RecordedQuestion(Wire):
    """What the question asked for. Null means the certified setting."""

    alpha: float = Field(examples=[0.1])
    """Accepted risk."""
    risk: str = Field(examples=["selective"])
    """What alpha limits."""
    n: int = Field(examples=[1])
    """Number of samples."""
    vote: str = Field(examples=["confidence"])
    """How samples are merged."""
    max_tokens: int | None = Field(examples=[None])
    """Thinking budget of one sample."""
    temperature: float | None = Field(examples=[None])
    """Sampling temperature."""
    top_p: float | None = Field(examples=[None])
    """Nucleus sampling."""
    seed: int | None = Field(examples=[None])
    """Seed of the sampling."""
    kind: str | None = Field(default=None, examples=[None])
    """Kind of the question; null if it named none."""
    departures: list[str] = Field(default=[], examples=[[]])
    """Why its conversation or its schema is not the profile's; empty in older records."""


class AnswerRecord(Wire):
    """The record of an answer, as it is in the chain."""

    kind: Literal["answer"] = Field(examples=["answer"])
    """Kind of the record."""
    sequence: int = Field(examples=[3])
    """Number of the record in its chain."""
    previous: str = Field(examples=[_DIGEST])
    """Hash of the record before it."""
    hash: str = Field(examples=[_DIGEST])
    """SHA-256 of this record without this field, as JSON with sorted names and without spaces."""
    time: str = Field(examples=["2026-01-12T09:31:40.120+00:00"])
    """When the record was made, as an ISO 8601 time in UTC."""
    id: str = Field(examples=["chatcmpl-019aae2fb9c09f86d081884c7d659a2f"])
    """Id of the answer."""
    key: str | None = Field(examples=["9f2c01ab"])
    """Id of the API key that asked; null where no key is needed."""
    prompt_sha256: str = Field(examples=[_DIGEST])
    """SHA-256 of the messages, as JSON with sorted names and without spaces."""
    answer_sha256: str | None = Field(examples=[_DIGEST])
    """SHA-256 of the answer in UTF-8; null for an abstention."""
    text_sha256: str | None = Field(default=None, examples=[_DIGEST])
    """SHA-256 of the whole text of the answer; null for an abstention, and in older records."""
    abstained: bool = Field(examples=[False])
    """Whether the service abstained."""
    confidence: float | None = Field(examples=[0.97])
    """Confidence in the answer."""
    exit: terms.ExitName | None = Field(examples=["high"])
    """Why the thinking of the answering sample ended."""
    asked: RecordedQuestion = Field(examples=[RecordedQuestion.example()])
    """What the question asked for."""
    policy: dict[str, bool | int | float] | None = Field(examples=[{"lambda_high": 0.97}])
    """The exit policy; null if no sample was generated."""
    certificate: str | None = Field(examples=[_DIGEST])
    """Digest of the certificate that covers the answer; null without a guarantee."""
    alpha_certified: float | None = Field(examples=[0.1])
    """Certified level that the question was served at; null without a guarantee."""
    verified: str | None = Field(examples=["traces"])
    """How the certificate was verified by the service; null without a guarantee."""
    no_guarantee_reason: str | None = Field(examples=[None])
    """Why no guarantee covers the answer; null if one does."""
    engine: str = Field(examples=[_DIGEST])
    """SHA-256 of the engine's fingerprint; a record of kind `engine` in the chain has it in full.
    """
    tokens: dict[str, int] = Field(examples=[{"prompt": 37, "reasoning": 128, "answer": 4}])
    """Number of tokens by kind."""
    samples: list[RecordedSample] = Field(examples=[[RecordedSample.example()]])
    """One entry for each sample."""
    messages: list[dict[str, Any]] | None = Field(
        default=None, examples=[[{"role": "user", "content": "A dial shows 3. A up 5."}]]
    )
    """The messages; only with the setting `evidence_texts`."""
    answer: str | None = Field(default=None, examples=["8"])
    """The answer; only with the setting `evidence_texts`."""
    text: str | None = Field(default=None, examples=["The answer is \\boxed{8}."])
    """The whole text of the answer; only with the setting `evidence_texts`."""
