"""What requests to OpenAI's interfaces share: its fields, and this service's own."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, GetJsonSchemaHandler, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from rlcm_serve.api.wire.base import Wire, described
from rlcm_serve.api.wire.openai.ignored import IgnoredFields
from rlcm_serve.api.wire.openai.unsupported import refused
from rlcm_serve.api.wire.question import QuestionSettings
from rlcm_serve.api.wire.terms import SAMPLES_TEXT, STREAM_FLAG
from rlcm_serve.core import MAX_SAMPLES, Message, Question, Role
from rlcm_serve.errors import RequestRefused

ROLES = {
    "system": Role.SYSTEM,
    "developer": Role.SYSTEM,
    "user": Role.USER,
    "assistant": Role.ASSISTANT,
}
_PLAIN_DELTAS = "not supported: deltas are not obfuscated; leave it out or give false"


_ABOUT = ("title", "description", "default", "examples")
"""What a schema says of a field, beside its values."""


class StreamOptions(Wire):
    """Options of a streamed response."""

    include_obfuscation: Annotated[
        Literal[False] | None, refused(_PLAIN_DELTAS), described(_PLAIN_DELTAS, False)
    ] = None


class OpenAIRequest(IgnoredFields, QuestionSettings):
    """A request whose last message is the question.

    A subclass says how its interface names the parts of a conversation. Null is the default of
    every field that need not be given: clients write so what is not set.
    """

    model: str = Field(min_length=1, examples=["embedded"])
    """Id of the model, as listed in `/v1/models`: its name alone, or `NAME:PROFILE`."""
    alpha: float | None = Field(default=None, gt=0, lt=1, examples=[0.1])
    """Accepted risk, between 0 and 1. The default is the server's `default_alpha`."""
    n_votes: Annotated[int, described(SAMPLES_TEXT, 4, ge=1, le=MAX_SAMPLES)] = 1
    return_trace: bool = Field(default=False, examples=[False])
    """Also return, under `rlcm`, what each sample thought and every confidence reading."""
    stream: Annotated[bool | None, described(STREAM_FLAG, False)] = None

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, asked: Any) -> Any:
        if not isinstance(asked, dict):
            return asked
        unset = {name for name in cls._with_default() if asked.get(name, ...) is None}
        return {name: value for name, value in asked.items() if name not in unset}

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """The schema, in which those fields may be null."""
        schema = super().__get_pydantic_json_schema__(core_schema, handler)
        properties = handler.resolve_ref_schema(schema)["properties"]
        for name in cls._with_default():
            field = properties[name]
            about = {key: field.pop(key) for key in _ABOUT if key in field}
            properties[name] = {"anyOf": [field, {"type": "null"}], **about}
        return schema

    @classmethod
    def _with_default(cls) -> list[str]:
        """The fields whose default is not null."""
        fields = cls.model_fields.items()
        return [name for name, one in fields if not one.is_required() and one.default is not None]

    @abstractmethod
    def to_messages(self) -> list[Message]:
        """The conversation with its system prompt.

        Raises:
            RequestRefused: a message has no text.
        """

    @property
    @abstractmethod
    def thinking_budget(self) -> int | None:
        """The thinking budget of one sample in tokens; None if the request names none.

        Raises:
            RequestRefused: fields contradict each other.
        """

    @property
    @abstractmethod
    def answer_schema(self) -> str | None:
        """The JSON schema of the answer's text, as `schema_of` returns it.

        Raises:
            RequestRefused: the schema is too long.
        """

    @property
    @abstractmethod
    def names(self) -> Mapping[str, str]:
        """How this interface calls fields of `Question` and of `/solve`, where it differs."""

    @property
    def stops(self) -> tuple[str, ...]:
        """The stop sequences of the answer's text."""
        return ()

    def to_question(self, default_alpha: float) -> Question:
        """The question in the service's own terms.

        Raises:
            RequestRefused: fields contradict each other, or a value is out of range.
        """
        alpha = default_alpha if self.alpha is None else self.alpha
        return self.question(
            self.to_messages(), alpha, self.n_votes, self.thinking_budget, self.answer_schema
        )

    def in_its_terms(self, error: RequestRefused) -> RequestRefused:
        """The same refusal, with the field's name in this interface."""
        if error.field not in self.names:
            return error
        name = self.names[error.field]
        return RequestRefused(name, f"{name}: {error}")
