"""Answers of a batch are read in processes, and classes are those of the grader."""

import math
import os
import random
import signal
import subprocess
import sys
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlcm_serve.aggregation import Rule, VoteOptions
from rlcm_serve.aggregation import graders as graders_module
from rlcm_serve.aggregation.graders import Graders
from rlcm_serve.aggregation.readers import CHUNK, Reader
from rlcm_serve.answers.canonical.reading import canonical
from rlcm_serve.answers.grader import AnswerGrader
from rlcm_serve.errors import WorkerFailed
from tests.rlcm_serve.aggregation.batches import Row, aggregate

SPELLINGS = [
    *[
        "5",
        "5.0",
        "005",
        r"\frac{10}{2}",
        "x = 5",
        "5 cm",
        "5 m",
        r"5\text{ cm}",
        "500 cm",
        "50 mm",
    ],
    *[
        "0.5",
        r"50\%",
        "50",
        "1/2",
        r"\frac12",
        ".5",
        r"(1, 2)",
        "(2, 1)",
        "1, 2",
        "2, 1",
        r"\{1,2\}",
    ],
    *["[1,2]", "north", "North", r"\text{north}", "yes", "no", "on", "2x+1", "1+2x", "y = 2x+1"],
    *[r"\sqrt{8}", r"2\sqrt2", r"\pi", "3.14", "x = 3", "y = 3", "3", r"\int_0^1 x\,dx"],
]
answers = st.lists(st.sampled_from(SPELLINGS), min_size=1, max_size=12)


@pytest.mark.parametrize("few", [0, graders_module.FEW])
def test_the_classes_of_a_vote_are_the_graders_own(
    grader: AnswerGrader, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    """With `few` 0, every text is read in another process."""
    monkeypatch.setattr(graders_module, "FEW", few)
    rng = random.Random(0)
    problems = {
        f"p{at}": [*rng.choices(SPELLINGS, k=rng.randint(1, 12)), "another"] for at in range(40)
    }
    rows = [Row(id_, said, 0.5, "5") for id_, given in problems.items() for said in given]
    results, _ = aggregate(rows, VoteOptions(Rule.MAJORITY))
    for result in results:
        given = problems[result["problem_id"]]
        classes = grader.classes(given)
        assert result["classes"] == max(classes) + 1
        assert sorted(result["tally"].values()) == sorted(map(classes.count, set(classes)))
        assert result["pass_at_1"] == sum(grader.matches(given, "5")) / len(given)
        assert result["compared"]


@settings(max_examples=60)
@given(said=answers)
def test_no_class_holds_two_unequal_answers(grader: AnswerGrader, said: list[str]) -> None:
    classes = grader.classes(said)
    for one, number in zip(said, classes, strict=True):
        for other, same in zip(said, classes, strict=True):
            assert number != same or grader.equal(one, other)


def test_forms_are_the_same_in_another_process() -> None:
    texts = [rf"\frac{{{at}}}{{{at + 1}}}" for at in range(3 * CHUNK)] + SPELLINGS
    graders = Graders()
    try:
        assert graders.read(texts) == {text: canonical(text) for text in texts}
    finally:
        graders.close()


def test_a_reader_that_is_killed_is_named_in_the_error() -> None:
    reader = Reader()
    assert reader.read(["5"], math.inf) == [canonical("5")]
    assert reader._process is not None
    os.kill(reader._process.pid, signal.SIGKILL)
    with pytest.raises(WorkerFailed, match="process that reads answers was killed"):
        reader.read(["5"], math.inf)
    assert reader.read(["6"], math.inf) == [canonical("6")], "the next one starts another"
    reader.close()


def test_a_reader_killed_amid_its_reply_gives_no_half_reply() -> None:
    script = "import os; print('[null', end='', flush=True); os.kill(os.getpid(), 9)"
    reader = Reader()
    reader._process = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with pytest.raises(WorkerFailed, match="process that reads answers was killed"):
        reader.read(["5"], math.inf)
    reader.close()


def test_reading_ends_in_time() -> None:
    reader = Reader()
    assert reader.read(["5"] * CHUNK, 0.0) is None
    assert reader.read(["5"], math.inf) == [canonical("5")]
    reader.close()


def test_abandoned_graders_end_reading_at_once() -> None:
    graders = Graders()
    timer = threading.Timer(0.3, graders.abandon)
    timer.start()
    began = time.monotonic()
    texts = [rf"\frac{{{at}}}{{{at + 1}}}" for at in range(300_000)]
    with pytest.raises(RuntimeError, match=r"closed|shutdown"):
        graders.read(texts)
    assert time.monotonic() - began < 10
    timer.join()
    graders.close()


def test_texts_that_were_not_read_in_time_are_equal_only_to_themselves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from rlcm_serve.aggregation import Aggregation
    from tests.rlcm_serve.aggregation.batches import batch, records

    monkeypatch.setattr(graders_module, "FEW", 0)
    rows = [Row("a", said, 0.5) for said in ("0.5", "1/2", "1/2", "7", "7")]
    with Aggregation(VoteOptions(), graders=Graders(batch_limit=0.0)) as aggregation:
        assert not list(aggregation.add(batch(rows)))
        (result,) = records(aggregation.finish())
    assert result["tally"] == {"0.5": 0.5, "1/2": 1.0, "7": 1.0}
    assert not result["compared"]
