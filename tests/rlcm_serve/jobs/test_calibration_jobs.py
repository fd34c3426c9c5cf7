import asyncio
import re
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, text, update

from calibration import CertifiedLevel, ExitPolicy, InfeasibleLevel, read_traces, verify
from calibration.traces.probe_readings import READINGS_FILE, write_seen_problems
from rlcm_serve.core import Question, VoteRule
from rlcm_serve.engine import requests
from rlcm_serve.engine.restart import RestartPolicy
from rlcm_serve.errors import (
    Conflict,
    DatabaseBusy,
    EngineBusy,
    KeyReused,
    NoReport,
    NotFound,
    RequestRefused,
)
from rlcm_serve.jobs import CalibrationJobs, calibration_jobs, runner
from rlcm_serve.jobs.fit_process import FitLimits
from rlcm_serve.jobs.fitting import Fitted, fit
from rlcm_serve.recording.problems import LabelledProblem
from rlcm_serve.recording.rollouts import RecordedRollout
from rlcm_serve.recording.trained import seen_problems
from rlcm_serve.solving.fingerprints import fingerprint_of
from rlcm_serve.solving.service import Service
from rlcm_serve.store.calibration_tables import CalibrationRow, LeaseRow
from rlcm_serve.store.calibrations import CalibrationStore
from rlcm_serve.store.certificates import CertificateStore
from rlcm_serve.store.database import Database
from rlcm_serve.store.job import Calibration, CalibrationRequest, JobState, Post
from rlcm_serve.store.running.leases import Leases
from rlcm_serve.store.running.recording_rows import RecordingRows
from tests.rlcm_serve.jobs.problem_engine import WRONG, ProblemEngine, problems
from tests.rlcm_serve.scripted_engine import IDENTITY, certificate
from tests.rlcm_serve.store.test_restoring import withdraw

pytestmark = pytest.mark.slow

REQUEST = CalibrationRequest(alphas=(0.2,))
PROBLEMS = problems(40)
STORED = tuple(
    f"rlcm_calibration_{name}"
    for name in ("problems", "kinds", "kind_certificates", "recordings", "traces", "leases")
)


class Running:
    """A service with its jobs, on an engine that is ready."""

    def __init__(
        self,
        database: Database,
        engine: ProblemEngine,
        limits: FitLimits,
        abandoned: float = 600.0,
    ) -> None:
        self.engine = engine
        self.store = CertificateStore(database)
        at_once = RestartPolicy(every=0.01, first_wait=0.01, longest_wait=0.01)
        self.service = Service(engine, load=self.store.load, restart_policy=at_once)
        self.jobs = CalibrationJobs(
            database,
            self.service,
            self.store,
            concurrency=4,
            limits=limits,
            lease=1.0,
            abandoned=abandoned,
        )

    async def ended(self, job: Calibration) -> Calibration:
        """The job once it has ended."""
        async with asyncio.timeout(60):
            return [seen async for seen in self.jobs.watch(job.id)][-1]

    async def run(
        self,
        request: CalibrationRequest = REQUEST,
        asked: Sequence[LabelledProblem] | None = PROBLEMS,
    ) -> Calibration:
        problems = None if asked is None else list(asked)
        return await self.ended(await self.jobs.submit(request, problems))


@asynccontextmanager
async def running(
    database: Database,
    engine: ProblemEngine | None = None,
    limits: FitLimits = FitLimits(),  # noqa: B008, frozen
    abandoned: float = 600.0,
) -> AsyncIterator[Running]:
    running = Running(database, engine or ProblemEngine(), limits, abandoned)
    await running.service.start()
    try:
        async with running.jobs.running():
            yield running
    finally:
        running.service.stop()


def told(job: Calibration) -> str:
    return "\n".join(line.text for line in job.log)


async def test_a_job_ends_with_a_certificate_of_its_recordings(
    database: Database, tmp_path: Path
) -> None:
    async with running(database) as here:
        job = await here.run()
        assert (job.state, job.done, job.total, job.error) == (JobState.DONE, 40, 40, None)
        assert job.started is not None
        assert job.finished is not None
        assert job.created <= job.started <= job.finished
        kept = here.store.kept(str(job.certificate), [IDENTITY])
        assert (kept.origin, kept.active) == (f"job {job.id}", False)
        (level,) = kept.certificate.levels
        assert isinstance(level, CertifiedLevel)
        report = here.store.report(kept.certificate.id)
        assert report.certificate == kept.certificate.digest
        assert report.calibration.n_problems == 40
        (tmp_path / "t.parquet").write_bytes(here.jobs.store.traces(job.id))
        assert verify(kept.certificate, read_traces(tmp_path / "t.parquet")) == []
        assert sorted(here.engine.begun) == list(range(40))
        assert {generation.priority for generation in here.engine.drawings} == {1}
        assert here.service.guarantees.certificates == (), "nobody asked to activate it"
    expected = ["started", *[f"{n} of 40 rollouts recorded" for n in range(4, 41, 4)]]
    assert [line.text for line in job.log] == [*expected, "fitting", "alpha 0.2: certified"]


async def test_live_votes_do_not_wait_for_the_comparisons_of_a_job(database: Database) -> None:
    async def comparing(*answers: object) -> bool:
        raise AssertionError("the grader of live votes was asked")

    async with running(database) as here:
        here.service.grader.equal_async = comparing  # type: ignore[method-assign]
        job = await here.run()
    assert (job.state, job.error) == (JobState.DONE, None)


async def test_a_certificate_without_report_data_is_valid(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rlcm_serve.jobs.fitting._report_data", lambda _: None)
    async with running(database) as here:
        job = await here.run()
        assert job.state is JobState.DONE
        assert "the certificate has no report data" in told(job)
        with pytest.raises(NoReport):
            here.store.report(str(job.certificate))


async def test_the_latest_jobs_have_their_last_lines(database: Database) -> None:
    async with running(database) as here:
        first, second = [await here.run(asked=PROBLEMS[:20]) for _ in range(2)]
        (latest,) = here.jobs.store.latest(1, 2)
        assert latest.id == second.id
        assert [line.text for line in latest.log] == ["fitting", "alpha 0.2: certified"]
        both = here.jobs.store.latest(5, 200)
        assert [(job.id, job.log) for job in both] == [
            (second.id, second.log),
            (first.id, first.log),
        ]


async def test_an_activated_result_answers_from_then_on(database: Database) -> None:
    async with running(database) as here:
        question = Question("Problem 0", alpha=0.2)
        before = await here.service.solver.solve(question)
        assert "no certificate is loaded" in (before.no_guarantee_reason or "")
        job = await here.run(replace(REQUEST, activate=True))
        after = await here.service.solver.solve(question)
        assert after.guarantee is not None
        assert after.guarantee.certificate == job.certificate
        assert f"certificate {job.certificate} is active" in told(job)
    async with running(database) as again:
        (served,) = again.service.guarantees.certificates
        assert served.id == job.certificate, "after a restart too"


async def test_procedures_of_several_samples_are_certified_too(database: Database) -> None:
    request = replace(REQUEST, samples=2, rollouts=4, vote=VoteRule.MAJORITY)
    async with running(database) as here:
        job = await here.run(request)
        made = here.store.get(str(job.certificate))
    assert job.total == 160
    assert made.fingerprint == fingerprint_of(IDENTITY, samples=2, vote="majority")
    assert (made.n_problems, made.n_rollouts) == (40, 160)


async def test_jobs_run_one_after_another(database: Database) -> None:
    async with running(database) as here:
        first, second = [await here.jobs.submit(REQUEST, PROBLEMS[:20]) for _ in range(2)]
        assert (await here.ended(second)).state is JobState.DONE
        assert (await here.jobs.get(first.id)).state is JobState.DONE
        assert sorted(here.engine.begun[:20]) == sorted(here.engine.begun[20:]) == list(range(20))
        assert [job.id for job in here.jobs.store.all()] == [second.id, first.id]
        assert here.jobs.store.count()[JobState.DONE] == 2


async def test_where_nothing_can_be_certified_the_job_is_done_and_says_why(
    database: Database,
) -> None:
    async with running(database, ProblemEngine(replace(WRONG, confidences=(0.97,)))) as here:
        job = await here.run(replace(REQUEST, activate=True))
        assert (job.state, job.error) == (JobState.DONE, None)
        (level,) = here.store.get(str(job.certificate)).levels
        assert isinstance(level, InfeasibleLevel)
        assert f"alpha 0.2: not certified. {level.reason}" in told(job)
        assert "not activated: no level is certified" in told(job)
        assert here.service.guarantees.certificates == ()


async def test_a_repeated_post_gets_its_job_whatever_has_changed_since(database: Database) -> None:
    """The certificate is replaced, the extended job is deleted, or the engine starts again."""
    here = Running(database, ProblemEngine(), FitLimits())
    post = Post("place", "digest", 60)
    job = here.jobs.store.create("cal_1", REQUEST, PROBLEMS, post=post)
    for asked in (CalibrationRequest(extends="cal_0"), CalibrationRequest(replaces="571b667eda0c")):
        assert await here.jobs.submit(asked, PROBLEMS, post=post) == job
    with pytest.raises(KeyReused):
        await here.jobs.submit(REQUEST, [], post=replace(post, digest="other"))
    assert here.jobs.store.all() == [replace(job, log=())]


async def test_problems_without_a_label_are_refused(database: Database) -> None:
    async with running(database) as here:
        asked = [*problems(39), replace(problems(40)[39], answer="?")]
        with pytest.raises(RequestRefused, match=f"no label, '{asked[39].id}' among them"):
            await here.jobs.submit(REQUEST, asked)


async def test_what_cannot_be_recorded_is_refused_when_it_is_posted(database: Database) -> None:
    too_long = LabelledProblem("long", "Long 7", "7")
    async with running(database) as here:
        with pytest.raises(RequestRefused, match="problem 'long': the prompt has over 100 tokens"):
            await here.jobs.submit(REQUEST, [*PROBLEMS, too_long])
        with pytest.raises(RequestRefused, match="5 problems or groups"):
            await here.jobs.submit(REQUEST, PROBLEMS[:5])
        assert here.jobs.store.all() == []
        assert here.engine.begun == []


async def test_before_the_engine_is_ready_a_job_waits_and_is_checked_then(
    database: Database,
) -> None:
    here = Running(database, ProblemEngine(), FitLimits())
    async with here.jobs.running():
        bad = await here.jobs.submit(REQUEST, [*PROBLEMS, LabelledProblem("long", "Long 7", "7")])
        good = await here.jobs.submit(REQUEST, PROBLEMS)
        assert here.engine.begun == []
        await here.service.start()
        failed = await here.ended(bad)
        assert failed.state is JobState.FAILED
        assert failed.error == ("problem 'long': the prompt has over 100 tokens: shorten it")
        assert (await here.ended(good)).state is JobState.DONE
    here.service.stop()


async def test_problems_that_trained_the_probe_are_refused_and_near_copies_reported(
    database: Database, tmp_path: Path
) -> None:
    numbers = [LabelledProblem("seen", "Problem  39", "7"), LabelledProblem("odd", "Why 7?", "7")]
    write_seen_problems(tmp_path / READINGS_FILE, seen_problems(numbers))
    here = Running(database, ProblemEngine(), FitLimits())
    here.engine.probe_folder = tmp_path
    async with here.jobs.running():
        waited = await here.jobs.submit(REQUEST, PROBLEMS)
        await here.service.start()
        failed = await here.ended(waited)
        assert failed.state is JobState.FAILED
        assert "1 of 40 problems trained the probe" in (failed.error or "")
        assert "(the first is 'p39')" in (failed.error or "")
        with pytest.raises(RequestRefused, match="1 of 40 problems trained the probe"):
            await here.jobs.submit(REQUEST, PROBLEMS)
        assert here.engine.begun == []
        others = await here.run(asked=PROBLEMS[:39])
        assert others.state is JobState.DONE
        assert "warning: 39 of 39 problems differ from one that trained the probe" in told(others)
    here.service.stop()


async def test_a_job_goes_on_where_a_stopped_service_left_it(database: Database) -> None:
    async with running(database) as here:
        here.engine.hold(4)
        job = await here.jobs.submit(REQUEST, PROBLEMS)
        await here.engine.all_held.wait()
    assert CalibrationStore(database).get(job.id).state is JobState.RECORDING
    async with running(database) as again:
        ended = await again.ended(job)
    assert ended.state is JobState.DONE
    assert "resumed at 0 of 40" in told(ended)


async def test_a_fit_that_was_stopped_is_made_again(database: Database) -> None:
    async with running(database) as here:
        job = await here.jobs.submit(REQUEST, PROBLEMS)
        async for seen in here.jobs.watch(job.id):
            if seen.state is JobState.FITTING:
                break
    async with running(database) as again:
        ended = await again.ended(job)
        assert ended.state is JobState.DONE
        assert again.engine.begun == [], "nothing is recorded again"


async def test_recordings_of_another_engine_are_not_mixed_with_these(database: Database) -> None:
    async with running(database) as here:
        here.engine.hold(4)
        job = await here.jobs.submit(REQUEST, PROBLEMS)
        await here.engine.all_held.wait()
    engine = ProblemEngine()
    engine.identity = replace(IDENTITY, probe="p1")
    async with running(database, engine, abandoned=0.0) as there:
        ended = await there.ended(job)
        assert engine.begun == []
    assert ended.state is JobState.FAILED
    assert "another engine (then, now): probe: 'p0' here, 'p1' there" in (ended.error or "")
    assert f"failed: {ended.error}" in told(ended)


async def test_a_queued_job_outlasts_the_one_that_its_engine_records(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process with another engine fails what nobody takes, but here somebody will."""
    monkeypatch.setattr(calibration_jobs, "LOOK_EVERY", 0.05)
    other = ProblemEngine()
    other.identity = replace(IDENTITY, probe="p1")
    async with running(database) as here:
        here.engine.hold(4)
        await here.jobs.submit(REQUEST, PROBLEMS)
        await here.engine.all_held.wait()
        queued = await here.jobs.submit(REQUEST, PROBLEMS)
        async with running(database, other, abandoned=0.2) as there:
            await asyncio.sleep(1)
            assert (await there.jobs.get(queued.id)).state is JobState.QUEUED


async def test_a_certificate_that_may_not_be_activated_is_still_the_jobs(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its delta is too large for the place of the one that was withdrawn meanwhile."""
    withdrawn, made = (certificate({0.2: ExitPolicy(lambda_high=high)}) for high in (0.9, 0.8))

    async def fit(*_: object, **__: object) -> Fitted:
        return Fitted(b"traces", made, None, None)

    monkeypatch.setattr(runner, "fit", fit)
    async with running(database) as here:
        here.store.add(withdrawn, "upload")
        withdraw(database, withdrawn)
        ended = await here.run(replace(REQUEST, activate=True))
    assert (ended.state, ended.certificate, ended.error) == (JobState.DONE, made.id, None)
    assert "not activated: the guarantee of this procedure was withdrawn" in told(ended)


async def test_a_job_waits_for_a_process_with_its_engine(database: Database) -> None:
    other = ProblemEngine()
    other.identity = replace(IDENTITY, probe="p1")
    made_for = fingerprint_of(IDENTITY)
    job = CalibrationStore(database).create("cal_1", REQUEST, PROBLEMS, made_for=made_for)
    async with running(database, other) as there:
        async with asyncio.timeout(20):
            while (seen := await there.jobs.get(job.id)).error is None:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        assert "waits for a process with the engine that it was posted to (then, now)" in seen.error
        assert "probe: 'p0' here, 'p1' there" in seen.error
        async with running(database) as here:
            ended = await there.ended(job)
            assert len(here.engine.begun) == len(PROBLEMS)
    assert (ended.state, ended.error) == (JobState.DONE, None)
    assert other.begun == []


async def test_a_job_of_another_engine_is_judged_once(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibration_jobs, "LOOK_EVERY", 0.01)
    other = ProblemEngine()
    other.identity = replace(IDENTITY, probe="p1")
    CalibrationStore(database).create("cal_1", REQUEST, PROBLEMS, made_for=fingerprint_of(IDENTITY))
    looked, read = Counter[str](), Counter[str]()
    many = asyncio.Event()
    async with running(database, other) as there:
        loop, free, get = asyncio.get_running_loop(), there.jobs._leases.free, there.jobs.store.get

        def look() -> list[str]:
            looked["all"] += 1
            if looked["all"] == 20:
                loop.call_soon_threadsafe(many.set)
            return free()

        def read_job(id_: str) -> Calibration:
            read[id_] += 1
            return get(id_)

        monkeypatch.setattr(there.jobs._leases, "free", look)
        monkeypatch.setattr(there.jobs.store, "get", read_job)
        async with asyncio.timeout(60):
            await many.wait()
    assert read["cal_1"] <= 1


async def test_processes_divide_the_jobs_of_their_database(database: Database) -> None:
    async with running(database) as here, running(database) as there:
        posted = [await here.jobs.submit(REQUEST, PROBLEMS) for _ in range(4)]
        ended = [await there.ended(job) for job in posted]
        begun = len(here.engine.begun), len(there.engine.begun)
    assert {job.state for job in ended} == {JobState.DONE}
    assert sum(begun) == 4 * len(PROBLEMS), "nothing is recorded twice"
    assert min(begun) > 0


async def test_a_process_that_stalled_notices_that_another_took_over(database: Database) -> None:
    async with running(database) as here:
        here.engine.hold(4)
        job = await here.jobs.submit(REQUEST, PROBLEMS)
        await here.engine.all_held.wait()
        taken = Leases(database, seconds=2.0)  # a much longer one would be of another clock
        with database.session() as session:  # as if this process had stood still for long
            session.execute(update(LeaseRow).values(until=0.0))
        assert taken.claim(job)
        async with asyncio.timeout(20):
            while here.jobs._running is not None:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        assert here.jobs.store.get(job.id).state is JobState.RECORDING
        here.engine.hold(0)
        taken.release(job)
        assert (await here.ended(job)).state is JobState.DONE


async def test_a_process_that_comes_back_late_does_not_fail_the_job_of_another(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its recordings were waiting for the database while another process took the job over."""
    here = Running(database, ProblemEngine(), FitLimits())
    await here.service.start()
    late = runner.JobRunner(database, here.service, here.store, 4, FitLimits())
    late.jobs.create("cal_x", REQUEST, PROBLEMS)
    job = late.jobs.get("cal_x")
    append = RecordingRows.append

    def append_late(rows: RecordingRows, recording: RecordedRollout) -> None:
        late.jobs.move(job, (JobState.RECORDING,), JobState.FITTING)
        append(rows, recording)

    monkeypatch.setattr(RecordingRows, "append", append_late)
    await late.run(job)
    here.service.stop()
    assert late.jobs.get("cal_x").state is JobState.FITTING


async def test_of_many_requests_to_delete_a_job_one_cancels_and_one_deletes_it(
    database: Database,
) -> None:
    async with running(database) as here:
        here.engine.hold(4)
        job = await here.jobs.submit(REQUEST, PROBLEMS)
        await here.engine.all_held.wait()
        ends = await asyncio.gather(
            *(here.jobs.delete(job.id) for _ in range(6)), return_exceptions=True
        )
        states = [end.state for end in ends if isinstance(end, Calibration)]
        assert states == [JobState.CANCELLED, JobState.CANCELLED]
        assert [type(end) for end in ends if not isinstance(end, Calibration)] == [NotFound] * 4
        assert here.jobs.store.all() == []


class Dying(ProblemEngine):
    """Dies at each of these numbers of begun rollouts, and can be started again."""

    def __init__(self, *deaths: int) -> None:
        super().__init__()
        self.deaths = list(deaths)

    async def start(self) -> None:
        self.dead = False

    async def check_health(self) -> None:
        if self.deaths and len(self.begun) >= self.deaths[0]:
            self.deaths.pop(0)
            self.dead = True
        await super().check_health()


async def test_a_job_waits_until_a_dead_engine_is_back(database: Database) -> None:
    async with running(database, Dying(10, 30)) as here:
        job = await here.run()
        assert job.state is JobState.DONE
        assert told(job).count("waiting for the engine") == 2
        assert here.service.restarts == 2
        assert {*here.engine.begun} == set(range(40))
        assert len(here.engine.begun) <= 40 + 2 * 4, "only what was in flight is lost"


class Cursed(ProblemEngine):
    """Dies of every rollout."""

    async def start(self) -> None:
        self.dead = False

    def _note(self, number: int) -> None:
        super()._note(number)
        self.dead = True


async def test_a_job_that_kills_every_engine_is_given_up(database: Database) -> None:
    async with running(database, Cursed()) as here:
        job = await here.run()
        assert job.state is JobState.FAILED
        assert "the engine died 3 times without finishing a rollout" in (job.error or "")


class Crowded(ProblemEngine):
    """Its queue is full for the first 16 requests."""

    refused = 0

    async def think(self, *given: Any, **named: Any) -> Any:
        if self.refused < 16:
            self.refused += 1
            raise EngineBusy("its queue is full", retry_after=0.01)
        async for one in super().think(*given, **named):
            yield one


async def test_a_job_waits_while_the_queue_is_full(database: Database) -> None:
    async with running(database, Crowded()) as here:
        job = await here.run()
        assert job.state is JobState.DONE
        assert sorted(here.engine.begun) == list(range(40)), "each rollout is made once"


async def test_a_queue_that_stays_full_is_no_death(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "PATIENCE", 0.0)
    async with running(database, Crowded()) as here:
        assert (await here.run()).state is JobState.DONE


async def test_a_running_job_is_cancelled_and_the_next_one_runs(database: Database) -> None:
    async with running(database) as here:
        here.engine.hold(4)
        job = await here.jobs.submit(REQUEST, PROBLEMS)
        await here.engine.all_held.wait()
        waiting = await here.jobs.submit(REQUEST, PROBLEMS)
        cancelled = await here.jobs.delete(job.id)
        assert (cancelled.state, cancelled.done) == (JobState.CANCELLED, 0)
        here.engine.held = 0
        assert (await here.ended(waiting)).state is JobState.DONE
        assert here.engine.thinking == 0


async def test_a_job_that_cannot_be_read_stops_no_other_one(database: Database) -> None:
    CalibrationStore(database).create("cal_1", REQUEST, PROBLEMS)
    with database.session() as session:
        newer = REQUEST.to_json()[:-1] + ', "later": 1}'
        session.execute(update(CalibrationRow).values(asked=newer))
    async with running(database) as here:
        assert (await here.run()).state is JobState.DONE


async def test_jobs_go_on_after_an_unexpected_error(
    database: Database, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(calibration_jobs, "RETRY", 0.1)
    free, calls = Leases.free, Counter[str]()

    def failing(leases: Leases) -> list[str]:
        calls["free"] += 1
        if calls["free"] < 3:
            raise TypeError("a fault of ours")
        return free(leases)

    monkeypatch.setattr(Leases, "free", failing)
    async with running(database) as here:
        assert (await here.run()).state is JobState.DONE
    assert caplog.messages.count("no calibration job can be run; trying again") == 1


@pytest.mark.parametrize("step", ["fit", "activate"])
async def test_a_job_that_another_process_cancelled_activates_nothing(
    database: Database, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """The process that runs the job has not noticed yet."""
    work: Callable[..., Any] = getattr(runner, step)
    there = CalibrationStore(database)

    async def cancelled_meanwhile(*args: Any, **named: Any) -> Any:
        (job,) = there.all()
        if step == "activate":
            there.cancel(job.id)
            return await work(*args, **named)
        made = await work(*args, **named)
        there.cancel(job.id)
        return made

    monkeypatch.setattr(runner, step, cancelled_meanwhile)
    async with running(database) as here:
        job = await here.run(replace(REQUEST, activate=True))
        async with asyncio.timeout(20):
            while here.jobs._running is not None:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        assert (job.state, job.certificate) == (JobState.CANCELLED, None)
        kept = here.store.all([IDENTITY])
        assert [one.active for one in kept] == ([] if step == "fit" else [False])
        assert here.service.guarantees.certificates == ()


async def test_a_job_whose_certificate_is_active_cannot_be_cancelled(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process tries it as soon as the certificate is active."""
    there, activate = CalibrationStore(database), runner.activate
    outcomes: list[Conflict] = []

    async def cancelled_after(*args: Any, **named: Any) -> None:
        await activate(*args, **named)
        (job,) = there.all()
        with pytest.raises(Conflict) as refused:
            there.cancel(job.id)
        outcomes.append(refused.value)

    monkeypatch.setattr(runner, "activate", cancelled_after)
    async with running(database) as here:
        job = await here.run(replace(REQUEST, activate=True))
        assert job.state is JobState.DONE
        assert [one.id for one in here.service.guarantees.certificates] == [job.certificate]
    assert "is done: only an unfinished job can be cancelled" in str(outcomes[0])


async def test_an_ended_job_is_deleted_and_its_certificate_stays(database: Database) -> None:
    async with running(database) as here:
        kinds = [replace(problem, kind="a kind") for problem in PROBLEMS]
        job, other = await here.run(asked=kinds), await here.run(asked=kinds[:20])
        assert (await here.jobs.delete(job.id)).state is JobState.DONE
        assert [left.id for left in here.jobs.store.all()] == [other.id]
        assert here.store.get(str(job.certificate)).id == job.certificate
        with pytest.raises(NotFound):
            await here.jobs.get(job.id)
        assert (await here.jobs.get(other.id)).done == 20
        with database.reading() as session:
            left = [session.scalars(text(f"SELECT count(*) FROM {name}")).one() for name in STORED]
        assert left == [20, 20, 0, 20, 1, 0], "only what the other one stored"


async def test_jobs_are_deleted_after_the_configured_time(database: Database) -> None:
    async with running(database) as here:
        job = await here.run()
    deleting = CalibrationJobs(database, here.service, here.store, delete_after=0.05)
    async with asyncio.timeout(20), deleting.running():
        while deleting.store.all():  # noqa: ASYNC110 - the database announces nothing
            await asyncio.sleep(0.05)
    assert here.store.get(str(job.certificate)).id == job.certificate


@contextmanager
def locked(file: Path, database: Database) -> Iterator[None]:
    """Another process writes and does not finish."""
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield


@contextmanager
def full(file: Path, database: Database) -> Iterator[None]:
    """The file cannot grow."""
    with closing(sqlite3.connect(file)) as other:
        (pages,) = other.execute("PRAGMA page_count").fetchone()

    def limit(connection: sqlite3.Connection, _: object) -> None:
        connection.execute(f"PRAGMA max_page_count = {pages}")

    event.listen(database._engine, "connect", limit)
    database._engine.dispose()
    yield
    event.remove(database._engine, "connect", limit)
    database._engine.dispose()


@pytest.mark.parametrize(
    ("trouble", "said"),
    [(locked, "another process is writing"), (full, "no space is left on the disk")],
)
async def test_what_is_recorded_waits_until_it_can_be_stored(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    trouble: Callable[[Path, Database], AbstractContextManager[None]],
    said: str,
) -> None:
    monkeypatch.setattr("rlcm_serve.jobs.runner.RETRY", 0.05)
    file = tmp_path / "rlcm.db"
    database = Database(f"sqlite:///{file}", wait=0.05)
    async with running(database) as here:
        here.engine.hold(4)
        job = await here.jobs.submit(REQUEST, PROBLEMS)
        await here.engine.all_held.wait()
        with trouble(file, database):
            here.engine.held = 0
            here.engine.killed.set()  # those that wait go on; the engine is not dead
            async for seen in here.jobs.watch(job.id):
                if seen.error:
                    break
            assert said in str(seen.error)
            assert seen.state is JobState.RECORDING
            assert said in str((await here.jobs.get(job.id)).error)
        ended = await here.ended(job)
        assert (ended.state, ended.error, ended.done) == (JobState.DONE, None, 40)
        assert sorted(here.engine.begun) == list(range(40)), "nothing was recorded twice"
    database.close()


@pytest.mark.parametrize("refused", ["log", "move", "keep_of_kinds", "add", "activate"])
async def test_a_fit_is_made_once_whatever_the_database_refuses_then(
    database: Database, monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    monkeypatch.setattr(runner, "RETRY", 0.05)
    store = CertificateStore if refused in ("add", "activate") else CalibrationStore
    write: Callable[..., Any] = getattr(store, refused)
    fitted, refusals = 0, 0

    async def counted(*args: Any, **named: Any) -> Fitted:
        nonlocal fitted
        fitted += 1
        return await fit(*args, **named)

    def busy_twice(*args: Any, **named: Any) -> Any:
        nonlocal refusals
        if fitted and refusals < 2:
            refusals += 1
            raise DatabaseBusy("it is busy", "it is busy")
        return write(*args, **named)

    monkeypatch.setattr(runner, "fit", counted)
    monkeypatch.setattr(store, refused, busy_twice)
    kinds = [replace(one, kind="even" if n % 2 else "odd") for n, one in enumerate(problems(160))]
    async with running(database) as here:
        job = await here.run(replace(REQUEST, activate=True, by="kind"), kinds)
        assert job.state is JobState.DONE
    assert (fitted, refusals) == (1, 2)


async def test_a_database_that_was_busy_once_is_forgotten(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also by a process that runs nothing itself."""
    monkeypatch.setattr(calibration_jobs, "LOOK_EVERY", 0.05)
    monkeypatch.setattr(calibration_jobs, "RETRY", 0.05)
    async with running(database) as here:
        here.engine.hold(4)
        job = await here.jobs.submit(REQUEST, PROBLEMS)
        await here.engine.all_held.wait()
        free, looks = Leases.free, 0

        def busy_once(self: Leases) -> list[str]:
            nonlocal looks
            looks += 1
            if looks == 1:
                raise DatabaseBusy("it is busy", "it is busy")
            return free(self)

        monkeypatch.setattr(Leases, "free", busy_once)
        async with running(database) as there:
            async with asyncio.timeout(20):
                while looks < 3:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            assert (await there.jobs.get(job.id)).error is None


async def test_watching_ends_when_the_job_is_deleted(database: Database) -> None:
    async with running(database) as here:
        here.engine.hold(4)
        job = await here.jobs.submit(REQUEST, PROBLEMS)
        states = []
        async for seen in here.jobs.watch(job.id):
            states.append(seen.state)
            if len(states) == 1:
                await here.jobs.delete(job.id)
                await here.jobs.delete(job.id)
        assert JobState.DONE not in states
        with pytest.raises(NotFound):
            await here.jobs.get(job.id)


async def test_a_waiting_job_is_cancelled_before_it_begins(database: Database) -> None:
    async with running(database) as here:
        here.engine.hold(4)
        job = await here.jobs.submit(REQUEST, PROBLEMS)
        waiting = await here.jobs.submit(REQUEST, PROBLEMS)
        await here.engine.all_held.wait()
        assert (await here.jobs.delete(waiting.id)).state is JobState.CANCELLED
        assert (await here.jobs.get(job.id)).state is JobState.RECORDING


async def test_a_job_whose_fit_takes_too_long_fails_and_names_the_setting(
    database: Database,
) -> None:
    async with running(database, limits=FitLimits(seconds=0.05)) as here:
        failed = await here.run()
    assert failed.state is JobState.FAILED
    assert re.search(r"more than 0\.05 s: .*raise fit_timeout_s", failed.error or "")


async def test_a_fit_is_cancelled(database: Database) -> None:
    async with running(database) as here:
        job = await here.jobs.submit(REQUEST, PROBLEMS)
        async for seen in here.jobs.watch(job.id):
            if seen.state is JobState.FITTING:
                break
        assert (await here.jobs.delete(job.id)).state is JobState.CANCELLED
        assert here.store.all([IDENTITY]) == []


async def test_only_what_is_recording_has_time_left(database: Database) -> None:
    async with running(database) as here:
        job = await here.jobs.submit(REQUEST, PROBLEMS)
        assert here.jobs.seconds_left(job) is None
        seen = [
            here.jobs.seconds_left(one)
            async for one in here.jobs.watch(job.id)
            if one.state is JobState.RECORDING and 0 < one.done < 40
        ]
        assert all(left is not None and left >= 0 for left in seen)
        assert here.jobs.seconds_left(await here.jobs.get(job.id)) is None


async def test_unknown_jobs_are_not_found(database: Database) -> None:
    async with running(database) as here:
        for attempt in (here.jobs.get, here.jobs.delete):
            with pytest.raises(NotFound, match="no calibration 'nobody'"):
                await attempt("nobody")
        with pytest.raises(NotFound, match="no calibration 'nobody'"):
            here.jobs.store.traces("nobody")
