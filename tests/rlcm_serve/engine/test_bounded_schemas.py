"""Schemas of callers, which must not take long or much memory."""

import json
from typing import Any

import pytest

from rlcm_serve.engine.requests import MOST_COUNTED, require_bounded
from rlcm_serve.errors import RequestRefused

HARMLESS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "pattern": {"type": "string", "maxLength": MOST_COUNTED},
        "maxItems": {"type": "array", "items": {"$ref": "#/$defs/n"}, "maxItems": 3},
    },
    "$defs": {"n": {"type": "integer", "maximum": 10**9}},
    "required": ["pattern"],
}


def test_a_schema_of_bounded_parts_is_accepted() -> None:
    require_bounded(json.dumps(HARMLESS))
    require_bounded(None)


@pytest.mark.parametrize(
    ("part", "told"),
    [
        ({"type": "string", "pattern": "(a{1,99}){1,99}"}, "'pattern', which only the schema of a"),
        ({"type": "object", "patternProperties": {"a*": {}}}, "'patternProperties', which only"),
        ({"type": "array", "minItems": 10**7}, "has minItems 10000000: give at most 1000"),
        ({"type": "array", "maxItems": 10**400}, r"has maxItems over 1e\+15: give at most"),
        ({"type": "string", "maxLength": MOST_COUNTED + 1}, "has maxLength 1001: give at most"),
    ],
)
def test_what_may_take_long_is_refused_wherever_it_is(part: dict[str, Any], told: str) -> None:
    for schema in (
        part,
        {"type": "object", "properties": {"deep": {"items": [part]}}},
        {"$ref": "#/$defs/x", "$defs": {"x": part}},
        {"anyOf": [{"type": "null"}, part]},
    ):
        with pytest.raises(RequestRefused, match=told):
            require_bounded(json.dumps(schema))
