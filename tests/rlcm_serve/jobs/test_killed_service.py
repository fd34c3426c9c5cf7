"""A service killed again and again ends with what an undisturbed one ends with."""

import random
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from calibration import Certificate, read_traces, verify
from rlcm_serve.calibration_job import CalibrationRequest, JobState
from rlcm_serve.store.calibrations import CalibrationStore
from rlcm_serve.store.certificates import CertificateStore
from rlcm_serve.store.database import Database
from tests.rlcm_serve.jobs.problem_engine import problems

ROOT = Path(__file__).parents[3]
PROBLEMS, ROLLOUTS, CONCURRENCY = 120, 2, 4
TOTAL = PROBLEMS * ROLLOUTS
REQUEST = CalibrationRequest(alphas=(0.2,), rollouts=ROLLOUTS, activate=True)
ID = "cal_killed"
PATIENCE = 120.0


def start(database: Database, diary: Path) -> subprocess.Popen[bytes]:
    url = database.url.render_as_string(hide_password=False)
    script = "tests.rlcm_serve.jobs.service_process"
    return subprocess.Popen([sys.executable, "-m", script, url, str(diary)], cwd=ROOT)


def kill_when(
    database: Database, diary: Path, done: int, states: tuple[JobState, ...] = ()
) -> None:
    """Runs the service, and kills it as soon as so much is recorded, or it is in such a state."""
    jobs, process = CalibrationStore(database), start(database, diary)
    deadline = time.monotonic() + PATIENCE
    try:
        while (job := jobs.get(ID)).done < done and job.state not in states:
            assert process.poll() is None, "it ended by itself"
            assert time.monotonic() < deadline
            time.sleep(0.005)
    finally:
        process.kill()
        process.wait()


def result(database: Database) -> Certificate:
    job = CalibrationStore(database).get(ID)
    assert job.state is JobState.DONE, job.log
    assert job.certificate is not None
    return CertificateStore(database).get(job.certificate)


@pytest.mark.slow
def test_nothing_is_lost_nothing_counts_twice_and_the_certificate_is_the_same(
    database: Database, tmp_path: Path
) -> None:
    rng = random.Random(17)
    diary = tmp_path / "diary"
    jobs = CalibrationStore(database)
    jobs.create(ID, REQUEST, problems(PROBLEMS))
    kills = sorted(rng.sample(range(1, TOTAL), 4))
    for done in kills:
        kill_when(database, diary, done)
        assert jobs.get(ID).state is JobState.RECORDING
    kill_when(database, diary, TOTAL + 1, states=(JobState.FITTING,))
    assert start(database, diary).wait(PATIENCE) == 0

    keys = [(one.problem_id, one.rollout) for one in jobs.recordings(jobs.get(ID))]
    assert keys == [(f"p{p}", rollout) for p in range(PROBLEMS) for rollout in range(ROLLOUTS)]
    begun = diary.read_text().split()
    assert TOTAL < len(begun) <= TOTAL + len(kills) * CONCURRENCY, "only what was in flight is lost"

    undisturbed = Database(f"sqlite:///{tmp_path}/undisturbed.db")
    CalibrationStore(undisturbed).create(ID, REQUEST, problems(PROBLEMS))
    assert start(undisturbed, tmp_path / "quiet").wait(PATIENCE) == 0
    # The day may have changed in between.
    assert replace(result(database), created=None) == replace(result(undisturbed), created=None)
    (tmp_path / "traces.parquet").write_bytes(jobs.traces(ID))
    assert verify(result(database), read_traces(tmp_path / "traces.parquet")) == []
    undisturbed.close()
