"""`rlcm eval` as a user runs it, on the real engine: killed, gone on with, compared."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from calibration import read_traces
from rlcm_serve.evaluation.rollouts import EvaluationRollout
from rlcm_serve.evaluation.run import Run
from rlcm_serve.evaluation.run_folder import RunFolder
from rlcm_serve.evaluation.sources import Source
from tests.rlcm_serve.command_line import Rlcm
from tests.served import RLCM

pytestmark = pytest.mark.engine

PROBLEMS, ROLLOUTS = 6, 4
COMMAND = (
    *("eval", "--data", "embedded", "--limit", str(PROBLEMS), "--rollouts", str(ROLLOUTS)),
    *("--out", "run", "--", "--max-num-seqs", "8"),  # few at a time, so that some end before others
)


def start(folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [RLCM, *COMMAND],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


@pytest.fixture(scope="module")
def killed_and_finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A folder with a run, and the lines that its journal held when it was killed half-way."""
    folder = tmp_path_factory.mktemp("eval")
    journal = folder / "run" / "embedded" / "journal.jsonl"
    first = start(folder)
    deadline = time.monotonic() + 300
    while not journal.exists() or journal.read_text().count("\n") < 8:
        assert first.poll() is None, first.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate()
    kept = journal.read_text().splitlines(keepends=True)[1:]
    second = start(folder)
    printed, _ = second.communicate(timeout=400)
    assert second.returncode == 0, printed
    assert "report.html" in printed
    return folder, [line for line in kept if line.endswith("\n")]


def test_a_second_start_repeats_no_finished_rollout(
    killed_and_finished: tuple[Path, list[str]],
) -> None:
    folder, kept = killed_and_finished
    made = {record.key: record for record in RunFolder(folder / "run").benchmark("embedded").read()}
    assert len(made) == PROBLEMS * ROLLOUTS
    assert 5 <= len(kept) < len(made)
    for line in kept:
        record = EvaluationRollout.from_json(json.loads(line))
        assert made[record.key] == record


def test_every_source_says_something_and_every_certificate_is_replayed(
    killed_and_finished: tuple[Path, list[str]],
) -> None:
    folder, _ = killed_and_finished
    run = Run.load(str(folder / "run"))
    (measured,) = run.measures.benchmarks
    assert [source.source for source in measured.sources] == list(Source)
    certified = [point for point in measured.controlled if point.origin.certificate]
    assert {(point.risk, point.origin.samples) for point in certified} == {
        (risk, samples) for risk in ("selective", "error", "regret") for samples in (1, 4)
    }
    assert measured.budgets[0].exited.keys() == {"0.01", "0.02", "0.05", "0.1", "0.2"}
    traces = read_traces(folder / "run" / "embedded" / "traces.parquet")
    right_R = traces.correct_RC[np.arange(traces.n_rollouts), traces.final_R]
    assert right_R.mean() > 0.2
    assert measured.accuracy.value == pytest.approx(right_R.mean())


def test_its_traces_are_what_rlcm_fit_takes(
    killed_and_finished: tuple[Path, list[str]], rlcm: Rlcm
) -> None:
    traces = killed_and_finished[0] / "run" / "embedded" / "traces.parquet"
    assert read_traces(traces).servable
    status, out, _ = rlcm(f"fit {traces} --risk regret --alpha 0.5 --out regret.json")
    assert status in (0, 3)
    assert "not servable" not in out


def test_runs_can_be_compared_by_other_sources(
    killed_and_finished: tuple[Path, list[str]], rlcm: Rlcm, tmp_path: Path
) -> None:
    run = killed_and_finished[0] / "run"
    status, out, _ = rlcm(f"compare probe={run} said={run}:verbalised --out compared")
    assert status == 0
    assert "said" in out
    assert list((tmp_path / "compared").glob("*.html"))


def test_what_cannot_be_evaluated_is_refused_before_an_engine_starts(rlcm: Rlcm) -> None:
    Path("embedded.jsonl").write_text('{"problem": "1 + 1?", "answer": "2"}\n')
    for command, said in (
        ("eval", "give --data embedded"),
        ("eval --data nonsense", "'nonsense' is not a benchmark"),
        ("eval --data embedded --confidence hunch", "confidence is 'hunch'"),
        ("eval --data embedded --map problem", "give FIELD=COLUMN"),
        ("eval --data embedded --map problem=question", "only benchmarks are named"),
        ("eval --data embedded embedded.jsonl", "which is taken"),
        ("compare run", "give two or more"),
        ("compare one two", "holds no run"),
    ):
        status, _, err = rlcm(command)
        assert status == 1, command
        assert said in err, command
