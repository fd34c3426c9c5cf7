import gzip
import json
import time
from pathlib import Path

import pytest

from rlcm_serve.evaluation.verbalized import verbalized

DATA = Path(__file__).parents[2] / "data"


@pytest.mark.parametrize(
    ("text", "confidence"),
    [
        ("<confidence>0.8</confidence>", 0.8),
        ("<confidence> .5 </confidence>", 0.5),
        ("<confidence>1</confidence>", 1.0),
        ("<confidence>0</confidence>", 0.0),
        ("<confidence>80%</confidence>", 0.8),
        (r"<confidence>80\%</confidence>", 0.8),
        ("<confidence>80</confidence>", 0.8),
        ("<confidence>8/10</confidence>", 0.8),
        ("<CONFIDENCE>8 out of 10</CONFIDENCE>", 0.8),
        ("<confidence>0.7", 0.7),
        ("<confidence>0.2</confidence> no: <confidence>0.9</confidence>", 0.9),
        ("Confidence: 0.75", 0.75),
        ("My confidence level is 85 percent.", 0.85),
        ("I am 90 % sure, no, 60% confident.", 0.6),
        ("**Confidence:** 70%", 0.7),
        ("<confidence>high</confidence>", None),
        ("<confidence>between 0.6 and 0.7</confidence>", None),
        ("<confidence>120%</confidence>", None),
        ("<confidence>1/0</confidence>", None),
        ("<confidence></confidence>", None),
        ("I am quite sure that it is 7.", None),
        ("Confidence (0-1): 0.8", 0.8),
        ("I am confident.\n\n42", None),
        ("I'm confident. 7 is the answer.", None),
        ("So the 95% confidence interval is (1, 2).", None),
        ("", None),
    ],
)
def test_the_confidence_stated_last_is_read(text: str, confidence: float | None) -> None:
    assert verbalized(text) == confidence


@pytest.mark.parametrize("text", ["1" * 8000, "0." + "3" * 3000, "1" * 200 + " " * 2000])
def test_what_goes_round_in_circles_is_read_at_once(text: str) -> None:
    began = time.process_time()
    assert verbalized(text) is None
    assert time.process_time() - began < 0.5


def test_all_that_a_real_model_stated_are_read_as_recorded_but_one() -> None:
    with gzip.open(DATA / "rlcr-math500.jsonl.gz", "rt") as file:
        rows = [json.loads(line) for line in file]
    others = [
        (verbalized(row["output"]), row["verbal_confidence"])
        for row in rows
        if verbalized(row["output"]) != row["verbal_confidence"]
    ]
    assert len(rows) == 500
    assert others == [(0.01, 0.0)]  # a tag inside another, which was recorded as 0
