"""Rows of LiveCodeBench, packed in the format of its files."""

import base64
import json
import pickle
import zlib
from collections.abc import Sequence
from typing import Any

from rlcm_serve.evaluation.datasets.questions import code_question

Test = tuple[str, str]


def packed(value: Any) -> str:
    """The format of `private_test_cases`: JSON in a pickle, deflated, in base 64."""
    return base64.b64encode(zlib.compress(pickle.dumps(value))).decode()


def row(
    public: Sequence[Test], private: Sequence[Test] = (), function: str | None = None
) -> dict[str, Any]:
    """A row of `code_generation_lite`."""
    kind = "functional" if function else "stdin"
    listed = [
        [{"input": given, "output": expected, "testtype": kind} for given, expected in tests]
        for tests in (public, private)
    ]
    return {
        "question_title": "Sum",
        "question_content": "Add what is given.",
        "platform": "leetcode" if function else "atcoder",
        "question_id": "abc_1",
        "contest_id": "abc",
        "contest_date": "2025-01-04T00:00:00",
        "starter_code": f"class Solution:\\n    def {function}(self, a):\\n" if function else "",
        "difficulty": "easy",
        "public_test_cases": json.dumps(listed[0]),
        "private_test_cases": packed(json.dumps(listed[1])),
        "metadata": json.dumps({"func_name": function} if function else {}),
    }


def reference(
    public: Sequence[Test], private: Sequence[Test] = (), function: str | None = None
) -> str:
    """The reference of such a row."""
    found = row(public, private, function)
    return code_question(found | {"problem": found["question_content"]}).answer
