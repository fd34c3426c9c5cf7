import pytest

from rlcm_serve.errors import RequestRefused
from rlcm_serve.evaluation.datasets.benchmarks import PAPER, benchmark_named, benchmarks
from rlcm_serve.evaluation.grading import GRADERS, grader_named


def test_the_suite_of_the_paper_is_declared() -> None:
    assert {benchmark.name: benchmark.rollouts for benchmark in PAPER} == {
        "math500": 4,
        "aime24": 32,
        "aime25": 32,
        "amc": 4,
        "amc23": 4,
        "olympiadbench": 4,
        "gpqa-diamond": 4,
        "logiqa": 4,
        "livecodebench": 4,
        "gsm8k": 4,
        "grpo-lead": 4,
    }
    assert {benchmark.grader for benchmark in PAPER} <= {*GRADERS}


def test_a_benchmark_is_found_by_its_name() -> None:
    assert benchmark_named("aime24").title == "AIME 2024"
    assert {benchmark.name for benchmark in PAPER} <= {*benchmarks()}


def test_the_embedded_families_are_found_where_they_are_installed() -> None:
    assert {"embedded", "embedded-dial", "embedded-total", "embedded-tale"} <= {*benchmarks()}


def test_an_unknown_name_lists_those_there_are() -> None:
    with pytest.raises(
        RequestRefused, match=r"'aime' is not a benchmark.*aime24.*NAME=FILE"
    ) as found:
        benchmark_named("aime")
    assert found.value.field == "data"


@pytest.mark.parametrize("name", GRADERS)
def test_every_grader_is_found_by_its_name_and_names_its_version(name: str) -> None:
    with grader_named(name) as grader:
        assert any(character.isdigit() for character in grader.name)


def test_an_unknown_grader_lists_those_there_are() -> None:
    with pytest.raises(RequestRefused, match="math, choice, code, exact"):
        grader_named("maths")
