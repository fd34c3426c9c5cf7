"""What goes over the wire about calibration jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field

from calibration.testing.fwer import Promise
from calibration.testing.methods import Method
from rlcm_serve.api.wire.base import Wire
from rlcm_serve.api.wire.certificates import LEVEL_EXAMPLE, LevelBody, iso
from rlcm_serve.api.wire.terms import BoundedRisk, Delta, Samples, Vote
from rlcm_serve.core import MAX_SAMPLES, RiskName, VoteRule
from rlcm_serve.store.job import Calibration, CalibrationRequest

MAX_ROLLOUTS = 1024
LOG_EXAMPLE = {"time": "2026-01-12T09:31:40.120+00:00", "text": "320 of 1600 rollouts recorded"}
REQUEST_EXAMPLE = {"risk": "selective", "alphas": [0.05, 0.1, 0.2], "delta": 0.1, "n": 1}


class CalibrationQuery(Wire):
    """What a job records and fits; all of it fixed before anything is looked at."""

    model_config = ConfigDict(strict=False, extra="forbid")  # a URL holds nothing but text

    risk: Annotated[
        Literal["selective", "error", "regret"],
        Field(description="What alpha bounds.", examples=["selective"]),
    ] = "selective"
    alphas: Annotated[
        list[Annotated[float, Field(gt=0, lt=1)]],
        Field(
            min_length=1,
            max_length=100,
            description="Levels of risk, each between 0 and 1; give the parameter several times.",
            json_schema_extra={"uniqueItems": True},
            examples=[[0.05, 0.1, 0.2]],
        ),
    ] = [0.05, 0.1, 0.2]  # noqa: RUF012
    delta: Annotated[
        float,
        Field(
            ge=1e-9,
            lt=1,
            description="Probability with which the promise may fail.",
            examples=[0.1],
        ),
    ] = 0.1
    promise: Annotated[
        Literal["simultaneous", "pointwise"],
        Field(
            description="Whether all levels hold at once or each alone.", examples=["simultaneous"]
        ),
    ] = "simultaneous"
    n: Annotated[
        int, Field(ge=1, le=MAX_SAMPLES, description="Samples of a question.", examples=[1])
    ] = 1
    vote: Annotated[
        Literal["confidence", "majority"],
        Field(description="How samples are merged.", examples=["confidence"]),
    ] = "confidence"
    rollouts: Annotated[
        int | None,
        Field(
            ge=1,
            le=MAX_ROLLOUTS,
            description="Recorded of each problem, n or more; n if left out.",
            examples=[1],
        ),
    ] = None
    method: Annotated[
        Literal[
            "auto", "fixed-sequence", "chains", "rescaled-chains", "split", "holm", "bonferroni"
        ],
        Field(description="Which policies are tested, as `rlcm fit --method`.", examples=["auto"]),
    ] = "auto"
    activate: Annotated[
        bool,
        Field(description="Serve under the certificate once it is there.", examples=[False]),
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
    """What was asked for, defaults filled in."""

    risk: BoundedRisk
    alphas: Annotated[
        list[float], Field(description="Levels of risk.", examples=[[0.05, 0.1, 0.2]])
    ]
    delta: Delta
    promise: Annotated[
        str, Field(description="What holds with the rest.", examples=["simultaneous"])
    ]
    n: Samples
    vote: Vote
    rollouts: Annotated[int, Field(description="Recorded of each problem.", examples=[1])]
    method: Annotated[str, Field(description="Which policies are tested.", examples=["auto"])]
    activate: Annotated[
        bool, Field(description="Whether the result is put in force by itself.", examples=[False])
    ]


class LogLineBody(Wire):
    """What the job had to tell."""

    time: Annotated[str, Field(description="ISO 8601, UTC.", examples=[LOG_EXAMPLE["time"]])]
    text: Annotated[str, Field(description="In words.", examples=[LOG_EXAMPLE["text"]])]


class CalibrationBody(Wire):
    """A calibration job as it stands."""

    id: Annotated[str, Field(description="Its name.", examples=["cal_5f3a9c21d07e"])]
    state: Annotated[
        Literal["queued", "recording", "fitting", "done", "failed", "cancelled"],
        Field(
            description="The last three are for good. `done` does not say that a level is "
            "certified: see `verdicts`.",
            examples=["recording"],
        ),
    ]
    asked: Annotated[
        AskedBody, Field(description="What it records and fits.", examples=[REQUEST_EXAMPLE])
    ]
    problems: Annotated[int, Field(description="Labelled problems.", examples=[1600])]
    done: Annotated[int, Field(description="Rollouts recorded.", examples=[320])]
    total: Annotated[int, Field(description="Rollouts to record.", examples=[1600])]
    seconds_left: Annotated[
        float | None,
        Field(
            description="Until all are recorded, at the rate of the last minutes; null if unknown.",
            examples=[412.0],
        ),
    ]
    created: Annotated[
        str, Field(description="ISO 8601, UTC.", examples=["2026-01-12T09:30:00.000+00:00"])
    ]
    started: Annotated[
        str | None,
        Field(description="When its turn came.", examples=["2026-01-12T09:30:01.300+00:00"]),
    ]
    finished: Annotated[str | None, Field(description="When it ended.", examples=[None])]
    certificate: Annotated[
        str | None,
        Field(description="Id of its result, see /certificates.", examples=["93a2ad9a11e8"]),
    ]
    verdicts: Annotated[
        list[LevelBody],
        Field(
            description="Of each alpha, once it is done: the policy, or why there is none.",
            examples=[[LEVEL_EXAMPLE]],
        ),
    ]
    error: Annotated[str | None, Field(description="Why it failed.", examples=[None])]
    has_traces: Annotated[
        bool, Field(description="Whether /calibrations/{id}/traces has any.", examples=[False])
    ]
    log: Annotated[
        list[LogLineBody],
        Field(
            description="The last 200 lines; empty where jobs are listed.", examples=[[LOG_EXAMPLE]]
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
    """The latest jobs."""

    calibrations: Annotated[
        list[CalibrationBody],
        Field(description="At most 100, the last one first, without their logs.", examples=[[]]),
    ]
