import asyncio
import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from calibration import FULL_BUDGET, ExitReason, Traces
from calibration.policy.voting import NO_ANSWER
from rlcm_serve.answers.grader import AnswerGrader
from rlcm_serve.core import Completion, GenerationSettings, Message, Role, TokenIds
from rlcm_serve.errors import Conflict, EngineDead, RequestRefused
from rlcm_serve.profiles.profile import Profile
from rlcm_serve.recording.concurrency import ROLLOUTS_AT_ONCE
from rlcm_serve.recording.journal import RecordingJournal, record_all
from rlcm_serve.recording.problems import (
    LabelledProblem,
    digest_problems,
    digest_text,
    read_problems,
    repeated,
)
from rlcm_serve.recording.recorder import Recorder
from rlcm_serve.recording.rollouts import RecordedReading, RecordedRollout, to_rollouts
from rlcm_serve.solving.fingerprints import fingerprint_of
from tests.rlcm_serve.scripted_engine import (
    BUDGET,
    FORCED_TOKENS,
    IDENTITY,
    OWN_ANSWER_TOKENS,
    Script,
    ScriptedEngine,
)

PROBLEM = LabelledProblem("p1", "A dial shows 3. A up 5.", "8")
SETTINGS: dict[str, Any] = {"model": "m0", "answers": 1}
NATURAL = Script(
    confidences=(0.2, 0.6), c_end=0.7, ends_at=40, own=r"It is \boxed{8}.", forced="7}"
)
BUDGET_END = Script(confidences=(0.3,), c_end=0.4, ends_at=None, forced="8} so")


def record(engine: ScriptedEngine, grader: AnswerGrader, answers: int = 1) -> RecordedRollout:
    return asyncio.run(Recorder(engine, grader, answers).record(PROBLEM, number=2))


class Counting(ScriptedEngine):
    """Answers 1, 2, ... to forced prefixes, and remembers them."""

    def __init__(self, *scripts: Script) -> None:
        super().__init__(*scripts)
        self.prefixes: list[int] = []

    async def continue_after(
        self,
        prompt: TokenIds,
        thinking: TokenIds,
        text: str,
        generation: GenerationSettings,
        count: int = 1,
        *,
        logprobs: bool = False,
    ) -> tuple[Completion, ...]:
        self.prefixes.append(len(thinking))
        return tuple(Completion(f"{number}}}", 10 + number) for number in range(1, count + 1))


class Dying(ScriptedEngine):
    """Dies as the given number of rollouts have begun."""

    def __init__(self, rollouts: int) -> None:
        super().__init__(NATURAL)
        self.left = rollouts

    async def check_health(self) -> None:
        self.dead = self.dead or len(self.policies) > self.left
        await super().check_health()


def test_a_natural_end_is_read_at_every_checkpoint_and_has_the_models_own_answer(
    grader: AnswerGrader,
) -> None:
    engine = ScriptedEngine(NATURAL)
    recording = record(engine, grader)
    assert (recording.problem_id, recording.rollout, recording.natural) == ("p1", 2, True)
    assert [r.tokens for r in recording.readings] == [16, 32, 40]
    assert [r.confidence for r in recording.readings] == [0.2, 0.6, 0.7]
    assert [r.answers for r in recording.readings] == [("7",), ("7",), ("8",)]
    assert [r.correct for r in recording.readings] == [(False,), (False,), (True,)]
    costs = [FORCED_TOKENS, FORCED_TOKENS, OWN_ANSWER_TOKENS]
    assert [r.answer_tokens for r in recording.readings] == costs
    assert len(recording.tokens) == 40
    assert recording.prompt == engine.prompt((Message(Role.USER, PROBLEM.problem),))
    assert engine.policies == [FULL_BUDGET]


def test_at_the_budget_the_final_answer_is_forced(grader: AnswerGrader) -> None:
    recording = record(ScriptedEngine(BUDGET_END), grader)
    assert not recording.natural
    assert [r.tokens for r in recording.readings] == [16, 32, 48, 64, 80, BUDGET]
    assert {r.answers for r in recording.readings} == {("8",)}
    assert {r.answer_tokens for r in recording.readings} == {FORCED_TOKENS}


def test_a_model_that_writes_no_answer_pays_for_both(grader: AnswerGrader) -> None:
    silent = replace(NATURAL, own="I do not know.")
    final = record(ScriptedEngine(silent), grader).readings[-1]
    assert final.answers == ("7",)
    assert final.answer_tokens == OWN_ANSWER_TOKENS + FORCED_TOKENS


def test_a_text_of_the_models_own_that_was_cut_off_counts_up_to_where_it_was(
    grader: AnswerGrader,
) -> None:
    assert NATURAL.own is not None
    cut = replace(NATURAL, own_complete=False)
    assert record(ScriptedEngine(cut), grader).readings[-1].answers == ("8",), "its box is closed"
    cut = replace(cut, own=NATURAL.own.split("}")[0])
    final = record(ScriptedEngine(cut), grader).readings[-1]
    assert (final.answers, final.answer_tokens) == (("7",), OWN_ANSWER_TOKENS + FORCED_TOKENS)


def test_a_forced_answer_that_never_closes_is_none_and_wrong(grader: AnswerGrader) -> None:
    recording = record(ScriptedEngine(replace(BUDGET_END, forced="8 and so on")), grader)
    assert {r.answers for r in recording.readings} == {(None,)}
    assert {r.correct for r in recording.readings} == {(False,)}


def test_k_answers_are_forced_at_every_cut(grader: AnswerGrader) -> None:
    engine = Counting(replace(NATURAL, own=None))
    recording = asyncio.run(
        Recorder(engine, grader, answers=4).record(replace(PROBLEM, answer="2"), 0)
    )
    assert engine.prefixes == [16, 32, 40]
    for reading in recording.readings:
        assert reading.answers == ("1", "2", "3", "4")
        assert reading.correct == (False, True, False, False)
        assert reading.share_correct == 0.25
    assert [r.answer_tokens for r in recording.readings] == [11, 11, 11 + 0]


def test_answers_are_graded_by_value(grader: AnswerGrader) -> None:
    problem = replace(PROBLEM, answer=r"\frac{1}{2}")
    engine = ScriptedEngine(replace(BUDGET_END, forced="0.5}"))
    recording = asyncio.run(Recorder(engine, grader).record(problem, 0))
    assert all(reading.correct == (True,) for reading in recording.readings)


def a_recording(problem: str = "p1", rollout: int = 0, confidence: float = 0.5) -> RecordedRollout:
    readings = (
        RecordedReading(16, confidence, ("7", None), (False, False), 3),
        RecordedReading(20, confidence, ("8",), (True,), 5),
    )
    return RecordedRollout(problem, rollout, "g1", (1, 2), tuple(range(20)), True, readings)


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[RecordingJournal[RecordedRollout]]:
    with RecordingJournal(RecordedRollout, tmp_path / "new" / "j.jsonl", SETTINGS) as journal:
        yield journal


def test_a_recording_is_read_from_the_log_as_it_was_written(
    journal: RecordingJournal[RecordedRollout],
) -> None:
    recordings = [a_recording(), a_recording("p2"), a_recording("p1", 1)]
    for recording in recordings:
        journal.append(recording)
    journal.close()
    with RecordingJournal(RecordedRollout, journal.path, SETTINGS) as again:
        assert list(again.recordings()) == recordings


def test_readings_without_a_probe_survive_too(journal: RecordingJournal[RecordedRollout]) -> None:
    journal.append(a_recording(confidence=math.nan))
    (recording,) = journal.recordings()
    assert all(math.isnan(reading.confidence) for reading in recording.readings)


def test_rows_of_earlier_versions_are_read() -> None:
    row = """{"problem_id": "p1", "rollout": 0, "group": "g1", "prompt": [1, 2], "tokens": [3],
        "natural": true, "readings": [{"tokens": 1, "confidence": NaN, "answers": ["8", null],
        "correct": [true, false], "answer_tokens": 5}]}"""
    recording = RecordedRollout.from_json(json.loads(row))
    assert (recording.prompt, recording.tokens) == ((1, 2), (3,))
    (reading,) = recording.readings
    assert math.isnan(reading.confidence)
    assert (reading.answers, reading.correct) == (("8", None), (True, False))
    assert recording.to_json().keys() == json.loads(row).keys()


def test_a_log_of_other_settings_is_refused(journal: RecordingJournal[RecordedRollout]) -> None:
    journal.append(a_recording())
    before = journal.path.read_bytes()
    with pytest.raises(RequestRefused, match=r'"answers": 1.*not.*"answers": 4.*delete it'):
        RecordingJournal(RecordedRollout, journal.path, SETTINGS | {"answers": 4})
    assert journal.path.read_bytes() == before


def test_a_log_belongs_to_one_run_at_a_time(journal: RecordingJournal[RecordedRollout]) -> None:
    with pytest.raises(Conflict, match=r"another run is writing .*j.jsonl: wait until it ends"):
        RecordingJournal(RecordedRollout, journal.path, SETTINGS)
    journal.append(a_recording())
    journal.close()
    with RecordingJournal(RecordedRollout, journal.path, SETTINGS) as next_run:
        assert next_run.keys() == {a_recording().key}


@pytest.mark.parametrize("lost", [1, 30, 200])
def test_a_line_that_was_cut_off_is_recorded_again(
    grader: AnswerGrader, journal: RecordingJournal[RecordedRollout], lost: int
) -> None:
    problems = [replace(PROBLEM, id=f"p{number}") for number in range(3)]
    recorder = Recorder(ScriptedEngine(NATURAL), grader)
    whole = asyncio.run(record_all(recorder, problems, 1, journal))
    journal.close()
    content = journal.path.read_bytes()
    journal.path.write_bytes(content[:-lost])
    with RecordingJournal(RecordedRollout, journal.path, SETTINGS) as journal:
        assert len(list(journal.recordings())) == 2
        engine = ScriptedEngine(NATURAL)
        again = asyncio.run(record_all(Recorder(engine, grader), problems, 1, journal))
        assert again == whole
        assert len(engine.policies) == 1
        assert journal.path.read_bytes() == content


def test_an_interrupted_run_goes_on_where_it_stopped(
    grader: AnswerGrader, journal: RecordingJournal[RecordedRollout]
) -> None:
    problems = [replace(PROBLEM, id=f"p{number}") for number in range(200)]
    with pytest.raises(EngineDead, match="restart"):  # itself, not a group of them
        asyncio.run(
            record_all(Recorder(Dying(ROLLOUTS_AT_ONCE + 50), grader), problems, 2, journal)
        )
    finished = len(list(journal.recordings()))
    assert 0 < finished < 400
    engine, seen = ScriptedEngine(NATURAL), list[tuple[int, int]]()
    recordings = asyncio.run(
        record_all(
            Recorder(engine, grader),
            problems,
            2,
            journal,
            lambda done, total: seen.append((done, total)),
        )
    )
    assert len(engine.policies) == 400 - finished
    assert seen == [(done, 400) for done in range(finished, 401)]
    expected = [(problem.id, rollout) for problem in problems for rollout in range(2)]
    assert [(r.problem_id, r.rollout) for r in recordings] == expected
    assert len(list(journal.recordings())) == 400


def test_a_log_serves_runs_with_more_and_with_fewer_rollouts(
    grader: AnswerGrader, journal: RecordingJournal[RecordedRollout]
) -> None:
    engine = ScriptedEngine(NATURAL)
    seen: list[tuple[int, int]] = []
    for rollouts in (1, 3, 2):
        recordings = asyncio.run(
            record_all(
                Recorder(engine, grader),
                [PROBLEM],
                rollouts,
                journal,
                lambda done, total: seen.append((done, total)),
            )
        )
        assert [r.rollout for r in recordings] == list(range(rollouts))
    assert len(engine.policies) == 3
    assert all(done <= total for done, total in seen)


def test_a_problem_that_does_not_fit_is_named(
    grader: AnswerGrader, journal: RecordingJournal[RecordedRollout]
) -> None:
    problems = [PROBLEM, LabelledProblem("long", "up " * 200, "1")]
    with pytest.raises(RequestRefused, match="problem 'long': the prompt has over 100 tokens"):
        asyncio.run(record_all(Recorder(ScriptedEngine(), grader), problems, 1, journal))


def test_problems_are_asked_as_the_profile_says(grader: AnswerGrader) -> None:
    profile = Profile("brief", system="Be brief.", template="Q: {problem}", max_tokens=32)
    engine = ScriptedEngine(NATURAL, profiles=[profile])
    recorder = Recorder(engine.under("brief"), grader)
    asyncio.run(recorder.record(PROBLEM, 0))
    asked = (Message(Role.SYSTEM, "Be brief."), Message(Role.USER, f"Q: {PROBLEM.problem}"))
    assert engine.asked == [("brief", asked)]
    assert engine.drawings[0].budget.thinking == 32


SILENT = replace(NATURAL, own="I do not know.", forced="")


def test_a_recording_without_any_answer_ends_early(
    grader: AnswerGrader, journal: RecordingJournal[RecordedRollout]
) -> None:
    engine = ScriptedEngine(SILENT)
    problems = [LabelledProblem(f"p{n}", f"Problem {n}", "1") for n in range(3 * ROLLOUTS_AT_ONCE)]
    with pytest.raises(RequestRefused, match="none of the first 16 rollouts has an answer"):
        asyncio.run(record_all(Recorder(engine, grader), problems, 1, journal))
    assert len(engine.policies) < 2 * ROLLOUTS_AT_ONCE


def test_one_answer_among_the_first_rollouts_is_enough(
    grader: AnswerGrader, journal: RecordingJournal[RecordedRollout]
) -> None:
    engine = ScriptedEngine(NATURAL, *[SILENT] * 39)  # of one length, so they end in order
    problems = [LabelledProblem(f"p{n}", f"Problem {n}", "1") for n in range(40)]
    recordings = asyncio.run(record_all(Recorder(engine, grader), problems, 1, journal))
    assert len(recordings) == 40


def test_a_recording_with_answers_continues_also_where_the_rest_has_none(
    grader: AnswerGrader, journal: RecordingJournal[RecordedRollout]
) -> None:
    problems = [LabelledProblem(f"p{n}", f"Problem {n}", "1") for n in range(40)]
    asyncio.run(record_all(Recorder(ScriptedEngine(NATURAL), grader), problems[:16], 1, journal))
    rest = Recorder(ScriptedEngine(SILENT), grader)
    assert len(asyncio.run(record_all(rest, problems, 1, journal))) == 40


def test_recordings_become_traces_that_calibration_reads(grader: AnswerGrader) -> None:
    problems = [PROBLEM, LabelledProblem("p2", "Start at 1.", "9", "totals", "total")]
    engine = ScriptedEngine(NATURAL, BUDGET_END, replace(NATURAL, ends_at=48), Script(ends_at=5))
    recorder = Recorder(engine, grader)

    async def run() -> list[RecordedRollout]:
        return [await recorder.record(p, rollout) for p in problems for rollout in range(2)]

    rollouts = to_rollouts(asyncio.run(run()), grader)
    traces = Traces.from_rollouts(rollouts, fingerprint_of(IDENTITY))
    assert traces.problem_ids == ("p1", "p2")
    assert traces.groups == (None, "totals")
    assert traces.kinds == (None, "total")
    assert traces.natural_R.tolist() == [True, False, True, True]
    assert traces.final_R.tolist() == [2, 5, 3, 0]
    unlabelled = to_rollouts(asyncio.run(run()), grader, {"p2"})
    assert [one.final.correct for one in unlabelled] == [True, True, None, None]
    # A natural end right at a checkpoint has both readings.
    assert traces.tokens_RC[2].tolist()[:4] == [16, 32, 48, 48]
    assert rollouts[0].end_reason is ExitReason.NATURAL
    assert rollouts[1].end_reason is ExitReason.BUDGET


def test_classes_are_shared_by_all_rollouts_of_a_problem(grader: AnswerGrader) -> None:
    def recording(problem: str, rollout: int, *answers: str | None) -> RecordedRollout:
        readings = tuple(
            RecordedReading(16 * (at + 1), 0.5, (answer, "ignored"), (answer == "8", False), 3)
            for at, answer in enumerate(answers)
        )
        return RecordedRollout(problem, rollout, None, (1,), (1,), True, readings)

    rollouts = to_rollouts(
        [
            recording("p1", 0, "7", "8", None),
            recording("p2", 0, "5", "5"),
            recording("p1", 1, "8.0", "9", "7"),
        ],
        grader,
    )
    classes = {
        (rollout.problem_id, rollout.rollout): [
            reading.answer_class for reading in (*rollout.checkpoints, rollout.final)
        ]
        for rollout in rollouts
    }
    assert classes == {("p1", 0): [0, 1, NO_ANSWER], ("p1", 1): [1, 2, 0], ("p2", 0): [0, 0]}
    assert [rollout.final.answer for rollout in rollouts] == [None, "7", "5"]


def write_jsonl(path: Path, *rows: object) -> Path:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")
    return path


def test_problems_are_read_with_ids_answers_groups_and_kinds_as_text(tmp_path: Path) -> None:
    path = write_jsonl(
        tmp_path / "d.jsonl",
        {"problem": "2 + 3?", "answer": 5},
        {"id": 17, "problem": "one\u2028line", "answer": "4", "group": 3, "kind": 2},
        {"id": None, "problem": "x?", "answer": "0", "more": "is passed over"},
    )
    path.write_text("\ufeff" + path.read_text() + "\n  \n")
    first, second, third = read_problems(path)
    assert replace(first, id="") == LabelledProblem("", "2 + 3?", "5")
    assert second == LabelledProblem("17", "one\u2028line", "4", "3", "2")
    assert replace(third, id="") == LabelledProblem("", "x?", "0")


def test_without_an_id_a_problem_is_known_by_its_text(tmp_path: Path) -> None:
    """By its line, two files would seem to share their problems."""
    x, y = {"problem": "x?", "answer": "1"}, {"problem": "y?", "answer": "1"}
    order = read_problems(write_jsonl(tmp_path / "order.jsonl", x, y))
    calibration = read_problems(write_jsonl(tmp_path / "calibration.jsonl", y))
    assert len({problem.id for problem in order}) == 2
    assert calibration[0].id == order[1].id
    with pytest.raises(RequestRefused, match=r"line 2: .*comes twice; .* problem without an id"):
        read_problems(write_jsonl(tmp_path / "twice.jsonl", x, x | {"answer": "2"}))


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ('{"problem": "x?"}', "no answer"),
        ('{"problem": "x?", "answer": "1", "Groups": "a"}', "'Groups' is unknown: call it 'group'"),
        ('{"problem": "x?", "answer": "1", "Kind": "a"}', "'Kind' is unknown: call it 'kind'"),
        ('{"answer": "x"}', "no problem"),
        ('{"problem": " ", "answer": null}', "no problem and no answer"),
        ('["x?", "1"]', "not a JSON object"),
        ('{"problem": "x?", "answer": ["1", "2"]}', "answer is a list: give a text or a number"),
        ('{"problem": {"role": "user"}, "answer": "1"}', "problem is an object: give a text"),
        ('{"problem": "x?", "answer": NaN}', "NaN is not JSON: write null"),
        ('{"problem": "x?", ', "Expecting"),
        ('{"problem": "x?", "answer": "\xff"}', "decode"),
        ('{"id": "first", "problem": "x?", "answer": "1"}', "'first' comes twice"),
    ],
)
def test_a_malformed_line_is_named(tmp_path: Path, row: str, why: str) -> None:
    path = tmp_path / "d.jsonl"
    good = '{"id": "first", "problem": "x?", "answer": "1"}\n'
    path.write_bytes((good + row + "\n").encode("latin-1"))
    with pytest.raises(RequestRefused, match=rf"d\.jsonl, line 2: .*{why}") as refused:
        read_problems(path)
    assert refused.value.field == "data"


def test_numbers_are_texts_and_empty_values_are_missing(tmp_path: Path) -> None:
    row = {"id": "", "problem": "x?", "answer": 7, "group": "", "kind": ""}
    (found,) = read_problems(write_jsonl(tmp_path / "d.jsonl", row))
    assert (found.answer, found.group, found.kind) == ("7", None, None)
    assert found.id == digest_text("x?")


def test_equal_texts_in_different_units_are_found() -> None:
    first = LabelledProblem("a", "What is 1?", "1")
    again = LabelledProblem("b", " What  is 1?", "1")
    assert repeated([first, again, LabelledProblem("c", "What is 2?", "2")]) == ["b"]
    grouped = replace(again, group="g")
    assert repeated([first, grouped]) == ["b"]
    assert repeated([grouped, first]) == ["a"]
    assert repeated([replace(first, group="h"), grouped]) == ["b"]
    assert not repeated([replace(first, group="g"), grouped])


def test_a_file_without_problems_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RequestRefused, match="holds no problem"):
        read_problems(write_jsonl(tmp_path / "d.jsonl"))


def test_the_digest_of_problems_sees_every_field_and_their_order() -> None:
    others = [
        [PROBLEM, PROBLEM],
        [replace(PROBLEM, id="p2")],
        [replace(PROBLEM, problem="?")],
        [replace(PROBLEM, answer="9")],
        [replace(PROBLEM, group="g")],
        [replace(PROBLEM, kind="k")],
    ]
    digests = {digest_problems(problems) for problems in ([PROBLEM], *others)}
    assert len(digests) == 7
