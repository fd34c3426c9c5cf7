"""Problems to train on, from wherever they come."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rlcm_serve.evaluation.grading import grader_named
from rlcm_serve.recording.problems import BOXED
from training.errors import TrainingRefused
from training.rl.problems import TrainingProblems, load_held_out, load_problems
from training.rl.settings import DataSettings, EvaluationSettings, RunSettings
from training.tasks.problems import Split, split_of

ROWS = [{"question": f"What is {n} + 1?", "final": str(n + 1)} for n in range(5)]
MAPPED = {"problem": "question", "answer": "final"}


def found(**settings: object) -> TrainingProblems:
    return load_problems(DataSettings(**settings), grader_named("math"), seed=0)  # type: ignore[arg-type]  # tests only


def held_out(data: DataSettings, source: str, **settings: Any) -> TrainingProblems:
    evaluation = EvaluationSettings(source, **settings)
    problems = load_held_out(RunSettings(data=data, evaluation=evaluation), grader_named("math"))
    assert problems is not None
    return problems


def answers(problems: TrainingProblems) -> list[str]:
    return [problem.answer for problem in problems.problems]


@pytest.fixture
def jsonl(tmp_path: Path) -> Path:
    path = tmp_path / "train.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return path


def test_jsonl_and_parquet_are_read_alike(jsonl: Path, tmp_path: Path) -> None:
    parquet = tmp_path / "train.parquet"
    pq.write_table(pa.Table.from_pylist(ROWS), parquet)
    one, other = (found(source=str(path), columns=MAPPED) for path in (jsonl, parquet))
    assert answers(one) == answers(other) == ["1", "2", "3", "4", "5"]
    assert one.digest == other.digest


def test_the_fingerprint_is_of_the_content(jsonl: Path) -> None:
    before = found(source=str(jsonl), columns=MAPPED).digest
    assert found(source=str(jsonl), columns=MAPPED, limit=4).digest != before


def test_a_hub_data_set_is_read_with_its_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def load_dataset(name: str, config: str | None, split: str, revision: str | None) -> object:
        asked.append((name, config, split))
        return ROWS

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    problems = found(source="someone/sums", columns=MAPPED, split="extra", config="small")
    assert asked == [("someone/sums", "small", "extra")]
    assert answers(problems) == ["1", "2", "3", "4", "5"]


@pytest.mark.parametrize("source", ["logiqa", "gpqa-diamond", "livecodebench", "logiqa=a.jsonl"])
def test_a_benchmark_that_is_not_graded_as_training_grades_is_refused(source: str) -> None:
    with pytest.raises(TrainingRefused, match=r"is graded with '\w+' .* grades with rlcm-math"):
        found(source=source)


def test_held_out_problems_have_the_columns_of_the_others_or_their_own(
    jsonl: Path, tmp_path: Path
) -> None:
    plain = tmp_path / "plain.jsonl"
    plain.write_text('{"problem": "1 + 1?", "answer": "2"}\n')
    data = DataSettings(str(jsonl), columns=MAPPED)
    assert answers(held_out(data, str(jsonl), limit=2)) == ["1", "2"]
    assert answers(held_out(data, str(plain), columns={})) == ["2"]
    assert answers(held_out(data, f"math500={plain}")) == ["2"], "a benchmark has its own"


def test_held_out_problems_may_be_another_split(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def load_dataset(name: str, config: str | None, split: str, revision: str | None) -> object:
        asked.append((name, config, split))
        return ROWS

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    data = DataSettings("someone/sums", columns=MAPPED, config="small")
    held_out(data, "someone/sums")
    held_out(data, "someone/sums", split="test", config="large")
    assert asked == [("someone/sums", "small", "train"), ("someone/sums", "large", "test")]


def test_a_data_set_without_answers_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    path.write_text('{"problem": "What is 1 + 1?"}\n')
    with pytest.raises(TrainingRefused, match=r"no column 'answer', only 'problem'"):
        found(source=str(path))
    path.write_text('{"problem": "What is 1 + 1?", "answer": ""}\n')
    with pytest.raises(TrainingRefused, match="'answer' is empty"):
        found(source=str(path))
    path.write_text('{"problem": "What is 1 + 1?", "answer": "\\\\frac{1"}\n')
    with pytest.raises(TrainingRefused, match="braces are not balanced"):
        found(source=str(path))


def test_a_problem_without_a_label_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    path.write_text('{"problem": "What is 1 + 1?", "answer": "?"}\n')
    with pytest.raises(TrainingRefused, match=r"row 1 .*the answer is '\?', so nobody has given"):
        found(source=str(path))


def test_a_missing_answer_of_a_data_frame_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "train.parquet"
    rows = {"problem": ["1 + 1?", "2 + 1?"], "answer": [2.0, float("nan")]}
    pq.write_table(pa.table(rows), path)
    with pytest.raises(TrainingRefused, match="row 2: 'answer' is empty"):
        found(source=str(path))


def test_a_dot_in_the_name_of_a_hub_data_set_makes_it_no_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(datasets, "load_dataset", lambda *_, **__: ROWS)
    problems = found(source="someone/sums-1.1-SFT", columns=MAPPED)
    assert answers(problems) == ["1", "2", "3", "4", "5"]


def test_a_hub_data_set_without_answers_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets, "load_dataset", lambda *_, **__: ROWS)
    with pytest.raises(TrainingRefused, match=r"no column 'answer', only .*map the field"):
        found(source="someone/sums", columns={"problem": "question"})


@pytest.mark.parametrize("source", ["nothing", "no/such/thing", "none.jsonl"])
def test_what_is_nowhere_is_refused(source: str) -> None:
    with pytest.raises(TrainingRefused, match="data"):
        found(source=source)


def test_made_problems_are_of_the_training_split_and_every_level() -> None:
    problems = found(source="embedded", limit=300)
    assert len({problem.id for problem in problems.problems}) == 300
    of_training = {split_of(problem.problem) for problem in problems.problems}
    assert of_training == {Split.TRAIN}
    assert answers(found(source="embedded", limit=300)) == answers(problems)


def test_made_problems_to_evaluate_on_are_none_to_train_on() -> None:
    data = DataSettings("embedded", limit=300)
    watched = held_out(data, "embedded", limit=300).problems
    assert {split_of(problem.problem) for problem in watched} == {Split.VALIDATION}


def test_one_family_can_be_asked_for() -> None:
    problems = found(source="embedded-dial", limit=20)
    assert all(problem.problem.startswith("A dial shows") for problem in problems.problems)


def test_rows_carry_prompt_answer_and_the_request_for_a_confidence(jsonl: Path) -> None:
    settings = DataSettings(
        source=str(jsonl), columns=MAPPED, prompt="Solve: {problem}", confidence_request=" Sure?"
    )
    problems = load_problems(settings, grader_named("math"), seed=0)
    plain, asked = (problems.rows(settings, asks)[0] for asks in (False, True))
    assert plain["prompt"] == [{"role": "user", "content": "Solve: What is 0 + 1?"}]
    assert asked["prompt"][0]["content"] == "Solve: What is 0 + 1? Sure?"
    assert plain["answer"] == "1"


GSM8K = [{"question": f"What is {n} + 1?", "answer": f"Add.\n#### {n + 1}"} for n in range(3)]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str | None, str]]:
    """What is asked of the hub, which has GSM8K's rows everywhere: name, config, split."""
    loads: list[tuple[str, str | None, str]] = []

    def load_dataset(name: str, config: str | None, split: str, revision: str | None) -> object:
        loads.append((name, config, split))
        return GSM8K

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    return loads


def test_a_benchmark_of_the_hub_trains_on_its_training_split(asked: list[Any]) -> None:
    assert answers(found(source="gsm8k")) == ["1", "2", "3"]
    found(source="gsm8k", split="train[:10%]", config="socratic")
    held_out(DataSettings("gsm8k"), "gsm8k")
    held_out(DataSettings("gsm8k"), "gsm8k", split="test[:9]")
    hub = "openai/gsm8k"
    assert asked == [
        (hub, "main", "train"),
        (hub, "socratic", "train[:10%]"),
        (hub, "main", "test"),
        (hub, "main", "test[:9]"),
    ]


def test_a_split_of_what_has_none_is_refused(jsonl: Path) -> None:
    for source in (str(jsonl), f"gsm8k={jsonl}", "embedded"):
        with pytest.raises(TrainingRefused, match="is no data set of the hub, so it has neither"):
            found(source=source, split="test", columns=MAPPED)


def test_a_file_beside_a_data_set_of_the_hub_takes_no_split_of_it(
    asked: list[Any], jsonl: Path
) -> None:
    data = DataSettings("someone/sums", split="extra", columns=MAPPED)
    assert answers(held_out(data, str(jsonl))) == ["1", "2", "3", "4", "5"]
    assert asked == []


def test_held_out_problems_of_a_file_are_asked_as_the_benchmark_asks(tmp_path: Path) -> None:
    plain = tmp_path / "plain.jsonl"
    plain.write_text('{"problem": "1 + 1?", "answer": "2"}\n')
    for source in ("grpo-lead", f"math500={plain}"):
        (problem,) = held_out(DataSettings(source), str(plain)).problems
        assert problem.problem == "1 + 1?" + BOXED
    (problem,) = held_out(DataSettings("embedded"), str(plain)).problems
    assert problem.problem == "1 + 1?"


def test_references_that_are_whole_solutions_are_refused(asked: list[Any]) -> None:
    """Every rollout would be wrong, as no answer equals a solution."""
    with pytest.raises(TrainingRefused, match=r"with the line '#### 1', so .* benchmark gsm8k"):
        found(source="openai/gsm8k", config="main", columns={"problem": "question"})
