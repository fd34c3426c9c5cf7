"""Schemas of callers, which must not take long or much memory."""

import json
import time
from typing import Any

import pytest
from llguidance import LLMatcher
from llguidance.hf import from_tokenizer
from transformers import AutoTokenizer
from vllm import SamplingParams
from vllm.sampling_params import StructuredOutputsParams
from vllm.v1.structured_output.backend_guidance import validate_guidance_grammar

from rlcm_serve.engine.model_files import EMBEDDED_MODEL
from rlcm_serve.errors import RequestRefused
from rlcm_serve.profiles.bounded_schemas import MOST_COUNTED, require_bounded


def multiple(of: float, **also: Any) -> dict[str, Any]:
    return {"type": "number", "multipleOf": of, **also}


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
        ({"type": "integer", "multipleOf": 1000003}, "has multipleOf 1000003, .* 1000003: choose"),
        ({"type": "number", "multipleOf": 12.34}, "has multipleOf 12.34, .* multiple 1234: choose"),
        ({"type": "integer", "multipleOf": -(10**400) - 1}, r"has multipleOf .* over 1e\+15: choo"),
        ({"anyOf": [multiple(31), multiple(3.7)]}, "has multipleOf 3.7, .* multiple 1147: choose"),
    ],
)
def test_what_may_take_long_is_refused_wherever_it_is(part: dict[str, Any], told: str) -> None:
    for schema in (
        part,
        {"type": "object", "properties": {"deep": {"items": [part]}}},
        {"$ref": "#/$defs/x", "$defs": {"x": part}},
        {"anyOf": [{"type": "null"}, part]},
        {"$ref": "#/$defs/properties", "$defs": {"properties": part}},
        {"$ref": "#/definitions/properties", "definitions": {"properties": part}},
    ):
        with pytest.raises(RequestRefused, match=told):
            require_bounded(json.dumps(schema))


def choice(branches: int, key: str = "a", also: int = 0) -> dict[str, Any]:
    """One of some objects, each with another constant, and further members."""
    more = {f"x{number}": {"type": "string"} for number in range(also)}
    return {
        "anyOf": [
            {"type": "object", "properties": {key: {"const": number}, **more}}
            for number in range(branches)
        ]
    }


def of_property(name: str, inner: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {name: inner}}


PRODUCTS = [
    {"allOf": [choice(4, f"a{number}") for number in range(6)]},
    {"allOf": [{"allOf": [choice(8), choice(8, "b")]}, choice(8, "c")]},
    {"allOf": [of_property("p", choice(4, f"a{number}")) for number in range(6)]},
    {**of_property("p", {}), "properties": {f"p{n}": {} for n in range(200)}, **choice(100)},
    {
        "$ref": "#/$defs/d",
        "$defs": {"a": choice(2)}
        | {
            new: {"allOf": [{"$ref": f"#/$defs/{old}"}] * 2}
            for old, new in zip("abc", "bcd", strict=True)
        }
        | {"c": {"allOf": [{"$ref": "#/$defs/b"}] * 4}},
    },
    {"$ref": "#/$defs/a", "anyOf": [{"required": [f"x{n}"]} for n in range(50)]}
    | {"$defs": {"a": choice(50)}},
    {"allOf": [{"anyOf": [{}] * 40}, {"anyOf": [{}] * 40}]},
]


@pytest.mark.parametrize("schema", PRODUCTS)
def test_what_multiplies_out_is_refused(schema: dict[str, Any]) -> None:
    for where in (
        schema,
        {"$defs": {}, **of_property("deep", schema)} if "$defs" not in schema else schema,
        {"type": "array", "prefixItems": [schema]} if "$defs" not in schema else schema,
    ):
        with pytest.raises(RequestRefused, match="combinations of alternatives in one place"):
            require_bounded(json.dumps(where))


@pytest.mark.parametrize(
    ("name", "reference"),
    [("a/b", "a~1b"), ("a~b", "a~0b"), ("a b", "a%20b"), ("%", "%25"), ("a", "a/anyOf/0")],
)
def test_what_multiplies_out_is_found_behind_any_reference(name: str, reference: str) -> None:
    part = PRODUCTS[0]
    there = {"anyOf": [part]} if reference.endswith("/0") else part
    with pytest.raises(RequestRefused, match="combinations of alternatives in one place"):
        require_bounded(json.dumps({"$defs": {name: there}, "$ref": f"#/$defs/{reference}"}))


@pytest.mark.parametrize(
    "schema",
    [
        {"$defs": {"pattern": {"type": "string"}}, "$ref": "#/$defs/pattern"},
        {"$ref": f"#/anyOf/{'9' * 5000}", "anyOf": [{"type": "null"}]},
        {"$ref": "#/anyOf/7", "anyOf": [{"$ref": "#/anyOf/x"}, {"type": "null"}]},
        choice(300, also=5),
        {"type": "object", "properties": {f"p{n}": choice(8) for n in range(50)}},
        {"allOf": [choice(3), of_property("b", {"enum": list(range(900))})]},
        {"type": "array", "items": choice(100)},
        {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None, "title": "T"},
        {"$ref": "#/$defs/tree", "$defs": {"tree": of_property("next", {"$ref": "#/$defs/tree"})}},
        {"allOf": [{"$ref": "other.json#/a"}, {"$ref": "#/$defs/none"}]},
        {"allOf": 5, "anyOf": "x", "properties": [], "$ref": 7},
        {"prefixItems": [multiple(of) for of in (0.01, 0.00001, 1, 5, 2.5, 100, 10**9, 60, 1e300)]},
        {"allOf": [multiple(of) for of in (7, 11, 9, 0.7, 0.11, 900, 77)]},
        {"prefixItems": [multiple(of) for of in (0, 0.0, float("nan"), float("inf"), True)]},
        {"properties": {"multipleOf": multiple(997)}, "items": {"multipleOf": "997"}},
    ],
)
def test_what_only_lists_alternatives_is_accepted(schema: dict[str, Any]) -> None:
    require_bounded(json.dumps(schema))


def twice_each(depth: int) -> dict[str, Any]:
    """Each definition refers twice to the one before, and two of the last hold together."""
    defs: dict[str, Any] = {"d0": of_property("a", {"type": "integer"})}
    for number in range(depth):
        before = {"$ref": f"#/$defs/d{number}"}
        defs[f"d{number + 1}"] = {"type": "object", "properties": {"a": before, "b": before}}
    return {"$defs": defs, "allOf": [{"$ref": f"#/$defs/d{depth}"}] * 2}


def test_parts_that_are_shared_and_hold_together_are_refused_at_once() -> None:
    """They are merged in each place: with every step twice as much."""
    require_bounded(json.dumps(twice_each(4)))
    for depth in (16, 60):
        begun = time.process_time()
        with pytest.raises(RequestRefused, match="over 10000 keywords in parts that hold together"):
            require_bounded(json.dumps(twice_each(depth)))
        assert time.process_time() - begun < 0.2


def test_one_part_under_many_names_is_walked_once() -> None:
    """What stands before the first slash of a reference is no part of its way."""
    part = {"e": [{"type": "string"}] * 1500}
    names = [{"$ref": f"#{number}/d"} for number in range(300)]
    begun = time.process_time()
    require_bounded(json.dumps({"d": part, "f": names}))
    assert time.process_time() - begun < 0.5


def test_deep_schemas_are_refused() -> None:
    with pytest.raises(RequestRefused, match="is nested too deeply"):
        require_bounded('{"items":' * 900 + "{}" + "}" * 900)


def test_an_accepted_product_is_checked_in_milliseconds() -> None:
    """The largest that is accepted, in the compiler that vLLM calls for every request."""
    largest = {"allOf": [choice(4, "a"), choice(4, "b"), choice(4, "c")]}
    require_bounded(json.dumps(largest))
    params = SamplingParams(structured_outputs=StructuredOutputsParams(json=largest))
    began = time.process_time()
    validate_guidance_grammar(params, None)
    assert time.process_time() - began < 0.25


def test_accepted_multiples_cost_milliseconds_for_each_answer() -> None:
    """In the engine, which compiles them with the vocabulary, as the check does not."""
    parts = [multiple(997, minimum=at, maximum=10**9 - at) for at in range(100)]
    largest = {"anyOf": parts, "additionalProperties": False}
    require_bounded(json.dumps(largest))
    grammar = LLMatcher.grammar_from_json_schema(json.dumps(largest))
    vocabulary = from_tokenizer(AutoTokenizer.from_pretrained(EMBEDDED_MODEL))
    began = time.process_time()
    matcher = LLMatcher(vocabulary, grammar)
    matcher.compute_bitmask()
    assert not matcher.is_error()
    assert time.process_time() - began < 0.25
