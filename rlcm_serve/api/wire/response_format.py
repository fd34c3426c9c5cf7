"""Wire types of the form that an answer's text must have, as OpenAI's API has them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from calibration.canonical import canonical_json
from rlcm_serve.api.wire.base import Wire
from rlcm_serve.errors import RequestRefused

LONGEST_SCHEMA = 20_000
"""Characters of a schema, as JSON without blanks."""
_EXAMPLE = {
    "type": "object",
    "properties": {"value": {"type": "integer"}},
    "required": ["value"],
    "additionalProperties": False,
}


class TextFormat(Wire):
    """The same as no form: plain text, unless the profile has a schema."""

    type: Literal["text"] = Field(examples=["text"])
    """No form: a profile's schema still holds."""


class JsonObjectFormat(Wire):
    """Any JSON object."""

    type: Literal["json_object"] = Field(examples=["json_object"])
    """Any JSON object."""


class NamedSchema(Wire):
    """A JSON schema with a name."""

    name: str = Field(examples=["reading"])
    """Name of the schema; it has no effect."""
    schema_: dict[str, Any] = Field(alias="schema", examples=[_EXAMPLE])
    """The JSON schema."""
    description: str | None = Field(default=None, examples=[None])
    """Accepted and ignored: the model does not see it."""
    strict: bool | None = Field(default=None, examples=[True])
    """Accepted and ignored: the schema is always followed strictly."""


class JsonSchemaFormat(Wire):
    """JSON that follows a schema."""

    type: Literal["json_schema"] = Field(examples=["json_schema"])
    """JSON that follows a schema."""
    json_schema: NamedSchema = Field(examples=[{"name": "reading", "schema": _EXAMPLE}])
    """The schema."""


class FlatJsonSchemaFormat(NamedSchema):
    """JSON that follows a schema, without a level of its own for the schema."""

    type: Literal["json_schema"] = Field(examples=["json_schema"])
    """JSON that follows a schema."""


ResponseFormat = Annotated[
    TextFormat | JsonObjectFormat | JsonSchemaFormat, Field(discriminator="type")
]
"""The form in a chat completion and in `/solve`."""
FlatResponseFormat = Annotated[
    TextFormat | JsonObjectFormat | FlatJsonSchemaFormat, Field(discriminator="type")
]
"""The form in `/v1/responses`."""


def schema_of(form: ResponseFormat | FlatResponseFormat | None) -> str | None:
    """The JSON schema of a form, as canonical JSON; None if it asks for none.

    Raises:
        RequestRefused: the schema is too long, or has a number that JSON does not have.
    """
    if form is None or isinstance(form, TextFormat):
        return None
    named = form.json_schema if isinstance(form, JsonSchemaFormat) else form
    schema = named.schema_ if isinstance(named, NamedSchema) else {"type": "object"}
    try:
        text = canonical_json(schema).decode()
    except ValueError as error:
        raise RequestRefused(
            "response_format",
            "the schema of the answer has NaN, or a number that is too large: give finite numbers",
        ) from error
    if len(text) > LONGEST_SCHEMA:
        raise RequestRefused(
            "response_format",
            f"the schema of the answer has {len(text)} characters: give at most {LONGEST_SCHEMA}",
        )
    return text
