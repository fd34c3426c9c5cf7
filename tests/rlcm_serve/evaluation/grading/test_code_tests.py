import base64
import json
import os
import pickle
import zlib
from typing import Any

import pytest

from rlcm_serve.errors import RequestRefused
from rlcm_serve.evaluation.grading import code_tests
from rlcm_serve.evaluation.grading.code_tests import CodeTests
from tests.rlcm_serve.evaluation.grading.packing import packed, reference


def test_public_tests_come_first_then_the_private_ones() -> None:
    tests = CodeTests.read(reference([("1\n", "2\n")], [("3\n", "4\n"), ("5\n", "6\n")]))
    assert tests.function is None
    assert tests.inputs == ("1\n", "3\n", "5\n")
    assert tests.outputs == ("2\n", "4\n", "6\n")


def test_private_tests_may_be_plain_json() -> None:
    plain = json.dumps([{"input": "1", "output": "2"}])
    read = CodeTests.read(json.dumps({"function": "f", "tests": ["[]", plain]}))
    assert read == CodeTests("f", ("1",), ("2",))


class Harm:
    """A pickle that runs a command when it is loaded."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch harmed",)


@pytest.mark.parametrize(
    "private",
    [
        packed(Harm()),
        packed({"a": Harm()}),
        packed(7),
        packed("no JSON"),
        packed('{"input": 1}'),
        packed('[{"input": "1"}]'),
        base64.b64encode(b"no zlib").decode(),
        base64.b64encode(zlib.compress(b"no pickle")).decode(),
        "no base 64",
    ],
)
def test_an_invalid_test_is_refused_before_anything_runs(
    private: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RequestRefused, match="its tests do not parse"):
        CodeTests.read(json.dumps({"function": None, "tests": ["[]", private]}))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"function": "f", "tests": [[{"input": "x", "output": "1"}]]}']
)
def test_a_reference_that_does_not_parse_is_refused(text: str) -> None:
    with pytest.raises(RequestRefused, match="do not parse"):
        CodeTests.read(text)


def test_no_test_at_all_is_refused() -> None:
    with pytest.raises(RequestRefused, match="no test"):
        CodeTests.read(reference([]))


def test_tests_that_unpack_to_too_much_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code_tests, "LARGEST", 1000)
    with pytest.raises(RequestRefused, match="over 1000 bytes"):
        CodeTests.read(reference([("1", "2")], [("x" * 5000, "")]))


@pytest.mark.parametrize(
    ("output", "expected", "same"),
    [
        ("1 2\n", "1 2", True),
        ("  1 2  \n\n", "1 2\n", True),
        ("1.0 2.50", "1 2.5", True),
        ("1\n2", "1 2", False),
        ("1\n2\n3", "1\n2", False),
        ("50000000000000000", "50000000000000001", False),
        ("0.3333333", "0.3333334", False),
        ("yes", "Yes", False),
        ("", "1", False),
        ("nan x", "nan y", False),
    ],
)
def test_lines_are_compared_as_livecodebench_does(output: str, expected: str, same: bool) -> None:
    assert CodeTests(None, ("",), (expected,)).is_expected(0, output) is same


@pytest.mark.parametrize(
    ("output", "expected", "same"),
    [
        ("[1, 2]", "[1,2]", True),
        ("true", "true", True),
        ('"a"', '"b"', False),
        ("1", '"1"', False),
        ("[2, 1]", "[1, 2]", False),
        ("", "1", False),
        (pickle.dumps(1).decode("latin-1"), "1", False),
    ],
)
def test_results_of_functions_are_compared_as_values(
    output: str, expected: str, same: bool
) -> None:
    assert CodeTests("f", ("",), (expected,)).is_expected(0, output) is same
