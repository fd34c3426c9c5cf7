"""Wire types of calibration jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field

from calibration.testing.fwer import Promise
from calibration.testing.methods import Method
from rlcm_serve.api.wire.base import Wire
from rlcm_serve.api.wire.certificates import LEVEL_EXAMPLE, LevelBody, iso
from rlcm_serve.api.wire.terms import (
    DELTA_TEXT,
    METHOD_TEXT,
    PROMISE_TEXT,
    RISK_TEXT,
    SAMPLES_TEXT,
    VOTE_TEXT,
    BoundedRisk,
    Delta,
    JobCertificate,
    JobCreated,
    JobDone,
    JobError,
    JobFinished,
    JobId,
    JobSecondsLeft,
    JobStarted,
    JobState,
    JobTotal,
    PromiseKind,
    Samples,
    Vote,
)
from rlcm_serve.core import MAX_SAMPLES, RiskName, VoteRule
from rlcm_serve.store.job import Calibration, CalibrationRequest

MAX_ROLLOUTS = 1024
LOG_EXAMPLE = {"time": "2026-01-12T09:31:40.120+00:00", "text": "320 of 1600 rollouts recorded"}
REQUEST_EXAMPLE = {"risk": "selective", "alphas": [0.05, 0.1, 0.2], "delta": 0.1, "n": 1}


class CalibrationQuery(Wire):
    """What a calibration job records and fits. All of it is fixed before any data is seen."""

    model_config = ConfigDict(strict=False, extra="forbid")  # a URL holds nothing but text

    risk: Annotated[
        Literal["selective", "error", "regret"],
        Field(description=RISK_TEXT, examples=["selective"]),
    ] = "selective"
    alphas: Annotated[
        list[Annotated[float, Field(gt=0, lt=1)]],
        Field(
            min_length=1,
            max_length=100,
            description="Risk levels to certify, each between 0 and 1. Repeat the parameter for"
            " several levels.",
            json_schema_extra={"uniqueItems": True},
            examples=[[0.05, 0.1, 0.2]],
        ),
    ] = [0.05, 0.1, 0.2]  # noqa: RUF012
    delta: Annotated[
        float,
        Field(
            ge=1e-9,
            lt=1,
            description=DELTA_TEXT,
            examples=[0.1],
        ),
    ] = 0.1
    promise: Annotated[
        Literal["simultaneous", "pointwise"],
        Field(description=PROMISE_TEXT, examples=["simultaneous"]),
    ] = "simultaneous"
    n: Annotated[int, Field(ge=1, le=MAX_SAMPLES, description=SAMPLES_TEXT, examples=[1])] = 1
    vote: Annotated[
        Literal["confidence", "majority"],
        Field(description=VOTE_TEXT, examples=["confidence"]),
    ] = "confidence"
    rollouts: Annotated[
        int | None,
        Field(
            ge=1,
            le=MAX_ROLLOUTS,
            description="Number of rollouts to record per problem, at least `n`; `n` by default.",
            examples=[1],
        ),
    ] = None
    method: Annotated[
        Literal[
            "auto", "fixed-sequence", "chains", "rescaled-chains", "split", "holm", "bonferroni"
        ],
        Field(description=METHOD_TEXT, examples=["auto"]),
    ] = "auto"
    activate: Annotated[
        bool,
        Field(description="Activate the certificate as soon as it is fitted.", examples=[False]),
    ] = False

    def to_request(self) -> CalibrationRequest:
        """The request in the service's own terms.

        Raises:
            RequestRefused: a value is out of range.
        """
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
        )


class AskedBody(Wire):
    """The settings of a calibration job, defaults included."""

    risk: BoundedRisk
    alphas: Annotated[
        list[float],
        Field(
            description="Risk levels that the job tries to certify.", examples=[[0.05, 0.1, 0.2]]
        ),
    ]
    delta: Delta
    promise: PromiseKind
    n: Samples
    vote: Vote
    rollouts: Annotated[
        int, Field(description="Number of rollouts that are recorded per problem.", examples=[1])
    ]
    method: Annotated[str, Field(description=METHOD_TEXT, examples=["auto"])]
    activate: Annotated[
        bool,
        Field(
            description="Whether the certificate is activated as soon as it is fitted.",
            examples=[False],
        ),
    ]


class LogLineBody(Wire):
    """A line of a calibration job's log."""

    time: Annotated[
        str,
        Field(
            description="When the line was written, as an ISO 8601 time in UTC.",
            examples=[LOG_EXAMPLE["time"]],
        ),
    ]
    text: Annotated[str, Field(description="Text of the line.", examples=[LOG_EXAMPLE["text"]])]


class CalibrationBody(Wire):
    """A calibration job and its progress."""

    id: JobId
    state: JobState
    asked: Annotated[
        AskedBody,
        Field(description="Settings of the job, defaults included.", examples=[REQUEST_EXAMPLE]),
    ]
    problems: Annotated[
        int, Field(description="Number of labelled problems that were uploaded.", examples=[1600])
    ]
    done: JobDone
    total: JobTotal
    seconds_left: JobSecondsLeft
    created: JobCreated
    started: JobStarted
    finished: JobFinished
    certificate: JobCertificate
    verdicts: Annotated[
        list[LevelBody],
        Field(
            description="The certificate's levels: for each alpha the certified policy, or why "
            "there is none. Empty until the job is done.",
            examples=[[LEVEL_EXAMPLE]],
        ),
    ]
    error: JobError
    has_traces: Annotated[
        bool,
        Field(
            description="Whether `/calibrations/{id}/traces` has the recorded traces.",
            examples=[False],
        ),
    ]
    log: Annotated[
        list[LogLineBody],
        Field(
            description="The last 200 lines of the job's log; empty in a list of jobs.",
            examples=[[LOG_EXAMPLE]],
        ),
    ]

    @classmethod
    def from_job(
        cls, job: Calibration, seconds_left: float | None, verdicts: Sequence[LevelBody] = ()
    ) -> Self:
        """The job as it goes over the wire."""
        asked = job.request
        return cls(
            id=job.id,
            state=job.state.value,
            asked=AskedBody(
                risk=asked.risk.value,
                alphas=list(asked.alphas),
                delta=asked.delta,
                promise=asked.promise.value,
                n=asked.samples,
                vote=asked.vote.value,
                rollouts=asked.rollouts,
                method=asked.method.value,
                activate=asked.activate,
            ),
            problems=job.n_problems,
            done=job.done,
            total=job.total,
            seconds_left=seconds_left,
            created=iso(job.created),
            started=None if job.started is None else iso(job.started),
            finished=None if job.finished is None else iso(job.finished),
            certificate=job.certificate,
            verdicts=list(verdicts),
            error=job.error,
            has_traces=job.has_traces,
            log=[LogLineBody(time=iso(line.time), text=line.text) for line in job.log],
        )


class CalibrationList(Wire):
    """The latest calibration jobs."""

    calibrations: Annotated[
        list[CalibrationBody],
        Field(description="At most 100 jobs, newest first, without their logs.", examples=[[]]),
    ]
