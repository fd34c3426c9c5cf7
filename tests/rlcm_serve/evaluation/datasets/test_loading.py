import csv
import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rlcm_serve.answers.grading.base import KeyedGrader
from rlcm_serve.errors import RequestRefused
from rlcm_serve.evaluation.datasets.loading import load
from rlcm_serve.evaluation.datasets.questions import BOXED
from tests.rlcm_serve.evaluation.grading.packing import row as code_row

DATA = Path(__file__).parents[3] / "data"
COUNTS = {
    "math500": 500,
    "aime24": 30,
    "aime25": 30,
    "amc23": 40,
    "olympiadbench": 675,
    "gsm8k": 1319,
}
ROWS = [{"id": f"p{n}", "problem": f"{n} + 1?", "answer": str(n + 1)} for n in range(5)]


class Lengths(KeyedGrader):
    """A grader of an installed package: answers of the same length are the same."""

    name = f"{__name__}:Lengths 1"

    def check_reference(self, reference: str) -> None:
        pass

    def is_right(self, answer: str, reference: str) -> bool:
        return self.key(answer) == self.key(reference)

    def key(self, answer: str) -> str:
        return str(len(answer))


def write_jsonl(path: Path, rows: Sequence[Mapping[str, Any]]) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


@pytest.fixture
def datasets_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The data sets library writes here, and reaches no hub."""
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))


@pytest.mark.parametrize("name", COUNTS)
def test_every_row_of_the_real_files_is_asked_and_its_reference_taken(name: str) -> None:
    with gzip.open(DATA / f"{name}.jsonl.gz", "rt") as file:
        rows = [json.loads(line) for line in file]
    loaded = load(f"{name}={DATA / name}.jsonl.gz")
    assert len(loaded.problems) == COUNTS[name]
    for problem, row in zip(loaded.problems, rows, strict=True):
        assert problem.id == row["id"]
        text = row["problem"].strip() if name == "olympiadbench" else row["problem"]
        assert problem.problem == text + BOXED
        assert problem.answer == row["answer"]
    assert loaded.rollouts == (32 if "aime" in name else 4)
    assert loaded.grader.name.startswith("rlcm-math")


def test_a_file_of_ones_own_is_put_as_it_stands(tmp_path: Path) -> None:
    loaded = load(write_jsonl(tmp_path / "own.jsonl", ROWS))
    assert [(p.id, p.problem, p.answer) for p in loaded.problems] == [
        (row["id"], row["problem"], row["answer"]) for row in ROWS
    ]
    assert (loaded.name, loaded.rollouts, loaded.parts) == ("own", 4, {})


def test_every_format_holds_the_same_problems(tmp_path: Path) -> None:
    digests = {load(write_jsonl(tmp_path / "own.jsonl", ROWS)).digest}
    (tmp_path / "own.json").write_text(json.dumps(ROWS))
    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "own.parquet")
    with (tmp_path / "own.csv").open("w") as file:
        writer = csv.DictWriter(file, ROWS[0].keys())
        writer.writeheader()
        writer.writerows(ROWS)
    with gzip.open(tmp_path / "own.jsonl.gz", "wt") as packed:
        packed.write((tmp_path / "own.jsonl").read_text())
    digests |= {load(str(path)).digest for path in tmp_path.iterdir()}
    assert len(digests) == 1


def test_columns_are_mapped_and_parts_named(tmp_path: Path) -> None:
    rows = [{"q": "Which?", "a": 7, "nr": 3, "kind": "hard", "book": "x"}]
    mapping = {"problem": "q", "answer": "a", "id": "nr", "part": "kind", "group": "book"}
    loaded = load(write_jsonl(tmp_path / "own.jsonl", rows), mapping)
    (problem,) = loaded.problems
    assert (problem.id, problem.problem, problem.answer, problem.group) == ("3", "Which?", "7", "x")
    assert loaded.parts == {"3": "hard"}


def test_a_field_that_does_not_exist_is_not_mapped(tmp_path: Path) -> None:
    with pytest.raises(RequestRefused, match="'anwser' is not a field: map one of problem, answer"):
        load(write_jsonl(tmp_path / "own.jsonl", ROWS), {"anwser": "answer"})


def test_rows_without_an_id_are_numbered_and_the_first_are_taken(tmp_path: Path) -> None:
    rows = [{"problem": row["problem"], "answer": row["answer"]} for row in ROWS]
    path = write_jsonl(tmp_path / "own.jsonl", rows)
    assert [p.id for p in load(path, limit=2).problems] == ["own-0000", "own-0001"]
    assert load(path, limit=2).digest != load(path).digest
    assert load(path).digest == load(path).digest


def test_a_request_follows_every_problem_which_stays_the_same_one(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "own.jsonl", ROWS)
    plain, asked = load(path), load(path, request=" Say how confident you are.")
    for before, after in zip(plain.problems, asked.problems, strict=True):
        assert after.problem == f"{before.problem} Say how confident you are."
        assert (after.id, after.answer) == (before.id, before.answer)
    assert asked.digest == plain.digest, "runs with and without it can be compared"


def test_multiple_choice_of_ones_own(tmp_path: Path) -> None:
    rows = [{"problem": "Which?", "choices": ["a", "b"], "answer": "b"}]
    path = write_jsonl(tmp_path / "own.jsonl", rows)
    loaded = load(path, {"options": "choices"}, grader="choice")
    (problem,) = loaded.problems
    assert loaded.grader.grade([("(B)", problem.answer), ("a", problem.answer)]) == [True, False]
    with pytest.raises(RequestRefused, match=r"no column 'options'.*'choices'"):
        load(path, grader="choice")


def test_logiqa_as_its_repository_has_it(tmp_path: Path, datasets_cache: None) -> None:
    rows = [
        {"context": "All x.", "query": "Which?", "options": list("abcd"), "correct_option": n}
        for n in range(4)
    ]
    (tmp_path / "logiqa" / "data").mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "logiqa" / "data" / "test-0.parquet")
    loaded = load(f"logiqa={tmp_path / 'logiqa'}")
    assert [json.loads(p.answer)["letter"] for p in loaded.problems] == list("ABCD")
    assert loaded.problems[0].problem.startswith("All x.\n\nWhich?\n\nA) a\nB) b")


def test_gpqa_as_its_repository_has_it(tmp_path: Path, datasets_cache: None) -> None:
    """A configuration of its own, in a CSV file with line breaks in its cells."""
    folder = tmp_path / "gpqa"
    folder.mkdir()
    (folder / "README.md").write_text(
        "---\nconfigs:\n- config_name: gpqa_diamond\n  data_files: gpqa_diamond.csv\n---\n"
    )
    row = {
        "Record ID": "rec1",
        "Question": "Which,\nthen?",
        "Correct Answer": "10^-4 eV\n",
        "Incorrect Answer 1": "1",
        "Incorrect Answer 2": "2",
        "Incorrect Answer 3": "3",
        "High-level domain": "Physics",
    }
    with (folder / "gpqa_diamond.csv").open("w") as file:
        writer = csv.DictWriter(file, row.keys())
        writer.writeheader()
        writer.writerow(row)
    for source in (folder, folder / "gpqa_diamond.csv"):
        loaded = load(f"gpqa-diamond={source}")
        (problem,) = loaded.problems
        assert (problem.id, loaded.parts) == ("rec1", {"rec1": "Physics"})
        assert loaded.grader.grade([("10^-4 eV", problem.answer), ("1", problem.answer)]) == [
            True,
            False,
        ]


def test_math500_as_its_repository_has_it(tmp_path: Path, datasets_cache: None) -> None:
    row = {
        "problem": "Which?",
        "solution": r"It is \boxed{7}.",
        "answer": "7",
        "subject": "Algebra",
        "level": 2,
        "unique_id": "test/algebra/1.json",
    }
    write_jsonl(tmp_path / "math" / "test.jsonl", [row])
    loaded = load(f"math500={tmp_path / 'math'}")
    assert loaded.problems[0].id == "test/algebra/1.json"
    assert loaded.parts == {"test/algebra/1.json": "level 2"}


def test_gsm8k_and_amc_by_their_own_columns(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "x.jsonl", [{"question": "How many?", "answer": "2+2\n#### 4"}])
    assert load(f"gsm8k={path}").problems[0].answer == "4"
    path = write_jsonl(tmp_path / "y.jsonl", [{"id": 0, "question": "How many?", "answer": 27.0}])
    assert load(f"amc23={path}").problems[0].answer == "27.0"


def test_livecodebench_as_its_repository_has_it(tmp_path: Path) -> None:
    rows = [
        code_row([("1\n", "2\n")], [("3\n", "4\n")]),
        code_row([("1", "2")], function="add") | {"question_id": "3", "difficulty": "hard"},
    ]
    path = write_jsonl(tmp_path / "lcb" / "test6.jsonl", rows)
    for source in (path, tmp_path / "lcb"):
        loaded = load(f"livecodebench={source}")
        assert loaded.parts == {"abc_1": "easy", "3": "hard"}
        with loaded.grader as grader:
            pair = ("print(int(input()) + 1)", loaded.problems[0].answer)
            assert grader.grade([pair, ("print(2)", pair[1])]) == [True, False]


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("math500", "check the network and try again, or give a local copy as NAME=FILE"),
        ("gpqa-diamond", "accept its terms on the page of Idavidrein/gpqa"),
        ("livecodebench", "test6.jsonl of livecodebench/code_generation_lite"),
    ],
)
def test_a_hub_that_cannot_be_reached_is_told(name: str, remedy: str, datasets_cache: None) -> None:
    with pytest.raises(RequestRefused, match=remedy):
        load(name)


def test_an_address_that_cannot_be_reached_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    with pytest.raises(RequestRefused, match=r"cannot be downloaded.*grpo-lead=FILE"):
        load("grpo-lead")


@pytest.mark.parametrize(
    ("rows", "mapping", "told"),
    [
        ([{"problem": "p"}], {}, "row 1: there is no column 'answer', only 'problem'; map"),
        (ROWS, {"answer": "solution"}, "no column 'solution', only 'id', 'problem', 'answer'"),
        ([ROWS[0], {"problem": " ", "answer": "1"}], {}, "row 2: 'problem' is empty"),
        ([ROWS[0], ROWS[0]], {}, "'p0' comes twice"),
        ([{"problem": "p", "answer": r"\frac{1"}], {}, r"row 1 \(own-0000\).*does not parse"),
        ([[1]], {}, "every row must be an object"),
    ],
)
def test_a_row_that_cannot_be_used_is_named(
    tmp_path: Path, rows: Any, mapping: dict[str, str], told: str
) -> None:
    path = write_jsonl(tmp_path / "own.jsonl", rows)
    with pytest.raises(RequestRefused, match=told) as found:
        load(path, mapping)
    assert found.value.field == "data"


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("a.jsonl", b"", "is empty"),
        ("a.jsonl", b'{"problem": 1}\n{', "line 2"),
        ("a.json", b"{}", "holds no list"),
        ("a.parquet", b"no", "cannot be read as .parquet"),
        ("a.jsonl.gz", b"no", "cannot be read as .jsonl"),
        ("a.txt", b"no", "its name must end in .jsonl"),
        ("a.csv", b"problem,answer\n", "is empty"),
        ("a.csv", b"\xff\xfe", "cannot be read as .csv"),
    ],
)
def test_a_file_that_cannot_be_read_is_told(
    tmp_path: Path, name: str, content: bytes, told: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(RequestRefused, match=told):
        load(str(tmp_path / name))


def test_a_missing_dataset_is_named(tmp_path: Path) -> None:
    with pytest.raises(RequestRefused, match="there is no file"):
        load(str(tmp_path / "nothing.jsonl"))
    with pytest.raises(RequestRefused, match="there is no file"):
        load(f"aime24={tmp_path / 'nothing.jsonl'}")
    with pytest.raises(RequestRefused, match="'aime' is not a benchmark"):
        load(f"aime={tmp_path}")


def test_a_benchmark_keeps_its_grader(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "own.jsonl", ROWS)
    assert load(f"aime24={path}", grader="math").name == "aime24"
    with pytest.raises(RequestRefused, match="graded with 'math'") as found:
        load(f"aime24={path}", grader="exact")
    assert found.value.field == "grader"
    assert load(path, grader="exact").grader.name == "exact 1"
    with pytest.raises(RequestRefused, match="is not a grader"):
        load(path, grader="maths")


def test_a_file_is_graded_by_a_grader_of_an_installed_package(tmp_path: Path) -> None:
    loaded = load(write_jsonl(tmp_path / "own.jsonl", ROWS), grader=f"{__name__}:Lengths")
    assert loaded.problems[0].problem == "0 + 1?"
    assert loaded.grader.grade([("7", "1"), ("77", "1")]) == [True, False]
