"""Wire types of calibration jobs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field

from calibration.errors import CalibrationError
from calibration.simulation.groups import Average
from calibration.testing.fwer import Promise
from calibration.testing.joint import MAX_NEXT, parse_bounds
from calibration.testing.methods import Method
from rlcm_serve.api.wire import terms
from rlcm_serve.api.wire.base import Wire, described
from rlcm_serve.api.wire.certificates import LEVEL_EXAMPLE, LevelBody, iso, iso_or_none
from rlcm_serve.core import MAX_SAMPLES, RiskName, VoteRule
from rlcm_serve.errors import RequestRefused
from rlcm_serve.profiles.profile import DEFAULT_NAME
from rlcm_serve.store.job import Calibration, CalibrationRequest

MAX_ROLLOUTS = 1024
MAX_GROUP_SIZE = 1_000_000
REQUEST_EXAMPLE = {
    "profile": DEFAULT_NAME,
    "risk": "selective",
    "alphas": [0.05, 0.1, 0.2],
    "delta": 0.1,
    "n": 1,
}


class CalibrationQuery(Wire):
    """What a calibration job records and fits. All of it is fixed before any data is seen."""

    model_config = ConfigDict(strict=False, extra="forbid")  # a URL holds nothing but text

    profile: str = Field(default=DEFAULT_NAME, examples=[DEFAULT_NAME])
    """Name of the prompt profile under which the problems are asked."""
    risk: terms.AskedRisk = "selective"
    alphas: list[Annotated[float, Field(gt=0, lt=1)]] = Field(
        default=[0.05, 0.1, 0.2],
        min_length=1,
        max_length=100,
        json_schema_extra={"uniqueItems": True},
        examples=[[0.05, 0.1, 0.2]],
    )
    """Risk levels to certify, each between 0 and 1. Repeat the parameter for several levels."""
    delta: Annotated[float, described(terms.DELTA_TEXT, 0.1, ge=1e-9, lt=1)] = 0.1
    promise: Annotated[
        Literal["simultaneous", "pointwise"], described(terms.PROMISE_TEXT, "simultaneous")
    ] = "simultaneous"
    n: Annotated[int, described(terms.SAMPLES_TEXT, 1, ge=1, le=MAX_SAMPLES)] = 1
    vote: terms.AskedVote = "confidence"
    rollouts: int | None = Field(default=None, ge=1, le=MAX_ROLLOUTS, examples=[1])
    """Number of rollouts to record per problem, at least `n`; `n` by default."""
    method: Annotated[
        Literal[
            "auto", "fixed-sequence", "chains", "rescaled-chains", "split", "holm", "bonferroni"
        ],
        described(terms.METHOD_TEXT, "auto"),
    ] = "auto"
    average: Annotated[Literal["problems", "groups"], described(terms.AVERAGE_TEXT, "problems")] = (
        "problems"
    )
    max_group_size: Annotated[
        int | None, described(terms.MAX_GROUP_SIZE_TEXT, None, ge=1, le=MAX_GROUP_SIZE)
    ] = None
    by: Annotated[Literal["kind"] | None, described(terms.BY_TEXT, None)] = None
    bounds: list[str] = described(terms.BOUNDS_TEXT, [], default=[], max_length=10)
    answered_at_least: Annotated[
        float | None, described(terms.ANSWERED_TEXT, None, ge=0.001, lt=1)
    ] = None
    next: Annotated[int | None, described(terms.NEXT_TEXT, None, ge=1, le=MAX_NEXT)] = None
    activate: bool = Field(default=False, examples=[False])
    """Activate the certificate as soon as it is fitted; with `by`, all of them."""
    sequential: Annotated[bool, described(terms.SEQUENTIAL_TEXT, False)] = False
    extend: Annotated[str | None, described(terms.EXTEND_TEXT, None)] = None
    replace: Annotated[str | None, described(terms.REPLACE_TEXT, None)] = None

    def to_request(self, sent: Collection[str]) -> CalibrationRequest:
        """The request in the service's own terms.

        Args:
            sent: names of the parameters in the query. The fields do not tell: FastAPI sets them
                all.

        Raises:
            RequestRefused: a value is out of range, or comes with `extend` or `replace`.
        """
        if self.extend is not None:
            _require_alone(sent, {"extend", "activate"}, f"job {self.extend} (extend)")
        if self.replace is not None:
            _require_alone(sent, {"replace"}, f"certificate {self.replace} (replace)")
        try:
            bounds = parse_bounds(self.bounds, self.answered_at_least)
        except CalibrationError as error:
            raise RequestRefused("bounds", str(error)) from error
        return CalibrationRequest(
            risk=RiskName(self.risk),
            alphas=tuple(self.alphas),
            delta=self.delta,
            promise=Promise(self.promise),
            samples=self.n,
            vote=VoteRule(self.vote),
            rollouts=self.n if self.rollouts is None else self.rollouts,
            method=Method(self.method),
            activate=self.activate,
            profile=self.profile,
            average=Average(self.average),
            max_group_size=self.max_group_size,
            sequential=self.sequential,
            extends=self.extend,
            replaces=self.replace,
            by=self.by,
            bounds=tuple(bounds.items()),
            next_questions=self.next,
        )


def _require_alone(sent: Collection[str], allowed: set[str], fixed_by: str) -> None:
    for name in sorted(set(sent) - allowed):
        raise RequestRefused(name, f"{name} is fixed by {fixed_by}: leave it out")


class AskedBody(Wire):
    """The settings of a calibration job, defaults included."""

    profile: str = Field(examples=[DEFAULT_NAME])
    """Name of the prompt profile under which the problems are asked."""
    risk: terms.BoundedRisk
    alphas: tuple[float, ...] = Field(examples=[[0.05, 0.1, 0.2]])
    """Risk levels that the job tries to certify."""
    delta: terms.Delta
    promise: terms.PromiseKind
    n: terms.Samples
    vote: terms.Vote
    rollouts: int = Field(examples=[1])
    """Number of rollouts that are recorded per problem."""
    method: Annotated[str, described(terms.METHOD_TEXT, "auto")]
    average: terms.AveragedOver
    max_group_size: Annotated[int | None, described(terms.MAX_GROUP_SIZE_TEXT, None)]
    by: Annotated[str | None, described(terms.BY_TEXT, None)]
    bounds: dict[str, float | None] = Field(examples=[{}])
    """Other risks that are bounded at once with the levels, with their limits; null for none."""
    next: Annotated[int | None, described(terms.NEXT_TEXT, None)]
    activate: bool = Field(examples=[False])
    """Whether the certificate is activated as soon as it is fitted."""
    sequential: Annotated[bool, described(terms.SEQUENTIAL_TEXT, False)]
    extend: Annotated[str | None, described(terms.EXTEND_TEXT, None)]
    replace: Annotated[str | None, described(terms.REPLACE_TEXT, None)]


class KindResultBody(Wire):
    """The certificate of a single kind that a job made."""

    kind: str = Field(examples=["algebra"])
    """The kind."""
    certificate: terms.CertificateId
    verdicts: list[LevelBody] = Field(examples=[[LEVEL_EXAMPLE]])
    """The certificate's levels: for each alpha the certified policy, or why there is none. Empty if
    this release cannot read the certificate.
    """


class LogLineBody(Wire):
    """A line of a calibration job's log."""

    time: str = Field(examples=["2026-01-12T09:31:40.120+00:00"])
    """When the line was written, as an ISO 8601 time in UTC."""
    text: str = Field(examples=["320 of 1600 rollouts recorded"])
    """Text of the line."""


class CalibrationBody(Wire):
    """A calibration job and its progress."""

    id: terms.JobId
    state: terms.JobState
    asked: AskedBody = Field(examples=[REQUEST_EXAMPLE])
    """Settings of the job, defaults included."""
    problems: int = Field(examples=[1600])
    """Number of labelled problems that were uploaded."""
    done: terms.JobDone
    total: terms.JobTotal
    seconds_left: terms.JobSecondsLeft
    created: terms.JobCreated
    started: terms.JobStarted
    finished: terms.JobFinished
    certificate: terms.JobCertificate
    verdicts: list[LevelBody] = Field(examples=[[LEVEL_EXAMPLE]])
    """The certificate's levels: for each alpha the certified policy, or why there is none. Empty
    until the job is done, and if this release cannot read the certificate.
    """
    kinds: list[KindResultBody] = Field(examples=[[]])
    """Certificates of single kinds, if `by` asks for them; `certificate` is then that of all kinds.
    Empty until the job is done.
    """
    error: terms.JobError
    has_traces: bool = Field(examples=[False])
    """Whether `/calibrations/{id}/traces` has the recorded traces."""
    log: list[LogLineBody] = Field(examples=[[LogLineBody.example()]])
    """The last 200 lines of the job's log; empty in a list of jobs."""

    @classmethod
    def from_job(
        cls,
        job: Calibration,
        seconds_left: float | None,
        verdicts: Sequence[LevelBody] = (),
        kinds: Sequence[KindResultBody] = (),
    ) -> Self:
        """The wire form of a job."""
        return cls(
            id=job.id,
            state=job.state.value,
            asked=AskedBody(**_asked(job.request)),
            problems=job.n_problems,
            done=job.done,
            total=job.total,
            seconds_left=seconds_left,
            created=iso(job.created),
            started=iso_or_none(job.started),
            finished=iso_or_none(job.finished),
            certificate=job.certificate,
            verdicts=list(verdicts),
            kinds=list(kinds),
            error=job.error,
            has_traces=job.has_traces,
            log=[LogLineBody(time=iso(line.time), text=line.text) for line in job.log],
        )


_ON_THE_WIRE = {
    "samples": "n",
    "extends": "extend",
    "replaces": "replace",
    "next_questions": "next",
}


def _asked(request: CalibrationRequest) -> dict[str, Any]:
    asked = {_ON_THE_WIRE.get(name, name): value for name, value in asdict(request).items()}
    return asked | {"bounds": dict(request.bounds)}


class CalibrationList(Wire):
    """The latest calibration jobs."""

    calibrations: list[CalibrationBody] = Field(examples=[[]])
    """At most 100 jobs, newest first, without their logs."""
