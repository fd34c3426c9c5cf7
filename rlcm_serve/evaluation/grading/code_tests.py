"""LiveCodeBench's tests: unpacks them, and compares outputs with the expected ones."""

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
"""Maximum size of the unpacked tests of one problem, in bytes."""


class _OnlyText(pickle.Unpickler):
    """Unpickles text; refuses everything that imports a name, so that no code runs."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"tests hold text, not {module}.{name}")


@dataclass(frozen=True, slots=True)
class CodeTests:
    """The tests of a problem.

    Attributes:
        function: called by each test, a method of `Solution` if that class exists; None if the
            program reads standard input.
        inputs, outputs: of each test, public tests first.
    """

    function: str | None
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    @classmethod
    def read(cls, reference: str) -> Self:
        """Reads a reference that `questions.code_question` wrote.

        Raises:
            RequestRefused: the tests cannot be read, or there are none.
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
            raise RequestRefused(
                "data", f"its tests do not parse: {error!r:.200}; correct the row"
            ) from error
        if not tests:
            raise RequestRefused("data", "it has no test; correct the row")
        return cls(function, inputs, outputs)

    def is_expected(self, at: int, output: str) -> bool:
        """Whether this output passes test number `at`.

        The rules are LiveCodeBench's. The result of a function equals the expected value; tuples
        count as lists. In a text, each line is equal after stripping, or has the same decimal
        numbers.
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
    """Tests given as a list, as JSON, or as pickled JSON that is deflated and in base 64."""
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
