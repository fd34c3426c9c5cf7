"""Errors of the graders: on every reference answer, and on 500 outputs of a real model.

    python -m studies.evaluation.grading_study [--smoke]

Writes `results/grading.json`. A test checks that docs/studies/grading.md has the same figures.
Takes half a minute.
"""

import gzip
import json
import re
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from rlcm_serve.evaluation.datasets.loading import load
from rlcm_serve.evaluation.grading import Grader, Pair, grader_named
from rlcm_serve.evaluation.verbalized import verbalized
from studies.evaluation.grading_rewrites import BASE, NEAR_MISSES, REWRITES, core, right_hand_side
from studies.smoke import study_parser

BENCHMARKS = ("math500", "aime24", "aime25", "amc23", "olympiadbench", "gsm8k")
DATA = Path(__file__).parents[2] / "tests" / "data"
RESULTS = Path(__file__).parents[1] / "results" / "grading.json"


def references(most: int | None) -> dict[str, list[str]]:
    """The first `most` reference answers of each benchmark, in the order of its problems."""
    return {
        name: [problem.answer for problem in load(f"{name}={DATA / name}.jsonl.gz").problems][:most]
        for name in BENCHMARKS
    }


def pairs_by_class(
    answers: Sequence[str], classes: dict[str, Callable[[str], list[str]]]
) -> dict[str, list[Pair]]:
    """Distinct pairs of a rewritten answer and its reference, by class."""
    different = dict.fromkeys(answers)
    return {
        name: list(
            dict.fromkeys((text, said) for said in different for text in rewrite(core(said)))
        )
        for name, rewrite in classes.items()
    }


def next_answers(by_benchmark: dict[str, list[str]]) -> list[Pair]:
    """Each reference, paired with the next different reference as its answer."""
    pairs = []
    for answers in by_benchmark.values():
        following = [*answers[1:], answers[0]]
        pairs += [
            (other, own)
            for own, other in zip(answers, following, strict=True)
            if right_hand_side(core(own)) != right_hand_side(core(other))
        ]
    return list(dict.fromkeys(pairs))


def disagreements(
    grader: Grader, by_class: dict[str, list[Pair]], expected: bool
) -> dict[str, dict[str, Any]]:
    """The number of pairs in each class, and the pairs whose verdict is not `expected`."""
    found = {}
    for name, pairs in by_class.items():
        verdicts = grader.grade(pairs)
        wrong = [list(p) for p, right in zip(pairs, verdicts, strict=True) if right != expected]
        found[name] = {"pairs": len(pairs), "disagreements": wrong}
    return found


def kind_of_difference(answer: str, reference: str, ours: bool) -> str:
    """The reason why the recorded verdict differs from the grader's."""
    if not ours:
        return "recorded as right, and wrong"
    if BASE.search(reference):
        return "base left out"
    squeezed = (re.sub(r"\s", "", core(text)) for text in (answer, reference))
    if len({*squeezed}) == 1:
        return "white space and delimiters"
    for kind, mark in {
        "fractions": r"\\d?frac",
        "units and degrees": r"\\circ|\\mbox",
        "words and letters": r"\\text",
        "equations and membership": r"=|\\in\b",
        "symbols": r"\\cup",
        "decimals": r"\.",
    }.items():
        if re.search(mark, reference):
            return kind
    return "other"


def recorded(grader: Grader, most: int | None) -> dict[str, Any]:
    """The answers found in the model's first `most` outputs, and the differing verdicts."""
    with gzip.open(DATA / "rlcr-math500.jsonl.gz", "rt") as file:
        rows = [json.loads(line) for line in islice(file, most)]
    answered = [(grader.extractor.find(row["output"]), row) for row in rows]
    read = [(answer, row) for answer, row in answered if answer is not None]
    verdicts = grader.grade([(answer, row["answer"]) for answer, row in read])
    differences: dict[str, list[list[Any]]] = {}
    for (answer, row), ours in zip(read, verdicts, strict=True):
        if ours != bool(row["recorded_correct"]):
            kind = kind_of_difference(answer, row["answer"], ours)
            differences.setdefault(kind, []).append([answer, row["answer"]])
    stated = [(verbalized(row["output"]), row["verbal_confidence"]) for row in rows]
    return {
        "outputs": len(rows),
        "answers read": len(read),
        "right": sum(verdicts),
        "recorded as right": sum(row["recorded_correct"] for row in rows),
        "confidences read": sum(ours is not None for ours, _ in stated),
        "confidences as recorded": sum(ours == theirs for ours, theirs in stated),
        "differences": dict(sorted(differences.items())),
    }


def study(most: int | None = None) -> dict[str, Any]:
    """All results, in the form of the file; from the first `most` rows of each input, if given."""
    by_benchmark = references(most)
    answers = [answer for answers in by_benchmark.values() for answer in answers]
    near = pairs_by_class(answers, NEAR_MISSES) | {"next problem": next_answers(by_benchmark)}
    itself = {"itself": [(answer, answer) for answer in dict.fromkeys(answers)]}
    with grader_named("math") as grader:
        return {
            "grader": grader.name,
            "problems": {name: len(answers) for name, answers in by_benchmark.items()},
            "different references": len({*answers}),
            "rewrites": disagreements(grader, itself | pairs_by_class(answers, REWRITES), True),
            "near misses": disagreements(grader, near, False),
            "recorded": recorded(grader, most),
        }


def main() -> None:
    smoke = study_parser(__doc__).parse_args().smoke
    found = study(most=5 if smoke else None)
    if not smoke:
        RESULTS.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    for kind in ("rewrites", "near misses"):
        for name, result in found[kind].items():
            print(f"{kind}, {name}: {len(result['disagreements'])} of {result['pairs']}")
    for name, rows in found["recorded"]["differences"].items():
        print(f"recorded, {name}: {len(rows)}")
    print({key: value for key, value in found["recorded"].items() if key != "differences"})


if __name__ == "__main__":
    main()
