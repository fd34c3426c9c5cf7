"""Every test is in one lane; a sample is the same for the same seed."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.lanes import LANES, lane_of, names_paths, sample


def test_every_test_belongs_to_exactly_one_lane(
    request: pytest.FixtureRequest, lanes: dict[str, str]
) -> None:
    assert {*lanes.values()} <= {*LANES}
    for item in request.session.items:
        marks = {mark.name for mark in item.iter_markers()}
        assert marks & {*LANES} - {"slow"} == {lanes[item.nodeid]} - {"slow"}, item.nodeid
        assert ("slow" in marks) == (lanes[item.nodeid] != "fast"), item.nodeid


@pytest.mark.parametrize(
    ("marks", "lane"),
    [
        ([], "fast"),
        (["anyio", "parametrize"], "fast"),
        (["slow"], "slow"),
        (["engine", "anyio"], "engine"),
        (["slow", "statistical"], "statistical"),
    ],
)
def test_the_lane_follows_from_the_marks(marks: list[str], lane: str) -> None:
    assert lane_of(marks) == lane


@pytest.mark.parametrize("marks", [["docs", "page"], ["fast", "slow"], ["engine", "fast"]])
def test_two_lanes_are_refused(marks: list[str]) -> None:
    with pytest.raises(ValueError, match=f"marked {', '.join(marks)}: a test belongs to one lane"):
        lane_of(marks)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["tests"], False),
        (["."], False),
        ([], True),
        (["tests/service"], True),
        (["tests/test_lanes.py::test_two_lanes_are_refused"], True),
        (["tests/service", "tests"], False),
    ],
)
def test_named_paths_run_in_full(arguments: list[str], named: bool) -> None:
    root = Path(__file__).parent
    assert names_paths(arguments, root.parent, root) == named


def test_a_sample_holds_a_share_of_every_lane_and_repeats() -> None:
    collected = [("slow", SimpleNamespace(nodeid=f"a.py::test_{n}")) for n in range(40)]
    collected += [("page", SimpleNamespace(nodeid=f"b.py::test_{n}")) for n in range(3)]
    tests = [test for _, test in collected]
    chosen, left_out = sample(collected, 0.2, "7")
    assert sorted([*chosen, *left_out], key=tests.index) == tests
    assert [test.nodeid[0] for test in chosen] == ["a"] * 8 + ["b"]
    assert sample(collected, 0.2, "7") == (chosen, left_out)
    assert sample(collected, 0.2, "8")[0] != chosen
    assert sample(collected, 1, "7") == (tests, [])
    fewer = [pair for pair in collected if pair[1] is not left_out[0]]
    assert sample(fewer, 0.2, "7")[0] == chosen, "another test decides nothing of the others"
