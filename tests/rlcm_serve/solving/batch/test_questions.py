"""Questions in JSON Lines and in Parquet."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rlcm_serve.errors import RequestRefused
from rlcm_serve.solving.batch import questions
from rlcm_serve.solving.batch.files import write_rows
from rlcm_serve.solving.batch.questions import FileQuestion, QuestionFile


def test_a_file_is_read_line_by_line(tmp_path: Path) -> None:
    file = tmp_path / "questions.jsonl"
    rows = [{"problem": "What is 1?", "id": 5}, {"problem": "What is\u20282?", "answer": 2}]
    file.write_text("\n\n".join(json.dumps(row, ensure_ascii=False) for row in rows) + "\n")
    asked = QuestionFile(file)
    first, second = (row.question for row in asked)
    assert asked.count == 2
    assert first == FileQuestion("5", "What is 1?")
    assert second is not None
    assert (second.problem, second.answer, len(second.id)) == ("What is\u20282?", "2", 16)


@pytest.mark.parametrize("answer", [None, "", " ", "?", float("nan")])
def test_what_is_no_label_is_no_reference(answer: object) -> None:
    assert FileQuestion.from_json({"problem": "What?", "answer": answer}).answer is None
    assert FileQuestion.from_json({"problem": "What?", "answer": 0}).answer == "0"


def test_a_row_that_is_no_question_is_kept_with_its_reason(tmp_path: Path) -> None:
    file = tmp_path / "questions.jsonl"
    for text, said in {
        "[]": "not a JSON object",
        '{"problem": " "}': "'problem' is ' '",
        '{"problem": 7}': "'problem' is 7",
        "{": "row 1 is not JSON",
        "[" * 100_000: "row 1 is not JSON",
        "\udcff": "row 1 is not JSON",
        r'{"problem": "What is \ud800?"}': "half a surrogate pair",
        r'{"problem": "What?", "answer": "\ud800"}': "half a surrogate pair",
        '{"problem": "What?", "answer": ["8"]}': "answer is a list: give a text or a number",
        '{"problem": "What?", "kind": {}}': "kind is an object: give a text or a number",
        '{"problem": "What?", "kinds": "geo"}': "'kinds' is unknown: call it 'kind'",
    }.items():
        good = '{"problem": "What?"}'
        file.write_bytes(f"{good}\n{text}\n{good}".encode(errors="surrogateescape"))
        first, bad, last = QuestionFile(file)
        assert (bad.number, bad.question) == (1, None)
        assert bad.error is not None
        assert said in bad.error
        assert first.question == last.question != None  # noqa: E711


def test_a_line_without_end_is_not_held_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(questions, "LONGEST_LINE", 100)
    good, file = '{"problem": "What?"}\n', tmp_path / "questions.jsonl"
    for length in (100, 101, 102, 201, 202, 203, 1000):
        file.write_text(good + "x" * length + "\n" + good)
        first, long, last = QuestionFile(file)
        assert first.question is not None
        assert last.question == first.question
        assert long.error is not None
        assert ("over 100 bytes" in long.error) == (length >= 100)  # with the end of the line


def test_parquet_gives_the_same_questions(tmp_path: Path) -> None:
    rows = [
        {"problem": f"What is {number}?", "id": number, "answer": None, "other": [number]}
        for number in range(3000)
    ]
    lines, table = tmp_path / "q.jsonl", tmp_path / "q.parquet"
    lines.write_text("".join(json.dumps(row) + "\n" for row in rows))
    pq.write_table(pa.Table.from_pylist(rows), table, row_group_size=1000)
    assert [*QuestionFile(table)] == [*QuestionFile(lines)]
    assert QuestionFile(table).count == 3000
    assert QuestionFile(table).digest != QuestionFile(lines).digest


def test_what_is_missing_in_a_data_frame_is_missing(tmp_path: Path) -> None:
    table = tmp_path / "q.parquet"
    nan = [float("nan")]
    pq.write_table(pa.table({"problem": ["What?"], "id": nan, "kind": nan, "answer": nan}), table)
    (row,) = QuestionFile(table)
    assert row.question == FileQuestion.from_json({"problem": "What?", "id": ""})
    assert row.question.kind is row.question.answer is None


def test_a_row_with_an_alpha_of_its_own_is_not_answered_at_another(tmp_path: Path) -> None:
    table = tmp_path / "q.parquet"
    alphas = [0.01, None, float("nan")]
    pq.write_table(pa.table({"problem": ["What?"] * 3, "alpha": alphas}), table)
    refused, *taken = QuestionFile(table)
    assert refused.error is not None
    assert "'alpha' is 0.01, but one accepted risk is for the whole file" in refused.error
    assert all(row.question is not None for row in taken)


def test_a_file_without_questions_is_refused(tmp_path: Path) -> None:
    empty, broken = tmp_path / "q.jsonl", tmp_path / "q.parquet"
    empty.write_text("\n \n")
    with pytest.raises(RequestRefused, match="holds no question"):
        QuestionFile(empty)
    broken.write_text("nothing")
    with pytest.raises(RequestRefused, match="is not Parquet"):
        QuestionFile(broken)
    pq.write_table(pa.table({"question": ["What?"]}), broken)
    with pytest.raises(RequestRefused, match="no column 'problem'"):
        QuestionFile(broken)
    pq.write_table(pa.table({"problem": ["What?"], "kinds": ["geo"]}), broken)
    with pytest.raises(RequestRefused, match="'kinds' is unknown: call it 'kind'"):
        QuestionFile(broken)


def test_answers_are_written_as_json_lines_and_as_parquet(tmp_path: Path) -> None:
    rows = [
        {"row": 0, "id": "a", "answer": "7", "samples": [{"exit": "high"}], "correct": True},
        {"row": 1, "id": None, "error": "row 1 is not JSON"},
    ]
    write_rows(tmp_path / "a.jsonl", iter(rows))
    write_rows(tmp_path / "a.parquet", iter(rows))
    assert [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()] == rows
    first, second = pq.read_table(tmp_path / "a.parquet").to_pylist()
    assert (first["row"], first["answer"], first["correct"], first["error"]) == (0, "7", True, None)
    assert [json.loads(row["response"]) for row in (first, second)] == rows
    assert {path.name for path in tmp_path.iterdir()} == {"a.jsonl", "a.parquet"}
