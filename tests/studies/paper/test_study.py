import io
import threading
from pathlib import Path

import pytest
from rich.console import Console

from studies.paper.result_files import Made, write_result
from studies.paper.runs import PaperRun, run_named
from studies.paper.stages import Running, Study
from studies.paper.study import carry_out
from training.errors import TrainingRefused

RUNS = [run_named(name) for name in ("base-0", "grpo-0", "rlcm-0.1-0")]


class Stages:
    """In the place of `Running.finish`: notes what runs, and fails what it is told to."""

    def __init__(self) -> None:
        self.finished: list[str] = []
        self.failing: dict[str, Exception] = {}
        self.most_at_once = 0
        self._running = 0
        self._lock = threading.Lock()

    def finish(self, running: Running) -> Path:
        with self._lock:
            self._running += 1
            self.most_at_once = max(self.most_at_once, self._running)
        try:
            if running.run.name in self.failing:
                raise self.failing[running.run.name]
            self.finished.append(running.run.name)
            return write_result(Made(running.run.name), running.study.results)
        finally:
            with self._lock:
                self._running -= 1


@pytest.fixture
def stages(monkeypatch: pytest.MonkeyPatch) -> Stages:
    made = Stages()
    monkeypatch.setattr(Running, "finish", lambda self: made.finish(self))
    return made


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return Study(tmp_path / "c.toml", "embedded", tmp_path / "out", tmp_path / "results", 1)


def told(study: Study, runs: list[PaperRun], jobs: int = 1) -> str:
    """Carries out, and returns what is printed."""
    said = io.StringIO()
    carry_out(study, runs, jobs, Console(file=said, width=200))
    return said.getvalue()


def test_only_what_is_missing_is_done(study: Study, stages: Stages) -> None:
    write_result(Made("grpo-0"), study.results)
    said = told(study, RUNS)
    assert stages.finished == ["base-0", "rlcm-0.1-0"]
    assert "1 of 3 runs are done" in said
    assert "rlcm-0.1-0 ended after" in said


def test_nothing_is_left_to_do(study: Study, stages: Stages) -> None:
    told(study, RUNS)
    assert "3 of 3 runs are done" in told(study, RUNS)
    assert len(stages.finished) == 3


@pytest.mark.parametrize(
    "error", [TrainingRefused("see the log"), OSError("see the log"), KeyError("see the log")]
)
def test_what_fails_is_told_at_the_end_and_hinders_no_other(
    study: Study, stages: Stages, error: Exception
) -> None:
    stages.failing["grpo-0"] = error
    with pytest.raises(TrainingRefused, match=r"^grpo-0: .*see the log"):
        told(study, RUNS)
    assert stages.finished == ["base-0", "rlcm-0.1-0"]


def test_one_job_is_one_run_at_a_time(study: Study, stages: Stages) -> None:
    told(study, RUNS, jobs=1)
    assert stages.most_at_once == 1
    assert stages.finished == [run.name for run in RUNS]
