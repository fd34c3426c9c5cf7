from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from calibration.metrics.scores import ScoredRollouts
from rlcm_serve.errors import RequestRefused
from studies.paper.result import Result, Rollouts, read_results


def scored() -> ScoredRollouts:
    """Three problems, their rollouts out of order."""
    return ScoredRollouts(
        problem_R=np.array([1, 0, 1, 0, 2]),
        correct_R=np.array([True, False, False, True, True]),
        confidence_R=np.array([0.123456789, 0.5, 1.0, 0.25, 0.0]),
        answer_class_R=np.array([0, 3, -1, 1, 0]),
    )


def rollouts() -> Rollouts:
    parts = {"a": "dial, level 1", "b": "tale, level 2", "c": "dial, level 3"}
    return Rollouts.of(scored(), ["a", "b", "c"], parts)


def test_rollouts_are_kept_by_problem() -> None:
    kept = rollouts()
    assert kept.right == ((0, 1), (1, 0), (1,))
    assert kept.confidence == ((0.5, 0.25), (0.12346, 1.0), (0.0,))
    assert kept.answer_class == ((3, 1), (0, -1), (0,))
    assert kept.parts == ("dial, level 1", "tale, level 2", "dial, level 3")


def test_and_come_back_as_metrics_take_them() -> None:
    back = rollouts().scored()
    assert back.problem_R.tolist() == [0, 0, 1, 1, 2]
    assert back.correct_R.tolist() == [False, True, True, False, True]
    assert back.answer_class_R.tolist() == [3, 1, 0, -1, 0]


def test_of_a_part_only_its_problems_come_back() -> None:
    back = rollouts().scored("dial,")
    assert back.problem_R.tolist() == [0, 0, 1]
    assert back.confidence_R.tolist() == [0.5, 0.25, 0.0]


def test_a_problem_without_a_part_has_an_empty_one() -> None:
    assert Rollouts.of(scored(), ["a", "b", "c"], {"b": "tale, level 2"}).parts[0] == ""


def test_results_come_back_as_they_were_written(
    every_result: Sequence[Result], tmp_path: Path
) -> None:
    for result in every_result[:3]:
        assert result.write(tmp_path / "made" / "here").name == f"{result.name}.json"
    back = read_results(tmp_path / "made" / "here")
    assert back == {result.name: result for result in every_result[:3]}


def test_a_result_that_cannot_be_written_leaves_the_former_one(
    every_result: Sequence[Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = every_result[0]
    path = result.write(tmp_path)
    before = path.read_bytes()

    def full(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="no space left"):
        result.write(tmp_path)
    assert path.read_bytes() == before
    assert read_results(tmp_path) == {result.name: result}  # the unfinished file is none


@pytest.mark.parametrize("text", ["", "{", '{"name": "base-0"}', "[]"])
def test_a_file_that_is_no_result_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "base-0.json").write_text(text)
    with pytest.raises(
        RequestRefused, match=r"base-0\.json is no valid result .* writes a new one"
    ):
        read_results(tmp_path)


def test_a_folder_without_results_says_how_to_make_some(tmp_path: Path) -> None:
    with pytest.raises(
        RequestRefused, match=r"holds no result: run `python -m studies.paper run` or"
    ):
        read_results(tmp_path / "nowhere")
