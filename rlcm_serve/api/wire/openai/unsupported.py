"""Fields of OpenAI's API, and of vLLM's, that this service refuses instead of ignoring them.

Null requests nothing, so it is accepted, and so are default values of which this is sure.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field, ValidationError, ValidationInfo, ValidatorFunctionWrapHandler
from pydantic.functional_validators import WrapValidator
from pydantic_core import PydanticCustomError

from rlcm_serve.api.wire.base import Wire, described


def refused(why: str) -> WrapValidator:
    """Makes a field refuse invalid values with the message `why`."""

    def check(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
        return _checked(value, handler, why)

    return WrapValidator(check)


def _refused_as_described(
    value: Any, handler: ValidatorFunctionWrapHandler, info: ValidationInfo
) -> Any:
    name = info.field_name or ""
    kinds = (UnsupportedFields, UnsupportedInChat, UnsupportedInResponses)
    field = next(kind.model_fields[name] for kind in kinds if name in kind.model_fields)
    return _checked(value, handler, " ".join((field.description or "").split()))


def _checked(value: Any, handler: ValidatorFunctionWrapHandler, why: str) -> Any:
    refusal = PydanticCustomError("unsupported", "{why}", {"why": why})
    try:
        taken = handler(value)
    except ValidationError:
        raise refusal from None
    if isinstance(taken, bool) is not isinstance(value, bool):  # in Python 0 == False
        raise refusal
    return taken


_Given = TypeVar("_Given")
Refused = Annotated[_Given | None, WrapValidator(_refused_as_described)]
"""Null or this type; anything else is refused with the description of the field."""
Nothing = Annotated[list[Any], Field(max_length=0)]
_Empty = Annotated[dict[str, Any], Field(max_length=0)]
_TextAlone = Annotated[list[Literal["text"]], Field(min_length=1, max_length=1)]
_FIXED_LENGTH = 'not supported: the length of answers is fixed; leave it out or give "medium"'
Verbosity = Annotated[
    Literal["medium"] | None, refused(_FIXED_LENGTH), described(_FIXED_LENGTH, "medium")
]
_Zero = Annotated[float, Field(ge=0, le=0)]
_One = Annotated[float, Field(ge=1, le=1)]


class UnsupportedFields(Wire):
    """Fields of all interfaces that accept only null or their default; each says why."""

    frequency_penalty: Refused[_Zero] = Field(default=None, examples=[0])
    """not supported: a penalty would void the certificate; leave it out or give 0"""
    logit_bias: Refused[_Empty] = Field(default=None, examples=[{}])
    """not supported: a bias would void the certificate; leave it out"""
    moderation: Refused[None] = Field(default=None, examples=[None])
    """not supported: this service does no moderation"""
    presence_penalty: Refused[_Zero] = Field(default=None, examples=[0])
    """not supported: a penalty would void the certificate; leave it out or give 0"""
    chat_template_kwargs: Refused[_Empty] = Field(default=None, examples=[{}])
    """not supported: variables of the chat template are a prompt profile's; name one in `profile`
    """
    min_p: Refused[None] = Field(default=None, examples=[None])
    """not supported: it is a prompt profile's; name one in `profile`"""
    repetition_penalty: Refused[_One] = Field(default=None, examples=[None])
    """not supported: a penalty would void the certificate; leave it out or give 1"""
    top_k: Refused[None] = Field(default=None, examples=[None])
    """not supported: it is a prompt profile's; name one in `profile`"""
    tool_choice: Refused[Literal["none", "auto"]] = Field(default=None, examples=["none"])
    """not supported: this service calls no tools"""
    tools: Refused[Nothing] = Field(default=None, examples=[None])
    """not supported: this service calls no tools"""
    top_logprobs: Refused[Literal[0]] = Field(default=None, examples=[None])
    """not supported: read rlcm.confidence instead; leave it out"""


class UnsupportedInChat(UnsupportedFields):
    """Those of chat completions."""

    audio: Refused[None] = Field(default=None, examples=[None])
    """not supported: answers are text"""
    function_call: Refused[Literal["none"]] = Field(default=None, examples=["none"])
    """not supported: this service calls no functions"""
    functions: Refused[Nothing] = Field(default=None, examples=[None])
    """not supported: this service calls no functions"""
    logprobs: Refused[Literal[False]] = Field(default=None, examples=[False])
    """not supported: read rlcm.confidence instead; leave it out or give false
    """
    modalities: Refused[_TextAlone] = Field(default=None, examples=[["text"]])
    """not supported: answers are text; leave it out or give ["text"]"""
    reasoning_effort: Refused[None] = Field(default=None, examples=[None])
    """not supported: the accepted risk `alpha` decides how long to think, and max_completion_tokens
    caps it
    """
    web_search_options: Refused[None] = Field(default=None, examples=[None])
    """not supported: this service searches nothing"""
    verbosity: Verbosity = None


class UnsupportedInResponses(UnsupportedFields):
    """Those of `/v1/responses`."""

    background: Refused[Literal[False]] = Field(default=None, examples=[False])
    """not supported: a response is sent when it is asked for; leave it out or give false"""
    context_management: Refused[Nothing] = Field(default=None, examples=[None])
    """not supported: a conversation is never shortened"""
    conversation: Refused[None] = Field(default=None, examples=[None])
    """not supported: nothing is stored; send the whole conversation in `input`"""
    max_tool_calls: Refused[None] = Field(default=None, examples=[None])
    """not supported: this service calls no tools"""
    previous_response_id: Refused[None] = Field(default=None, examples=[None])
    """not supported: nothing is stored; send the whole conversation in `input`"""
    prompt: Refused[None] = Field(default=None, examples=[None])
    """not supported: there are no stored prompts; name a prompt profile in `profile`"""
    response_format: Refused[None] = Field(default=None, examples=[None])
    """not supported: here it is `text.format`"""
    truncation: Refused[Literal["disabled"]] = Field(default=None, examples=["disabled"])
    """not supported: a conversation is never shortened; leave it out or give "disabled"
    """
