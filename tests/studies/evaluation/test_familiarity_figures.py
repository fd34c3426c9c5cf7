"""The data of the familiarity study are sound, and its page has the figures that it wrote."""

from __future__ import annotations

import json
import re
from pathlib import Path

from studies.evaluation.familiarity_study import RESULTS, read, to_markdown

PAGE = Path(__file__).parents[3] / "docs" / "studies" / "familiarity.md"
GAINS = r"up|add|get on|go in|put up|increase|plus|enter|added"
LOSSES = r"down|take|get off|come out|taken|decrease|minus|subtract|leave|removed"
START = re.compile(r"(?:shows|reads|Start at|Begin at|has|holds) (\d+)")


def walk(question: str) -> int:
    """The value at the end of the steps, in whatever order and words they are told."""
    start = START.search(question)
    assert start is not None
    value = int(start[1])
    for sentence in re.split(r"[.?]", question.replace(start[0], "")):
        gain, loss = re.search(rf"\b({GAINS})\b", sentence), re.search(rf"\b({LOSSES})\b", sentence)
        if sizes := re.findall(r"\d+(?!\))", sentence):
            assert bool(gain) != bool(loss), sentence
            value += int(sizes[-1]) * (1 if gain else -1)
    return value % 10 if re.search("dial|clock", question) else value


def test_there_are_300_far_and_100_near_inputs_and_no_two_are_the_same() -> None:
    far, near = read("far"), read("near")
    assert (len(far), len(near)) == (300, 100)
    assert len({one["problem"] for one in far + near}) == 400
    assert len({one["id"] for one in far + near}) == 400


def test_the_answers_of_near_inputs_are_right() -> None:
    wrong = [one["id"] for one in read("near") if walk(one["problem"]) != int(one["answer"])]
    assert not wrong


def test_the_page_has_the_figures_of_the_study() -> None:
    found, page = json.loads(RESULTS.read_text("utf-8")), PAGE.read_text("utf-8")
    assert to_markdown(found) in page
    for model, figures in found.items():
        column = 2 if model == "embedded" else 3
        for kind, flagged in figures["near_flagged"].items():
            (row,) = re.findall(rf"^\| {kind.replace('-', ' ')} \|.*$", page, re.MULTILINE)
            assert row.split("|")[column + 1].strip() == str(flagged)
