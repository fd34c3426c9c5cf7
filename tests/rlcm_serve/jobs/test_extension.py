"""Jobs that add problems to the sequential certificate of an earlier job."""

from dataclasses import replace
from pathlib import Path

import pytest

from calibration import read_traces, verify
from calibration.simulation.groups import Average
from rlcm_serve.errors import Conflict, NotFound, RequestRefused
from rlcm_serve.recording.problems import LabelledProblem
from rlcm_serve.store.database import Database
from rlcm_serve.store.job import Calibration, CalibrationRequest, JobState
from tests.rlcm_serve.jobs.problem_engine import ProblemEngine, problems
from tests.rlcm_serve.jobs.test_calibration_jobs import Running, running
from tests.rlcm_serve.scripted_engine import IDENTITY

pytestmark = pytest.mark.slow

BEGIN = CalibrationRequest(alphas=(0.2,), sequential=True)
ALL = problems(60)
FIRST, MORE = ALL[:10], ALL[10:]


def extending(job: Calibration) -> CalibrationRequest:
    return CalibrationRequest(extends=job.id)


async def test_problems_are_added_until_the_level_is_certified(
    database: Database, tmp_path: Path
) -> None:
    async with running(database) as here:
        first = await here.run(BEGIN, FIRST)
        assert first.state is JobState.DONE
        begun = here.store.get(str(first.certificate))
        assert not begun.levels[0].certified
        second = await here.run(replace(extending(first), activate=True), MORE)
        assert (second.state, second.done, second.error) == (JobState.DONE, 50, None)
        assert second.request == replace(BEGIN, extends=first.id, activate=True)
        made = here.store.get(str(second.certificate))
        assert made.levels[0].certified
        assert made.design == begun.design
        assert made.sequential is not None
        assert [batch.n_problems for batch in made.sequential.batches] == [10, 50]
        (tmp_path / "t.parquet").write_bytes(here.jobs.store.traces(second.id))
        assert verify(made, read_traces(tmp_path / "t.parquet")) == []
        assert sorted(here.engine.begun) == list(range(60)), "each problem is recorded once"
        assert [active.id for active in here.service.guarantees.certificates] == [made.id]


async def refused(here: Running, job: Calibration, asked: list[LabelledProblem]) -> str:
    with pytest.raises(RequestRefused) as found:
        await here.jobs.submit(extending(job), asked)
    return str(found.value)


async def test_problems_that_are_counted_already_are_refused(database: Database) -> None:
    async with running(database) as here:
        first = await here.run(BEGIN, FIRST)
        second = await here.run(extending(first), MORE[:20])
        for again in (FIRST[0], MORE[0]):
            renamed = replace(again, id="another", problem=f" {again.problem}\n")
            assert "counted already" in await refused(here, second, [*MORE[20:], again])
            assert "'another'" in await refused(here, second, [*MORE[20:], renamed])
        grouped = [replace(one, group=f"g{i // 2}") for i, one in enumerate(MORE[20:40])]
        assert "drawn one by one" in await refused(here, second, grouped)


async def test_groups_are_refused_where_single_problems_were_counted_as_groups(
    database: Database,
) -> None:
    pairs = [replace(one, group=f"g{i // 2}") for i, one in enumerate(MORE[:20])]
    async with running(database) as here:
        first = await here.run(replace(BEGIN, average=Average.GROUPS), FIRST)
        assert "drawn one by one" in await refused(here, first, pairs)


async def test_a_later_member_of_a_counted_group_is_refused(database: Database) -> None:
    pairs = [replace(one, group=f"g{i // 2}") for i, one in enumerate(ALL)]
    async with running(database) as here:
        first = await here.run(BEGIN, pairs[:20])
        late = [*pairs[20:39], replace(pairs[39], group="g0")]
        assert "in groups that are complete" in await refused(here, first, late)
        second = await here.run(extending(first), pairs[20:])
        assert here.store.get(str(second.certificate)).n_units == 30


async def test_a_job_is_extended_once_unless_the_extension_gave_no_result(
    database: Database,
) -> None:
    async with running(database) as here:
        first = await here.run(BEGIN, FIRST)
        cancelled = await here.jobs.submit(extending(first), MORE)
        await here.jobs.delete(cancelled.id)
        second = await here.run(extending(first), MORE)
        with pytest.raises(Conflict, match=f"extended by {second.id} already"):
            await here.jobs.submit(extending(first), problems(80)[60:])


async def test_jobs_of_one_line_are_deleted_from_the_first_one_on(database: Database) -> None:
    """Whoever deleted the second one could extend the first one again, and keep the better."""
    async with running(database) as here:
        first = await here.run(BEGIN, FIRST)
        second = await here.run(extending(first), MORE[:20])
        third = await here.run(extending(second), MORE[20:])
        for job, before in ((second, first), (third, second)):
            with pytest.raises(Conflict, match=f"{job.id} extends {before.id}, .* first"):
                await here.jobs.delete(job.id)
        moment = (third.finished or 0.0) - 0.0001
        jobs = here.jobs.store
        assert jobs.ended_before(moment) == [], "the last one is not old enough"
        assert jobs.ended_before(moment + 1) == [first.id, second.id, third.id]
        await here.jobs.delete(first.id)
        why = await refused(here, third, problems(100)[80:])
        assert f"goes on from job {first.id}, which was deleted with its problems" in why
        await here.jobs.delete(second.id)
        await here.jobs.delete(third.id)
        assert jobs.all() == []


async def test_only_a_sequential_job_that_is_done_can_be_extended(database: Database) -> None:
    async with running(database) as here:
        fixed = await here.run(CalibrationRequest(alphas=(0.2,)), ALL[:40])
        assert "fixed before" in await refused(here, fixed, MORE[40:])
        with pytest.raises(NotFound):
            await here.jobs.submit(CalibrationRequest(extends="cal_none"), MORE)
        queued = await here.jobs.submit(BEGIN, FIRST)
        assert "only a job that is done" in await refused(here, queued, MORE)


async def test_another_engine_is_refused(database: Database) -> None:
    async with running(database) as here:
        first = await here.run(BEGIN, FIRST)
    engine = ProblemEngine()
    engine.identity = replace(IDENTITY, probe="p1")
    async with running(database, engine, abandoned=0.0) as there:
        second = await there.run(extending(first), MORE)
        assert engine.begun == []
    assert second.state is JobState.FAILED
    assert "another engine (then, now): probe: 'p0' here, 'p1' there" in (second.error or "")


def test_a_method_that_learns_from_the_problems_is_refused() -> None:
    with pytest.raises(RequestRefused, match="fixes its policies before the first one"):
        replace(BEGIN, method=type(BEGIN.method)("split"))
