"""docs/studies/grading.md and the study behind it say what the grader does, and all of it."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from studies.evaluation import grading_study

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def listed() -> dict[str, Any]:
    """What is written down."""
    found: dict[str, Any] = json.loads(grading_study.RESULTS.read_text())
    return found


@pytest.mark.slow
def test_the_disagreements_are_exactly_those_listed(listed: dict[str, Any]) -> None:
    """Every reference answer, every rewrite and near miss of it, every recorded output."""
    assert grading_study.study() == listed


def test_the_study_has_every_problem_and_output(listed: dict[str, Any]) -> None:
    counts = {"math500": 500, "aime24": 30, "aime25": 30, "amc23": 40}
    assert listed["problems"] == counts | {"olympiadbench": 675, "gsm8k": 1319}
    assert listed["recorded"]["outputs"] == listed["recorded"]["answers read"] == 500
    assert listed["rewrites"]["itself"] == {"pairs": 1005, "disagreements": []}


def test_the_page_tells_every_count(listed: dict[str, Any]) -> None:
    page = (ROOT / "docs" / "studies" / "grading.md").read_text()
    rows = re.findall(r"^\| ([^|]+?) \| ([\d,]+) of ([\d,]+) \|", page, re.MULTILINE)
    told = {(name, int(bad.replace(",", "")), int(n.replace(",", ""))) for name, bad, n in rows}
    assert told == {
        (name, len(result["disagreements"]), result["pairs"])
        for kind in ("rewrites", "near misses")
        for name, result in listed[kind].items()
    }
    differences = dict(re.findall(r"^\| ([^|]+?) \| (\d+) \|", page, re.MULTILINE))
    assert differences == {
        name: str(len(rows)) for name, rows in listed["recorded"]["differences"].items()
    }
