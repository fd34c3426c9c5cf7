"""The problems of the primary comparison."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from rlcm_serve.evaluation.datasets.loading import load
from studies.paper.primary.problems import (
    FILES,
    HELD_OUT,
    PROBE,
    TEST_CLEAN,
    TEST_CONFLICTS,
    TEST_HELD_OUT,
    TRAINING,
    WATCHED,
    has_conflict,
    is_out_of_domain,
    problems_by_file,
    write_problems,
)


def test_no_problem_is_in_two_files_and_no_training_is_out_of_domain() -> None:
    files = problems_by_file()
    ids = [problem.id for problems in files.values() for problem in problems]
    assert len(set(ids)) == len(ids)
    for name in ("train", "watched", "probe"):
        assert not any(is_out_of_domain(problem.id) for problem in files[name])
    splits = {name: {problem.split.value for problem in own} for name, own in files.items()}
    assert splits == {
        "train": {"train"},
        "watched": {"order"},
        "probe": {"validation"},
        "test": {"test"},
    }


def test_half_of_the_training_has_a_conflict_and_the_test_has_over_200_of_its_kinds() -> None:
    files = problems_by_file()
    assert [len(files[name]) for name in FILES[:3]] == [TRAINING, WATCHED, PROBE]
    assert 2 * sum(has_conflict(problem.id) for problem in files["train"]) == TRAINING
    kinds = Counter(
        (is_out_of_domain(problem.id), has_conflict(problem.id)) for problem in files["test"]
    )
    assert kinds[False, False] == 3 * TEST_CLEAN
    assert kinds[False, True] == 3 * TEST_CONFLICTS
    assert kinds[True, False] == TEST_HELD_OUT
    assert kinds[True, True] == TEST_CONFLICTS
    assert len(HELD_OUT) == 2


def test_the_files_are_benchmarks_with_parts_and_always_the_same(tmp_path: Path) -> None:
    write_problems(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    write_problems(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    loaded = load(str(tmp_path / "test.jsonl"))
    assert set(loaded.parts.values()) >= {"dial, level 4", "tale_conflict, level 1"}
    assert len(loaded.problems) == 3 * TEST_CLEAN + TEST_HELD_OUT + 4 * TEST_CONFLICTS
