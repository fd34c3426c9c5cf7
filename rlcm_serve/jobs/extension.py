"""Jobs that add problems to the sequential certificate of an earlier job."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from rlcm_serve.errors import NotFound, RequestRefused
from rlcm_serve.recording.problems import LabelledProblem
from rlcm_serve.recording.trained import digest_problem
from rlcm_serve.store.calibrations import CalibrationStore
from rlcm_serve.store.job import Calibration, CalibrationRequest, JobState


def extending(
    store: CalibrationStore, asked: CalibrationRequest, problems: Collection[LabelledProblem]
) -> CalibrationRequest:
    """The request of a job that extends another one: with all of the other's settings. It blocks.

    Raises:
        NotFound: there is no such job.
        RequestRefused: the job has no sequential certificate, a job that it extended was deleted,
            or problems or groups of theirs come again.
    """
    earlier = list(_line(store, str(asked.extends)))
    _require_extensible(earlier[0])
    request = replace(earlier[0].request, extends=asked.extends, activate=asked.activate)
    counted = [store.problems(job) for job in earlier]
    if request.groups_of(problems) is not None and request.groups_of(counted[-1]) is None:
        raise RequestRefused(
            "data",
            f"the problems come in groups, and those of job {asked.extends} do not: give problems "
            "that are drawn one by one",
        )
    known = {key for of_job in counted for one in of_job for key in _keys(one)}
    again = [one for one in problems if known & set(_keys(one))]
    if again:
        raise RequestRefused(
            "data",
            f"{len(again)} problems or groups are counted already, problem {again[0].id!r} among "
            "them: give new problems, in groups that are complete",
        )
    return request


def _line(store: CalibrationStore, id_: str) -> Iterator[Calibration]:
    """A job, the one that it extends, and so on."""
    job = store.get(id_)
    yield job
    while (name := job.request.extends) is not None:
        try:
            job = store.get(name)
        except NotFound as error:
            raise RequestRefused(
                "extend",
                f"job {id_} goes on from job {name}, which was deleted with its problems: post all "
                "problems in a new job",
            ) from error
        yield job


def _require_extensible(job: Calibration) -> None:
    if not job.request.sequential:
        raise RequestRefused(
            "extend",
            f"job {job.id} made a certificate for a number of problems that was fixed before: "
            "post all problems in a new job, with sequential=true if you want to add more later",
        )
    if job.state is not JobState.DONE:
        raise RequestRefused(
            "extend", f"job {job.id} is {job.state}: only a job that is done can be extended"
        )


def _keys(problem: LabelledProblem) -> Iterator[tuple[str, str]]:
    """What two jobs of one line must not share."""
    yield "id", problem.id
    yield "text", digest_problem(problem)
    if problem.group is not None:
        yield "group", problem.group
