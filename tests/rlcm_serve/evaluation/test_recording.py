import asyncio
import json
import math
from collections.abc import Collection
from dataclasses import replace

import pytest

from rlcm_serve.answers.grading.exact import ExactGrader
from rlcm_serve.core import GenerationSettings, TokenIds
from rlcm_serve.errors import RequestRefused
from rlcm_serve.evaluation.recording import EvaluationRecorder
from rlcm_serve.evaluation.rollouts import EvaluationRollout
from rlcm_serve.evaluation.sources import Source
from rlcm_serve.profiles.profile import Profile
from rlcm_serve.recording.problems import LabelledProblem
from tests.rlcm_serve.scripted_engine import Script, ScriptedEngine

PROBLEM = LabelledProblem("p1", "A dial shows 3. A up 5.", "8")
SIGNALS = {"sequence-probability": 0.9, "tail": 0.6, "lowest-group": 0.5}
ASKED = r"<answer>\boxed{7}</answer><confidence>"
NATURAL = Script(
    confidences=(0.2, 0.6),
    c_end=0.7,
    ends_at=40,
    own=r"<answer>\boxed{8}</answer><confidence>0.9</confidence>",
    forced=("7}", "8}"),
    continued={ASKED: "0.35</confidence>"},
    signals=SIGNALS,
)


def record(
    script: Script, answers: int = 2, sources: Collection[Source] = tuple(Source)
) -> EvaluationRollout:
    recorder = EvaluationRecorder(ScriptedEngine(script), ExactGrader().extractor, answers, sources)
    return asyncio.run(recorder.record(PROBLEM, number=3))


def test_every_reading_has_its_signals_answers_entropy_and_what_is_said_of_the_first_answer() -> (
    None
):
    record_ = record(NATURAL)
    assert record_.key == ("p1", 3)
    assert [reading.tokens for reading in record_.readings] == [16, 32, 40]
    assert [reading.signals["probe"] for reading in record_.readings] == [0.2, 0.6, 0.7]
    first = record_.readings[0]
    assert {name: first.signals[name] for name in SIGNALS} == SIGNALS
    assert first.answers == ("7", "8")
    assert first.answer_tokens == (3, 3)
    assert first.entropy == 0.5
    assert first.verbalized == 0.35


@pytest.mark.parametrize(
    ("source", "entropy", "verbalized"),
    [(Source.PROBE, None, None), (Source.ENTROPY, 0.5, None), (Source.VERBALIZED, None, 0.35)],
)
def test_what_a_source_that_nobody_asked_for_needs_is_not_generated(
    source: Source, entropy: float | None, verbalized: float | None
) -> None:
    reading = record(NATURAL, sources=[source]).readings[0]
    assert (reading.entropy, reading.verbalized) == (entropy, verbalized)
    assert (reading.verbalized_tokens > 0) == (verbalized is not None)
    assert reading.signals["tail"] == SIGNALS["tail"], "what costs nothing is always there"
    assert reading.answers == ("7", "8")


def test_the_models_own_answer_and_confidence_are_what_counts_at_its_end() -> None:
    record_ = record(NATURAL)
    assert record_.natural
    assert (record_.own_answer, record_.own_verbalized) == ("8", 0.9)
    assert record_.answer_at(0) == ("7", 3)
    assert record_.answer_at(2) == ("8", record_.own_tokens)


def test_without_an_answer_of_its_own_the_forced_one_counts_and_costs() -> None:
    record_ = record(Script(confidences=(0.3,), ends_at=None, own=None, signals=SIGNALS))
    assert not record_.natural
    last = len(record_.readings) - 1
    assert record_.answer_at(last) == ("7", record_.own_tokens + 3)


def test_an_answer_of_its_own_that_was_cut_off_counts_as_it_does_in_serving() -> None:
    profile = Profile("line", extractor="answer-line")
    script = replace(NATURAL, own="Answer: 12", continued={"Answer:": " 1250\n"})
    for own_complete, answer in ((True, "12"), (False, "1250")):
        engine = ScriptedEngine(replace(script, own_complete=own_complete), profiles=[profile])
        recorder = EvaluationRecorder(engine.under("line"), ExactGrader().extractor, 1)
        record_ = asyncio.run(recorder.record(PROBLEM, number=0))
        assert record_.own_text == "Answer: 12"
        assert record_.answer_at(2)[0] == answer
    boxed = record(replace(NATURAL, own_complete=False))
    assert boxed.own_answer == "8"


def test_the_probability_is_of_the_answers_own_tokens() -> None:
    # The pieces are the first character, the rest, and the end; the answer `7` is the first alone.
    script = Script(forced="7} and so on", signals=SIGNALS, log_prob=-0.25)
    assert record(script).readings[0].answer_probability == pytest.approx(math.exp(-0.25))
    longer = Script(forced="12}", signals=SIGNALS, log_prob=-0.25)
    assert record(longer).readings[0].answer_probability == pytest.approx(math.exp(-0.5))


@pytest.mark.parametrize(
    ("extractor", "forced", "answer", "tokens"),
    [
        (r"regex:Answer: (\d)", "4 + 8 = 12. Answer: 4", "4", 2),  # the first piece is a 4 too
        ("json:answer", r'"\u0037"}', "7", 2),  # written in another way: every piece
    ],
)
def test_the_probability_ends_where_the_answer_does(
    extractor: str, forced: str, answer: str, tokens: int
) -> None:
    profile = Profile("own", extractor=extractor)
    engine = ScriptedEngine(replace(NATURAL, forced=forced, log_prob=-0.25), profiles=[profile])
    recorder = EvaluationRecorder(engine.under("own"), ExactGrader().extractor, 1)
    reading = asyncio.run(recorder.record(PROBLEM, number=0)).readings[0]
    assert reading.answers[0] == answer
    assert reading.answer_probability == pytest.approx(math.exp(-0.25 * tokens))


def test_where_no_answer_can_be_read_nothing_is_said_of_it() -> None:
    reading = record(Script(forced="no end", signals=SIGNALS)).readings[0]
    assert reading.answers == (None, None)
    assert reading.answer_probability is None
    assert (reading.verbalized, reading.verbalized_tokens) == (None, 0)


def test_a_rollout_is_read_from_the_log_as_it_was_written() -> None:
    record_ = record(NATURAL)
    assert EvaluationRollout.from_json(record_.to_json()) == record_


def test_rows_of_earlier_versions_are_read() -> None:
    row = """{"problem_id": "p1", "rollout": 0, "text": "Hm.", "tokens": 3, "natural": false,
        "own_text": null, "own_answer": null, "own_tokens": 0, "own_verbalised": 0.5,
        "readings": [{"tokens": 3, "signals": {"probe": 0.25}, "answers": ["8", null],
        "answer_tokens": [2, 3], "answer_probability": null, "entropy": 1.5, "verbalised": 0.75,
        "verbalised_tokens": 4}]}"""
    record_ = EvaluationRollout.from_json(json.loads(row))
    (reading,) = record_.readings
    assert (record_.own_verbalized, reading.verbalized, reading.verbalized_tokens) == (0.5, 0.75, 4)
    assert (reading.signals, reading.answers) == ({"probe": 0.25}, ("8", None))
    written = json.loads(json.dumps(record_.to_json()))
    assert written == json.loads(row)


def test_a_problem_that_does_not_fit_is_named() -> None:
    class Short(ScriptedEngine):
        def check(self, prompt: TokenIds, generation: GenerationSettings) -> None:
            raise RequestRefused("problem", "the prompt is too long")

    with pytest.raises(RequestRefused, match=r"problem 'p1': the prompt is too long"):
        EvaluationRecorder(Short(), ExactGrader().extractor).check(PROBLEM)
