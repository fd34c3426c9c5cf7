"""The grader's rates of error on pairs that it was not developed on, as the page tells them."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from rlcm_serve.answers.grader import GRADER
from studies.evaluation import grading_pairs

ROOT = Path(__file__).parents[3]
MOST = {"false unequals": 0.05, "false equals": 0.05}
"""The rates that a later grader must keep, too."""


@pytest.fixture(scope="module")
def listed() -> dict[str, Any]:
    """What is written down, by grader."""
    found: dict[str, Any] = json.loads(grading_pairs.RESULTS.read_text())
    return found


@pytest.mark.slow
def test_the_errors_are_exactly_those_listed(listed: dict[str, Any]) -> None:
    found = grading_pairs.study(grading_pairs.labelled(), grading_pairs.by_the_service)
    assert json.loads(json.dumps(found)) == listed[GRADER]


def test_the_rates_are_low(listed: dict[str, Any]) -> None:
    for name, most in MOST.items():
        rate = listed[GRADER][name]
        assert rate["wrong"] <= most * rate["pairs"]


def test_the_page_tells_the_rates(listed: dict[str, Any]) -> None:
    page = (ROOT / "docs" / "studies" / "grading.md").read_text()
    rows = re.findall(r"% \((\d+) of (\d+)\)[^|]*\|[^|]*% \((\d+) of (\d+)\)", page)
    for found in listed.values():
        rates = [found[name][part] for name in MOST for part in ("wrong", "pairs")]
        assert tuple(map(str, rates)) in rows


def test_no_pair_has_two_labels() -> None:
    seen: dict[frozenset[str], str] = {}
    for by_label in grading_pairs.labelled().values():
        for label, pairs in by_label.items():
            for pair in pairs:
                assert seen.setdefault(frozenset(pair), label) == label, pair
