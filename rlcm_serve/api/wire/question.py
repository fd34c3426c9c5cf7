"""Wire types of a question: what all requests share, and the request of `/solve`."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, model_validator
from pydantic.config import JsonDict

from rlcm_serve.api.wire import terms
from rlcm_serve.api.wire.base import Wire, described
from rlcm_serve.api.wire.response_format import ResponseFormat, schema_of
from rlcm_serve.core import (
    MAX_SAMPLES,
    MAX_TEMPERATURE,
    Message,
    OnInfeasible,
    OnUnfamiliar,
    Question,
    RiskName,
    Role,
    VoteRule,
)

PROBLEM = "A dial shows 3. A up 5. B down 3. C up 9. D up 4. What does it show now?"
MAX_KIND = 200
"""Characters of the name of a kind."""
MAX_INTEGER = 2**53 - 1
"""What every reader of JSON holds exactly, OpenAPI documents included."""


class MessageBody(Wire):
    """A message of a conversation."""

    role: Literal["system", "user", "assistant"] = Field(examples=["user"])
    """Author of the message."""
    content: str = Field(examples=[PROBLEM])
    """Text of the message."""

    def to_message(self) -> Message:
        """The message as the service's own type."""
        return Message(Role(self.role), self.content)


class QuestionSettings(Wire):
    """Settings that all requests with a question share."""

    profile: str | None = Field(default=None, examples=[None])
    """Name of a prompt profile. By default it is the profile whose system prompt the conversation
    has, or else `default`. The profile adds its system prompt and its template, where the
    conversation does not have them already.
    """
    kind: str | None = Field(default=None, min_length=1, max_length=MAX_KIND, examples=[None])
    """Kind of the question, such as its topic, as the calibration problems name it. If a
    certificate was fitted for this kind, the guarantee is about questions of this kind. Otherwise
    it is about all kinds together. A kind that no calibration problem was of removes the guarantee.
    """
    vote: terms.AskedVote = "confidence"
    risk: terms.AskedRisk = "selective"
    temperature: float | None = Field(default=None, ge=0, le=MAX_TEMPERATURE, examples=[0.8])
    """Sampling temperature; 0 is greedy. The default is the certified value. Another value removes
    the guarantee.
    """
    top_p: float | None = Field(default=None, gt=0, le=1, examples=[1.0])
    """Nucleus sampling: probability mass that tokens are sampled from. The default is the certified
    value. Another value removes the guarantee.
    """
    seed: int | None = Field(default=None, ge=0, le=MAX_INTEGER, examples=[7])
    """Seed of the sampling. It removes the guarantee. If the engine cannot use seeds, the response
    is 422.
    """
    on_infeasible: Literal["error", "full_budget", "abstain"] = Field(
        default="error", examples=["error"]
    )
    """What to do if no policy is certified at alpha. `error`: respond with 409. `full_budget`:
    answer without early exits and without a guarantee. `abstain`: give no answer, at no cost.
    """
    on_unfamiliar: Literal["answer", "abstain"] = Field(default="answer", examples=["answer"])
    """What to do if the question is unlike the calibration problems. `answer`: answer without a
    guarantee. `abstain`: give no answer, once the prompt was read. It has no effect if the engine
    does not read familiarity.
    """
    timeout_s: float | None = Field(default=None, gt=0, examples=[60.0])
    """Maximum time for the question in seconds, including time in the queue. The default is the
    server's limit.
    """
    stop_when_decided: bool = Field(default=True, examples=[True])
    """Cancel samples that can no longer change the result. A server setting can turn this off."""

    def question(
        self,
        messages: list[Message],
        alpha: float,
        samples: int,
        max_tokens: int | None,
        schema: str | None,
    ) -> Question:
        """The question that `messages` ask under these settings.

        Raises:
            RequestRefused: a value is out of range.
        """
        return Question.of_conversation(
            messages,
            alpha=alpha,
            samples=samples,
            profile=self.profile,
            kind=self.kind,
            vote=VoteRule(self.vote),
            risk=RiskName(self.risk),
            max_tokens=max_tokens,
            temperature=self.temperature,
            top_p=self.top_p,
            seed=self.seed,
            on_infeasible=OnInfeasible(self.on_infeasible),
            on_unfamiliar=OnUnfamiliar(self.on_unfamiliar),
            timeout=self.timeout_s,
            stop_when_decided=self.stop_when_decided,
            schema=schema,
        )


class BudgetAndFormat(Wire):
    """Settings that `/solve` and `/v1/chat/completions` call alike."""

    max_tokens: int | None = Field(default=None, ge=1, le=MAX_INTEGER, examples=[256])
    """Thinking budget of one sample, in tokens. The default is the engine's budget. Another value
    has a guarantee only if a certificate was fitted for it.
    """
    response_format: ResponseFormat | None = Field(default=None, examples=[None])
    """Form of the answer's text: `text`, `json_object`, or `json_schema` with a JSON schema. `text`
    is the same as no form: a profile's schema still holds. The thinking stays free. A form that is
    not the certified one removes the guarantee, and the answer is then the whole text.
    """


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


class SolveRequest(BudgetAndFormat, QuestionSettings):
    """A question and the risk that the caller accepts. Give either `problem` or `messages`."""

    # What `_ask_once` checks, for those who read the schema.
    model_config = ConfigDict(json_schema_extra=_ONE_OF_TWO | _TOKENS_NEED_A_STREAM)

    problem: str | None = Field(
        default=None, min_length=1, examples=[PROBLEM], json_schema_extra={"pattern": r"\S"}
    )
    """The question, as text."""
    messages: list[MessageBody] | None = Field(
        default=None, min_length=1, examples=[[{"role": "user", "content": PROBLEM}]]
    )
    """A conversation whose last message is the question. A single user message is the same as
    `problem`. Earlier turns remove the guarantee, and so does a system prompt that is not a
    profile's.
    """
    alpha: float = Field(gt=0, lt=1, examples=[0.1])
    """Accepted risk, between 0 and 1."""
    n: Annotated[int, described(terms.SAMPLES_TEXT, 4, ge=1, le=MAX_SAMPLES)] = 1
    return_trace: bool = Field(default=False, examples=[False])
    """Also return what each sample thought and every confidence reading."""
    stream: Annotated[bool, described(terms.STREAM_FLAG, False)] = False
    stream_tokens: bool = Field(default=False, examples=[False])
    """Also stream the generated text. This requires `stream`."""

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
        schema = schema_of(self.response_format)
        return self.question(messages, self.alpha, self.n, self.max_tokens, schema)
