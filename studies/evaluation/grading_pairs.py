"""Rates of error of the mathematics grader, on pairs that it was not developed on.

    python -m studies.evaluation.grading_pairs [--smoke]

The pairs are in `tests/data/answer-pairs.toml`. The baseline is math-verify alone, with its default
settings and each answer in a box. Writes `results/grading-pairs.json`, with every error, and
prints the rates as Markdown. Takes a minute. A test checks that the grader's errors are these.
"""

from __future__ import annotations

import json
import logging
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from math_verify import parse, verify

from rlcm_serve.answers.grader import GRADER
from rlcm_serve.evaluation.grading import Pair, grader_named
from studies.smoke import study_parser

PAIRS = Path(__file__).parents[2] / "tests" / "data" / "answer-pairs.toml"
RESULTS = Path(__file__).parents[1] / "results" / "grading-pairs.json"

Labelled = dict[str, dict[str, list[Pair]]]
"""By category, the pairs `equal` and the pairs `unequal`: each a reference and an answer."""


def labelled() -> Labelled:
    """All pairs with their labels."""
    tables = tomllib.loads(PAIRS.read_text())
    return {
        category: {label: [(one, other) for one, other in pairs] for label, pairs in table.items()}
        for category, table in tables.items()
    }


def study(pairs: Labelled, grade: Callable[[Sequence[Pair]], list[bool]]) -> dict[str, Any]:
    """The errors of a grader by category, and its two rates of error over all pairs."""
    errors: dict[str, dict[str, list[Pair]]] = {}
    for category, by_label in pairs.items():
        for label, listed in by_label.items():
            verdicts = grade(listed)
            wrong = [
                pair
                for pair, verdict in zip(listed, verdicts, strict=True)
                if verdict != (label == "equal")
            ]
            errors.setdefault(category, {})[label] = wrong
    return {
        "false unequals": _rate(errors, pairs, "equal"),
        "false equals": _rate(errors, pairs, "unequal"),
        "errors": errors,
    }


def by_the_service(pairs: Sequence[Pair]) -> list[bool]:
    """The verdicts of the service's grader."""
    with grader_named("math") as grader:
        return grader.grade([(answer, reference) for reference, answer in pairs])


def by_math_verify(pairs: Sequence[Pair]) -> list[bool]:
    """The verdicts of math-verify alone."""
    return [
        bool(verify(parse(rf"\boxed{{{reference}}}"), parse(rf"\boxed{{{answer}}}")))
        for reference, answer in pairs
    ]


def table(pairs: Labelled, found: dict[str, Any]) -> str:
    """The errors of each category, as Markdown."""
    lines = ["| category | wrongly unequal | wrongly equal |", "|---|---|---|"]
    for category, by_label in pairs.items():
        errors = found["errors"][category]
        cells = [
            f"{len(errors.get(label, []))} of {len(by_label.get(label, []))}"
            for label in ("equal", "unequal")
        ]
        lines.append(f"| {category.replace('_', ' ')} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    smoke = study_parser(__doc__).parse_args().smoke
    logging.getLogger("math_verify").setLevel(logging.CRITICAL)
    pairs = labelled()
    if smoke:
        pairs = {category: pairs[category] for category in ("integers", "words")}
    found = {GRADER: study(pairs, by_the_service), "math-verify": study(pairs, by_math_verify)}
    print(table(pairs, found[GRADER]))
    for name, results in found.items():
        print(f"\n{name}: {results['false unequals']} / {results['false equals']}")
    if not smoke:
        RESULTS.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")


def _rate(errors: dict[str, dict[str, list[Pair]]], pairs: Labelled, label: str) -> dict[str, int]:
    return {
        "wrong": sum(len(by_label.get(label, [])) for by_label in errors.values()),
        "pairs": sum(len(by_label.get(label, [])) for by_label in pairs.values()),
    }


if __name__ == "__main__":
    main()
