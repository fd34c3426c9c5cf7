"""Which process runs a job: one at a time, and another once it stopped renewing."""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from sqlalchemy import update

from rlcm_serve.solving.fingerprints import fingerprint_of
from rlcm_serve.store.calibration_tables import LeaseRow
from rlcm_serve.store.calibrations import CalibrationStore
from rlcm_serve.store.database import Database
from rlcm_serve.store.job import Calibration, CalibrationRequest, JobState
from rlcm_serve.store.running.leases import Leases
from tests.rlcm_serve.jobs.problem_engine import problems
from tests.rlcm_serve.scripted_engine import IDENTITY

REQUEST = CalibrationRequest(alphas=(0.2,))


def posted(database: Database, count: int) -> list[Calibration]:
    jobs = CalibrationStore(database)
    return [jobs.create(f"cal_{number}", REQUEST, problems(2)) for number in range(count)]


def expire(database: Database) -> None:
    with database.session() as session:
        session.execute(update(LeaseRow).values(until=0.0))


def test_a_job_belongs_to_one_process_until_it_is_released(database: Database) -> None:
    (job,) = posted(database, 1)
    ours, theirs = Leases(database), Leases(database)
    assert (ours.claim(job), theirs.claim(job)) == (True, False)
    assert (ours.free(), theirs.free()) == (["cal_0"], [])
    assert (ours.claim(job), ours.renew(job), theirs.renew(job)) == (True, True, False)
    theirs.release(job)
    assert theirs.free() == [], "only its holder releases it"
    ours.release(job)
    assert (theirs.free(), theirs.claim(job)) == (["cal_0"], True)


def test_a_lease_that_is_not_renewed_ends(database: Database) -> None:
    (job,) = posted(database, 1)
    ours, theirs = Leases(database), Leases(database)
    assert ours.claim(job)
    expire(database)
    assert ours.renew(job), "nobody took it in the meantime"
    expire(database)
    assert theirs.free() == ["cal_0"]
    assert theirs.claim(job)
    assert (ours.renew(job), ours.claim(job), ours.free()) == (False, False, [])


def test_a_lease_ends_although_the_clock_is_set_back(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process died with its lease; the clock takes an hour to reach its end again."""
    (job,) = posted(database, 1)
    ours, theirs = Leases(database), Leases(database)
    assert ours.claim(job)
    monkeypatch.setattr(database, "now", lambda session: time.time() - 3600)
    assert not theirs.has_busy_engine(job)
    assert theirs.free() == ["cal_0"]
    assert theirs.claim(job)
    assert not ours.claim(job)


def test_an_engine_is_busy_under_another_profile_too(database: Database) -> None:
    jobs, ours = CalibrationStore(database), Leases(database)
    here = fingerprint_of(IDENTITY)
    made = {
        name: jobs.create(f"cal_{name}", REQUEST, problems(2), made_for=made_for)
        for name, made_for in {
            "running": here,
            "short": replace(here, system_prompt="0" * 64, max_tokens=20),
            "elsewhere": replace(here, model="0" * 64),
        }.items()
    }
    assert not ours.has_busy_engine(made["short"])
    assert ours.claim(made["running"])
    assert ours.has_busy_engine(made["short"])
    assert not ours.has_busy_engine(made["elsewhere"])


def test_a_job_that_has_ended_belongs_to_nobody(database: Database) -> None:
    (job,) = posted(database, 1)
    ours = Leases(database)
    assert ours.claim(job)
    CalibrationStore(database).cancel(job.id)
    assert (ours.renew(job), ours.claim(job), ours.free()) == (False, False, [])
    assert CalibrationStore(database).get(job.id).state is JobState.CANCELLED


def test_of_processes_that_claim_at_the_same_moment_one_gets_the_job(database: Database) -> None:
    jobs = posted(database, 12)
    processes = [Leases(database) for _ in range(6)]
    with ThreadPoolExecutor(len(processes)) as threads:
        for job in jobs:
            won = list(threads.map(lambda one, job=job: one.claim(job), processes))
            assert sum(won) == 1
