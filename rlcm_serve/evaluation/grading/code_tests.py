"""LiveCodeBench's tests: how they are packed, and when an output is the expected one."""

from __future__ import annotations

import base64
import binascii
import io
import json
import pickle
import zlib
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Self

from rlcm_serve.errors import RequestRefused

LARGEST = 2**28
"""Bytes that the tests of one problem may unpack to."""


class _OnlyText(pickle.Unpickler):
    """Unpickles text, and refuses everything that would have to import a name: nothing is run."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"tests hold text, not {module}.{name}")


@dataclass(frozen=True, slots=True)
class CodeTests:
    """What programs are held against.

    Attributes:
        function: that is called, a method of `Solution` if there is one; None where a program reads
            standard input.
        inputs, outputs: of each test, the public ones first.
    """

    function: str | None
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    @classmethod
    def read(cls, reference: str) -> Self:
        """The tests of a reference, as `questions.code_question` writes it.

        Raises:
            RequestRefused: they cannot be read, or there are none.
        """
        try:
            plain = json.loads(reference)
            function = plain["function"]
            tests = [test for packed in plain["tests"] for test in _unpacked(packed)]
            inputs = tuple(str(test["input"]) for test in tests)
            outputs = tuple(str(test["output"]) for test in tests)
            if function is not None:
                for text in inputs:
                    _ = [json.loads(line) for line in text.split("\n")]
                _ = [json.loads(text) for text in outputs]
        except (ValueError, KeyError, TypeError, EOFError, zlib.error, pickle.PickleError) as error:
            raise RequestRefused("data", f"its tests do not parse: {error!r:.200}") from error
        if not tests:
            raise RequestRefused("data", "it has no test")
        return cls(function, inputs, outputs)

    def is_expected(self, at: int, output: str) -> bool:
        """Whether this output passes the test with the number `at`.

        As LiveCodeBench has it: a function's result equals the expected value, tuples counting as
        lists. Of text, each line is the same but for white space around it, or holds the same
        decimal numbers.
        """
        expected = self.outputs[at]
        if self.function is not None:
            try:
                return bool(json.loads(output) == json.loads(expected))
            except (ValueError, RecursionError):
                return False
        lines, expected_lines = _lines(output), _lines(expected)
        return len(lines) == len(expected_lines) and all(map(_is_same, lines, expected_lines))


def _unpacked(packed: Any) -> list[dict[str, Any]]:
    """Tests as they are, as JSON, or as JSON in a pickle, deflated, in base 64."""
    if isinstance(packed, str):
        try:
            packed = json.loads(packed)
        except json.JSONDecodeError:
            packed = json.loads(_inflated(packed))
    if not isinstance(packed, list):
        raise ValueError("tests have to be a list")
    return packed


def _inflated(packed: str) -> str:
    try:
        data = base64.b64decode(packed, validate=True)
    except binascii.Error as error:
        raise ValueError(f"tests are neither JSON nor base 64 ({error})") from error
    inflating = zlib.decompressobj()
    pickled = inflating.decompress(data, LARGEST)
    if inflating.unconsumed_tail:
        raise ValueError(f"tests unpack to over {LARGEST} bytes")
    text = _OnlyText(io.BytesIO(pickled)).load()
    if not isinstance(text, str | bytes):
        raise ValueError(f"tests unpack to {type(text).__name__}, not text")
    return text if isinstance(text, str) else text.decode()


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().split("\n")]


def _is_same(line: str, expected: str) -> bool:
    if line == expected:
        return True
    try:
        return [*map(Decimal, line.split())] == [*map(Decimal, expected.split())]
    except InvalidOperation:  # not all of them are numbers
        return False
