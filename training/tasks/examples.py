"""The page's example questions: a fixed selection from every family and level.

`python -m training.tasks.examples > rlcm_serve/page/static/examples.json` writes the file.
"""

from __future__ import annotations

import json
import random
import sys
from itertools import islice
from typing import Any

from training.tasks.problems import FAMILIES, LEVELS, Split, problem_stream

SEED = 7
PER_LEVEL = 4
TITLES = {"dial": "A dial", "total": "A running total", "tale": "A short story"}
NOTES = {"dial": "The dial goes from 0 to 9 and round: up 1 from 9 is 0."}
"""Rules that a question does not state, by family."""


def page_examples() -> dict[str, Any]:
    """Questions of the test split by family and level, `PER_LEVEL` different ones for each."""
    return {
        "families": [
            {
                "name": family,
                "title": TITLES[family],
                "note": NOTES.get(family, ""),
                "levels": [
                    {"level": level, "questions": _questions(family, level)} for level in LEVELS
                ],
            }
            for family in FAMILIES
        ]
    }


def to_text(examples: dict[str, Any]) -> str:
    """The JSON text of the file."""
    return json.dumps(examples, indent=1) + "\n"


def _questions(family: str, level: int) -> list[str]:
    problems = problem_stream(
        Split.TEST, random.Random(f"{SEED}-{family}-{level}"), [family], [level]
    )
    different = dict.fromkeys(problem.question for problem in islice(problems, 10 * PER_LEVEL))
    return list(different)[:PER_LEVEL]


if __name__ == "__main__":
    sys.stdout.write(to_text(page_examples()))
