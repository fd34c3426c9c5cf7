from pathlib import Path

import msgspec
import pytest

from rlcm_serve.errors import RequestRefused
from rlcm_serve.evaluation.rollouts import EvaluationRollout
from rlcm_serve.evaluation.run_folder import BenchmarkFolder, RunFolder
from rlcm_serve.recording.journal import RecordingJournal
from rlcm_serve.recording.problems import LabelledProblem
from tests.rlcm_serve.evaluation.records import CUT_OFF, NATURAL


def journal_of(folder: BenchmarkFolder) -> RecordingJournal[EvaluationRollout]:
    return RecordingJournal(
        EvaluationRollout, folder.journal, {"grader": "exact 1"}, folder.finished()
    )


def test_rollouts_come_back_from_the_tables_as_they_were(tmp_path: Path) -> None:
    folder = BenchmarkFolder(tmp_path)
    read = msgspec.structs.replace(CUT_OFF, familiarity=0.25)
    folder.write([read, NATURAL])
    assert list(folder.read()) == [NATURAL, read]
    assert folder.finished() == [NATURAL.key, CUT_OFF.key]
    assert folder.texts() == {NATURAL.key: NATURAL.text, CUT_OFF.key: CUT_OFF.text}


def test_a_rollout_in_both_tables_and_log_counts_once(
    tmp_path: Path,
) -> None:
    folder = BenchmarkFolder(tmp_path)
    folder.write([NATURAL, CUT_OFF])
    folder.write([*folder.read(), CUT_OFF])
    assert list(folder.read()) == [NATURAL, CUT_OFF]


def test_a_log_counts_stored_rollouts_and_what_a_kill_left(tmp_path: Path) -> None:
    folder = BenchmarkFolder(tmp_path)
    folder.write([NATURAL])
    journal = journal_of(folder)
    journal.append(CUT_OFF)
    journal.close()
    with folder.journal.open("a") as file:
        file.write('{"problem_id": "p1", "rollout": 2, "te')
    with journal_of(folder) as again:
        assert again.keys() == {NATURAL.key, CUT_OFF.key}
        assert list(again.recordings()) == [CUT_OFF]


def test_a_run_of_other_settings_is_refused_and_the_difference_named(tmp_path: Path) -> None:
    RunFolder(tmp_path / "run").begin({"model": "a", "answers": 4})
    RunFolder(tmp_path / "run").begin({"model": "a", "answers": 4})
    with pytest.raises(RequestRefused, match=r"answers was 4, is 2.*another folder"):
        RunFolder(tmp_path / "run").begin({"model": "a", "answers": 2})


def test_a_problem_that_has_changed_is_refused(tmp_path: Path) -> None:
    folder = BenchmarkFolder(tmp_path / "part")
    folder.begin([LabelledProblem("p1", "2 + 2?", "4"), LabelledProblem("p2", "1 + 1?", "2")])
    folder.begin([LabelledProblem("p2", "1 + 1?", "2"), LabelledProblem("p3", "3 + 3?", "6")])
    assert [problem.id for problem in folder.problems()] == ["p1", "p2", "p3"]
    with pytest.raises(RequestRefused, match=r"'p1' with another text"):
        folder.begin([LabelledProblem("p1", "2 + 2?", "5")])


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RequestRefused, match="holds no run"):
        RunFolder(tmp_path).manifest()
    (tmp_path / "file").write_text("")
    with pytest.raises(RequestRefused, match="give a folder"):
        RunFolder(tmp_path / "file").begin({})
