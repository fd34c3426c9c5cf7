"""A service killed again and again ends with what an undisturbed one ends with."""

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from calibration import Certificate, read_traces, verify
from rlcm_serve.store.calibrations import CalibrationStore
from rlcm_serve.store.certificates import CertificateStore
from rlcm_serve.store.database import Database
from rlcm_serve.store.job import CalibrationRequest, JobState
from tests.rlcm_serve.jobs.problem_engine import problems

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
PROBLEMS, ROLLOUTS, CONCURRENCY = 120, 2, 4
TOTAL = PROBLEMS * ROLLOUTS
REQUEST = CalibrationRequest(alphas=(0.2,), rollouts=ROLLOUTS, activate=True)
ID = "cal_killed"
SLACK = 15
PATIENCE = 300.0


def start(database: Database, diary: Path, limit: float = float("inf")) -> subprocess.Popen[bytes]:
    """The service; it finishes `limit` rollouts, if so many are left, and then stands still."""
    url = database.url.render_as_string(hide_password=False)
    script = "tests.rlcm_serve.jobs.service_process"
    command = [sys.executable, "-m", script, url, str(diary), str(limit)]
    scratch = diary.parent / "scratch"
    scratch.mkdir(exist_ok=True)
    return subprocess.Popen(command, cwd=ROOT, env=os.environ | {"TMPDIR": str(scratch)})


def kill_while_recording(database: Database, diary: Path, done: int) -> None:
    """Runs the service, and kills it as soon as so much is recorded, and a little more at most."""
    jobs = CalibrationStore(database)
    limit = max(0, min(done + SLACK, TOTAL - 1) - jobs.get(ID).done)
    kill_when(start(database, diary, limit), lambda: jobs.get(ID).done >= done)
    assert jobs.get(ID).state in (JobState.QUEUED, JobState.RECORDING)


def kill_while_fitting(database: Database, diary: Path) -> None:
    """Runs the service, and kills it as soon as everything is recorded."""
    jobs = CalibrationStore(database)
    kill_when(
        start(database, diary),
        lambda: jobs.get(ID).state not in (JobState.QUEUED, JobState.RECORDING),
    )


def kill_when(process: subprocess.Popen[bytes], it_is_time: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    try:
        while not it_is_time():
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


def test_nothing_is_lost_nothing_counts_twice_and_the_certificate_is_the_same(
    database: Database, tmp_path: Path
) -> None:
    rng = random.Random(17)
    diary = tmp_path / "diary"
    jobs = CalibrationStore(database)
    jobs.create(ID, REQUEST, problems(PROBLEMS))
    kills = sorted(rng.sample(range(1, TOTAL), 4))
    for done in kills:
        kill_while_recording(database, diary, done)
    kill_while_fitting(database, diary)
    assert start(database, diary).wait(PATIENCE) == 0

    keys = [(one.problem_id, one.rollout) for one in jobs.recordings(jobs.get(ID))]
    assert keys == [(f"p{p}", rollout) for p in range(PROBLEMS) for rollout in range(ROLLOUTS)]
    begun = diary.read_text().split()
    assert TOTAL <= len(begun) <= TOTAL + len(kills) * CONCURRENCY, "what was in flight"

    undisturbed = Database(f"sqlite:///{tmp_path}/undisturbed.db")
    CalibrationStore(undisturbed).create(ID, REQUEST, problems(PROBLEMS))
    assert start(undisturbed, tmp_path / "quiet").wait(PATIENCE) == 0
    # The day may have changed in between.
    assert replace(result(database), created=None) == replace(result(undisturbed), created=None)
    (tmp_path / "traces.parquet").write_bytes(jobs.traces(ID))
    left = list((tmp_path / "scratch").glob("rlcm-*"))  # a killed tempfile leaves its own trial
    assert left == [], "no fit leaves its folder behind"
    assert verify(result(database), read_traces(tmp_path / "traces.parquet")) == []
    undisturbed.close()
