"""Problems that trained a probe are refused for calibrating it, and near-copies are reported."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from calibration.traces.probe_readings import POLICY_FILE, READINGS_FILE, write_seen_problems
from rlcm_serve.errors import RequestRefused
from rlcm_serve.recording.problems import BOXED, LabelledProblem
from rlcm_serve.recording.trained import (
    require_untrained,
    require_untrained_ids,
    seen_problems,
)


def problem(text: str, id_: str | None = None) -> LabelledProblem:
    return LabelledProblem.from_json({"problem": text, "answer": "7", "id": id_})


TRAINED = [problem("A dial shows 3. A up 4."), problem("What is 3 + 4?", "sum")]


def trained_on(folder: Path, problems: Sequence[LabelledProblem] = TRAINED) -> Path:
    """A probe's folder after training."""
    write_seen_problems(folder / READINGS_FILE, seen_problems(problems))
    return folder


@pytest.mark.parametrize(
    "text", ["What is 3 + 4?", "  What is\n3 +  4? ", f"What is 3 + 4?{BOXED}"]
)
def test_a_problem_that_trained_the_probe_is_refused_whatever_its_id_and_spaces(
    tmp_path: Path, text: str
) -> None:
    probe = trained_on(tmp_path)
    given = [problem("What is the capital of Peru?"), problem(text, "mine"), problem(text, "m2")]
    with pytest.raises(RequestRefused, match=r"2 of 3 problems trained the probe.*'mine'"):
        require_untrained(given, None, probe)


def test_a_problem_is_known_without_the_request_that_a_benchmark_added(tmp_path: Path) -> None:
    asked = [problem(one.problem + BOXED) for one in TRAINED]
    probe = trained_on(tmp_path, asked)
    with pytest.raises(RequestRefused, match="2 of 2 problems trained the probe"):
        require_untrained(TRAINED, None, probe)
    assert require_untrained([problem("What is 30 + 4?")], None, probe) is not None


@pytest.mark.parametrize("text", ["what is 3 + 4?", "What is 30 + 5?", "What is 3+4 ?"])
def test_near_copies_are_reported_and_not_refused(tmp_path: Path, text: str) -> None:
    probe = trained_on(tmp_path)
    warning = require_untrained([problem("What is a dial?"), problem(text, "near")], None, probe)
    assert warning is not None
    assert warning.startswith("1 of 2 problems differ from one that trained the probe in case")
    assert "'near'" in warning


def test_other_problems_are_taken_in_silence_and_so_are_probes_without_readings(
    tmp_path: Path,
) -> None:
    assert require_untrained(TRAINED, None, tmp_path) is None
    others = [problem("What is 3 - 4?"), problem("What is 3 + 4? Why?")]
    assert require_untrained(others, None, trained_on(tmp_path)) is None


def test_problems_that_trained_the_model_are_refused_with_any_confidence(tmp_path: Path) -> None:
    write_seen_problems(tmp_path / POLICY_FILE, seen_problems(TRAINED))
    with pytest.raises(RequestRefused, match=r"1 of 1 problems trained the model .* on others"):
        require_untrained(TRAINED[:1], tmp_path, None)
    warning = require_untrained([problem("What is 30 + 5?")], tmp_path, tmp_path)
    assert warning is not None
    assert warning.startswith("1 of 1 problems differ from one that trained the model in case")


def test_in_traces_the_ids_of_problems_without_one_are_known_again(tmp_path: Path) -> None:
    probe = trained_on(tmp_path)
    # `sum` is a name that two files may give to different problems.
    require_untrained_ids(["sum", "0123456789abcdef"], probe)
    with pytest.raises(RequestRefused, match="1 of 2 problems trained the probe"):
        require_untrained_ids(["sum", TRAINED[0].id], probe)
