"""Limits of JSON bodies, and what is made of bodies within them."""

from __future__ import annotations

import gc
import json
import sys
from typing import Any

import pytest
from fastapi.exceptions import RequestValidationError

from rlcm_serve.api.bodies import DEEPEST, MOST_VALUES, parse_body, require_plain
from rlcm_serve.api.error_responses import MOST_ERRORS
from rlcm_serve.errors import RequestRefused

ANYTHING: Any = Any
NAMED = dict[str, int]


def values_of(text: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many values are counted: the lowest limit that lets the text pass."""
    for limit in range(100):
        monkeypatch.setattr("rlcm_serve.api.bodies.MOST_VALUES", limit)
        try:
            require_plain(text)
        except RequestRefused:
            continue
        return limit
    raise AssertionError("over 100")


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("", 0),
        ("1", 1),
        ("[]", 1),
        ("[1, -2.5e3,true,null]", 5),
        ('{"a": 1}', 3),
        ('{"a": {"b": []}, "c": "d"}', 7),
        (r'["a, [b]: {\"c\"", "\\", "d"]', 4),
        ('["é\n漢"]', 2),
        ('["open', 2),
    ],
)
def test_names_and_values_are_counted(
    monkeypatch: pytest.MonkeyPatch, text: str, values: int
) -> None:
    assert values_of(text, monkeypatch) == values


@pytest.mark.parametrize("text", ["[{}]", '{{"a": {}}}'])
def test_levels_are_counted(text: str) -> None:
    nested = "1"
    for _ in range(DEEPEST):
        nested = text.replace("{{", "{").replace("}}", "}").replace("{}", nested, 1)
    require_plain(nested)
    with pytest.raises(RequestRefused, match=f"nested in over {DEEPEST} levels"):
        require_plain(f"[{nested}]")
    require_plain(f"[{','.join(['[]'] * (DEEPEST + 1))}]")


@pytest.mark.parametrize("part", ["[", "[],", '"a":', "1,", '"",', "{}"])
def test_counting_stops_at_the_limit(part: str) -> None:
    def calls(text: str) -> int:
        counted = 0

        def count(*_: object) -> None:
            nonlocal counted
            counted += 1

        gc.disable()  # its callbacks would be counted
        sys.setprofile(count)
        try:
            with pytest.raises(RequestRefused):
                require_plain(text)
        finally:
            sys.setprofile(None)
            gc.enable()
        return counted

    assert calls(part * 4 * MOST_VALUES) == calls(part * 2 * MOST_VALUES)


def test_a_body_is_what_json_says() -> None:
    value = {"a": [1, 2.5, None, True, "é\ud83d\ude00漢"], "b": {}}
    assert parse_body(ANYTHING, json.dumps(value).encode()) == json.loads(json.dumps(value))
    assert parse_body(NAMED, b'\xef\xbb\xbf{"a": 1}') == {"a": 1}


@pytest.mark.parametrize(
    ("body", "match"),
    [
        (b"\xff", "not JSON in UTF-8"),
        ('{"a": 1}'.encode("utf-16"), "not JSON in UTF-8"),
        (b"1" * 5000, "the body cannot be read: Exceeds the limit"),
        (b"[" * 100_000, "nested in over"),
        (b"[" + b"1," * 100_000, "names and values"),
    ],
)
def test_bodies_that_cannot_be_read_are_refused(body: bytes, match: str) -> None:
    with pytest.raises(RequestRefused, match=match) as refusal:
        parse_body(NAMED, body)
    assert refusal.value.field == "body"
    assert len(str(refusal.value)) < 200


def test_faults_are_told_with_their_places() -> None:
    with pytest.raises(RequestValidationError) as refusal:
        parse_body(NAMED, b'{"a": "x", "b": []}')
    assert [error["loc"] for error in refusal.value.errors()] == [("body", "a"), ("body", "b")]
    with pytest.raises(RequestValidationError) as refusal:
        parse_body(NAMED, b'{"a": 1')
    assert refusal.value.errors()[0]["type"] == "json_invalid"


def test_faults_that_are_not_told_are_not_placed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A body may have thousands, and each would cost more than it took to send."""
    placed = 0

    def told(_: Any, found: dict[str, Any]) -> dict[str, Any]:
        nonlocal placed
        placed += 1
        return found

    monkeypatch.setattr("rlcm_serve.api.bodies.told", told)
    with pytest.raises(RequestValidationError) as refusal:
        parse_body(NAMED, json.dumps({f"f{n}": "x" for n in range(1000)}).encode())
    assert (len(refusal.value.errors()), placed) == (1000, MOST_ERRORS)


@pytest.mark.parametrize(
    ("body", "place"),
    [
        (rb'{"a": [{"b": "\ud800"}]}', ("a", 0, "b")),
        (rb'{"a": "x\uDFFF", "b": 1}', ("a",)),
        (rb'{"a": {"\ud83d": "\ud800"}}', ("a",)),
        (rb'["\ud83d\ude00", "\ude00\ud83d"]', (1,)),
        (rb'"\ud800"', ()),
    ],
)
def test_half_a_surrogate_pair_is_a_fault(body: bytes, place: tuple[str | int, ...]) -> None:
    """No tokenizer and no database takes it, and no response can hold it."""
    with pytest.raises(RequestValidationError) as refusal:
        parse_body(ANYTHING, body)
    (error,) = refusal.value.errors()
    assert error["loc"] == ("body", *place)
    assert "half a surrogate pair" in error["msg"]
