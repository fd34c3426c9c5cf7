"""Fields of OpenAI's chat completions that this service refuses instead of ignoring them.

Null and default values request nothing, so they are accepted.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, ValidationInfo, ValidatorFunctionWrapHandler
from pydantic.functional_validators import WrapValidator
from pydantic_core import PydanticCustomError

from rlcm_serve.api.wire.base import Wire


def refused(why: str) -> WrapValidator:
    """Makes a field refuse invalid values with the message `why`."""

    def check(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
        return _checked(value, handler, why)

    return WrapValidator(check)


def _refused_as_described(
    value: Any, handler: ValidatorFunctionWrapHandler, info: ValidationInfo
) -> Any:
    field = UnsupportedFields.model_fields[info.field_name or ""]
    return _checked(value, handler, field.description or "")


def _checked(value: Any, handler: ValidatorFunctionWrapHandler, why: str) -> Any:
    refusal = PydanticCustomError("unsupported", "{why}", {"why": why})
    try:
        taken = handler(value)
    except ValidationError:
        raise refusal from None
    if isinstance(taken, bool) is not isinstance(value, bool):  # in Python 0 == False
        raise refusal
    return taken


_Why = WrapValidator(_refused_as_described)
_Nothing = Annotated[list[Any], Field(max_length=0)]
_Zero = Annotated[float, Field(ge=0, le=0)]


class TextFormat(Wire):
    """The only supported response format: plain text."""

    type: Literal["text"] = Field(examples=["text"])
    """Plain text."""


class UnsupportedFields(Wire):
    """Fields of OpenAI's API that only accept null or their default; each description says why."""

    audio: Annotated[
        None, _Why, Field(description="not supported: answers are text", examples=[None])
    ] = None
    frequency_penalty: Annotated[
        _Zero | None,
        _Why,
        Field(
            description="not supported: a penalty would void the certificate; "
            "leave it out or give 0",
            examples=[0],
        ),
    ] = None
    function_call: Annotated[
        Literal["none"] | None,
        _Why,
        Field(description="not supported: this service calls no functions", examples=["none"]),
    ] = None
    functions: Annotated[
        _Nothing | None,
        _Why,
        Field(description="not supported: this service calls no functions", examples=[None]),
    ] = None
    logit_bias: Annotated[
        Annotated[dict[str, Any], Field(max_length=0)] | None,
        _Why,
        Field(
            description="not supported: a bias would void the certificate; leave it out",
            examples=[{}],
        ),
    ] = None
    logprobs: Annotated[
        Literal[False] | None,
        _Why,
        Field(
            description="not supported: read rlcm.confidence instead, which is calibrated; leave "
            "it out or give false",
            examples=[False],
        ),
    ] = None
    modalities: Annotated[
        Annotated[list[Literal["text"]], Field(min_length=1, max_length=1)] | None,
        _Why,
        Field(
            description='not supported: answers are text; leave it out or give ["text"]',
            examples=[["text"]],
        ),
    ] = None
    moderation: Annotated[
        None,
        _Why,
        Field(description="not supported: this service does no moderation", examples=[None]),
    ] = None
    parallel_tool_calls: bool | None = Field(default=None, examples=[True])
    """Accepted and ignored: there are no tools."""
    prediction: Annotated[
        None,
        _Why,
        Field(description="not supported: predicted output is not used", examples=[None]),
    ] = None
    presence_penalty: Annotated[
        _Zero | None,
        _Why,
        Field(
            description="not supported: a penalty would void the certificate; "
            "leave it out or give 0",
            examples=[0],
        ),
    ] = None
    prompt_cache_options: Annotated[
        None,
        _Why,
        Field(description="not supported: prompt caching is automatic", examples=[None]),
    ] = None
    prompt_cache_retention: Annotated[
        Literal["in_memory"] | None,
        _Why,
        Field(
            description="not supported: prompts are cached in memory; leave it out or give "
            '"in_memory"',
            examples=["in_memory"],
        ),
    ] = None
    reasoning_effort: Annotated[
        None,
        _Why,
        Field(
            description="not supported: the accepted risk `alpha` decides how long to think, and "
            "max_completion_tokens caps it",
            examples=[None],
        ),
    ] = None
    response_format: Annotated[
        TextFormat | None,
        _Why,
        Field(
            description='not supported: the answer is plain text; leave it out or give {"type": '
            '"text"}',
            examples=[{"type": "text"}],
        ),
    ] = None
    service_tier: Annotated[
        Literal["auto", "default"] | None,
        _Why,
        Field(
            description="not supported: there is one service tier; leave it out or give "
            '"auto" or "default"',
            examples=["auto"],
        ),
    ] = None
    stop: Annotated[
        _Nothing | None,
        _Why,
        Field(
            description="not supported: the certified exit rule alone ends the thinking; leave it "
            "out",
            examples=[None],
        ),
    ] = None
    store: Annotated[
        Literal[False] | None,
        _Why,
        Field(
            description="not supported: nothing is stored; leave it out or give false",
            examples=[False],
        ),
    ] = None
    tool_choice: Annotated[
        Literal["none", "auto"] | None,
        _Why,
        Field(description="not supported: this service calls no tools", examples=["none"]),
    ] = None
    tools: Annotated[
        _Nothing | None,
        _Why,
        Field(description="not supported: this service calls no tools", examples=[None]),
    ] = None
    top_logprobs: Annotated[
        Literal[0] | None,
        _Why,
        Field(
            description="not supported: read rlcm.confidence instead, which is calibrated; leave "
            "it out",
            examples=[None],
        ),
    ] = None
    verbosity: Annotated[
        Literal["medium"] | None,
        _Why,
        Field(
            description="not supported: the length of answers is fixed; leave it out or give "
            '"medium"',
            examples=["medium"],
        ),
    ] = None
    web_search_options: Annotated[
        None,
        _Why,
        Field(description="not supported: this service searches nothing", examples=[None]),
    ] = None
