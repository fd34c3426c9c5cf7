"""What the watch over an attacked service finds without an attack."""

from __future__ import annotations

import json

import pytest

from tests.attack.target import Target
from tests.served import QUESTION

pytestmark = pytest.mark.attack


def test_ordinary_questions_leave_the_loop_free(target: Target) -> None:
    asked = json.dumps({"problem": QUESTION, "alpha": 0.1, "n": 4}).encode()
    with target.watched() as watch:
        responses = target.flood([asked] * 8)
    assert [response.status_code for response in responses] == [200] * 8
    watch.require_a_free_loop()


def test_the_stopwatch_sees_the_loop_itself(target: Target) -> None:
    """Otherwise no attack would ever be found to hold it."""
    started = [json.loads(line) for line in target.stopwatch.read_text().splitlines()]
    assert any("Service.start" in one["name"] and one["cpu"] > 0.01 for one in started)
