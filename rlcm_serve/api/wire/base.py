"""The base of all wire types."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema


class Wire(BaseModel):
    """Refuses unknown fields and does not convert types. A field's docstring describes it."""

    model_config = ConfigDict(
        extra="forbid", strict=True, from_attributes=True, use_attribute_docstrings=True
    )

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """The schema, with each description on one line."""
        schema = handler(core_schema)
        for field in handler.resolve_ref_schema(schema).get("properties", {}).values():
            if "description" in field:
                field["description"] = " ".join(field["description"].split())
        return schema

    @classmethod
    def example(cls, **changed: Any) -> dict[str, Any]:
        """An example made of those of the fields, except for the `changed` ones."""
        fields = cls.model_fields.items()
        return {name: field.examples[0] for name, field in fields if field.examples} | changed


def described(text: str, example: Any, **limits: Any) -> Any:
    """A field with a text that it shares with others, an example, and the limits of its values."""
    return Field(description=text, examples=[example], **limits)


def inline_schema(model: type[Wire]) -> dict[str, Any]:
    """The JSON schema of a model, with the schemas of its parts inlined.

    For bodies that FastAPI does not parse, whose parts are not named in the document.
    """
    schema = model.model_json_schema()
    parts = schema.pop("$defs", {})

    def inline(node: Any) -> Any:
        if isinstance(node, dict):
            part = parts[node["$ref"].rpartition("/")[2]] if "$ref" in node else {}
            # A field's own description overrides that of its type.
            both = part | {key: value for key, value in node.items() if key != "$ref"}
            return {key: inline(value) for key, value in both.items()}
        return [inline(item) for item in node] if isinstance(node, list) else node

    inlined: dict[str, Any] = inline(schema)
    return inlined
