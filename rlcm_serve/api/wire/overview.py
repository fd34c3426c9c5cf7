"""What goes over the wire about the service as it is now."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field

from calibration.certificate.report_data import EXIT_EDGES
from rlcm_serve.api.wire.base import Wire
from rlcm_serve.api.wire.calibrations import LOG_EXAMPLE, LogLineBody
from rlcm_serve.api.wire.certificates import iso
from rlcm_serve.api.wire.terms import (
    BoundedRisk,
    CertificateId,
    Delta,
    ExpectedTokens,
    FullBudgetTokens,
    PromiseKind,
    RiskOnCalibration,
    RiskUpper,
    Samples,
    ShareAnswered,
    ThinkingBudget,
    Vote,
)
from rlcm_serve.store.job import Calibration

_JOB_EXAMPLE = {"id": "cal_5f3a9c21d07e", "state": "recording", "done": 320, "total": 1600}
_LEVEL_EXAMPLE = {"alpha": 0.1, "certified": True, "questions": 41, "expected_tokens": 133.2}
_CERTIFICATE_EXAMPLE = {"id": "93a2ad9a11e8", "risk": "selective", "n": 1, "vote": "confidence"}

State = Literal["starting", "ready", "restarting", "failed", "stopping"]


class EngineNow(Wire):
    """The engine."""

    state: Annotated[
        State,
        Field(
            description="restarting: it died and is started again; failed: it was given up.",
            examples=["ready"],
        ),
    ]
    detail: Annotated[str, Field(description="The same in words.", examples=["ready"])]
    ready: Annotated[bool, Field(description="Whether questions can be answered.", examples=[True])]
    restarts: Annotated[int, Field(description="How often it has come back.", examples=[0])]
    requests: Annotated[
        int,
        Field(description="Samples that think and answers that are forced, now.", examples=[3]),
    ]


class RequestsNow(Wire):
    """HTTP requests."""

    in_flight: Annotated[
        int, Field(description="Being served now, this one included.", examples=[2])
    ]


class QueueNow(Wire):
    """Questions that run and wait."""

    running: Annotated[int, Field(description="Being answered now.", examples=[1])]
    running_limit: Annotated[int, Field(description="The most at a time.", examples=[64])]
    waiting: Annotated[int, Field(description="For a place.", examples=[0])]
    waiting_limit: Annotated[int, Field(description="The most that may wait.", examples=[256])]
    drain_per_second: Annotated[
        float | None,
        Field(
            description="Finished per second while all places were taken; null while unknown.",
            examples=[None],
        ),
    ]


class QuestionsSoFar(Wire):
    """Questions since the start."""

    answered: Annotated[int, Field(description="With an answer.", examples=[120])]
    abstained: Annotated[int, Field(description="Without one.", examples=[14])]
    failed: Annotated[int, Field(description="With neither.", examples=[3])]
    guaranteed: Annotated[
        int, Field(description="Answered or abstained from under a guarantee.", examples=[130])
    ]
    unguaranteed: Annotated[int, Field(description="The others of these.", examples=[4])]
    failures: Annotated[
        dict[str, int],
        Field(description="Those that failed, by kind.", examples=[{"infeasible": 2}]),
    ]


class SavedSoFar(Wire):
    """Tokens not spent on questions under a certificate, against what it expects on average."""

    full_budget_tokens: Annotated[
        float, Field(description="What they would have cost.", examples=[60100.5])
    ]
    saved_tokens: Annotated[
        float, Field(description="Less, of those that cost less.", examples=[42000.1])
    ]
    over_tokens: Annotated[
        float, Field(description="More, of those that cost more.", examples=[310.0])
    ]
    share: Annotated[
        float | None,
        Field(
            description="Saved less over, as a share of the full budget; null before the first.",
            examples=[0.694],
        ),
    ]


class ConfidenceNow(Wire):
    """Finished samples by the reading at which they ended, beside what calibration gave."""

    edges: Annotated[
        tuple[float, ...],
        Field(
            description="Of the bins, each (low, high]; the first includes 0.",
            examples=[EXIT_EDGES],
        ),
    ]
    now: Annotated[
        tuple[int, ...],
        Field(description="Samples in each bin, since the start.", examples=[[3, 1, 0]]),
    ]
    comparable: Annotated[
        tuple[int, ...] | None,
        Field(
            description="Of these, the samples of questions that were served under a certificate "
            "with report data; null while there are none.",
            examples=[[2, 1, 0]],
        ),
    ]
    calibration: Annotated[
        tuple[float, ...] | None,
        Field(
            description="Share of the calibration samples in each bin, under the levels that "
            "these were served under, weighted alike; null with them.",
            examples=[[0.012, 0.004]],
        ),
    ]


class LevelNow(Wire):
    """One level of a certificate in force, and what its calibration expects."""

    alpha: Annotated[float, Field(description="The target.", examples=[0.1])]
    certified: Annotated[bool, Field(description="Whether it is kept.", examples=[True])]
    questions: Annotated[int, Field(description="Served under it since the start.", examples=[41])]
    risk: RiskOnCalibration
    risk_upper: RiskUpper
    expected_tokens: ExpectedTokens
    full_budget_tokens: FullBudgetTokens
    share_answered: ShareAnswered
    share_abstained: Annotated[float | None, Field(description="The rest.", examples=[0.07])]


class CertificateNow(Wire):
    """A certificate in force."""

    id: CertificateId
    risk: BoundedRisk
    promise: PromiseKind
    delta: Delta
    n: Samples
    vote: Vote
    max_tokens: ThinkingBudget
    has_exhibit: Annotated[
        bool,
        Field(
            description="Whether report data exists at `/certificates/{id}/report`.",
            examples=[True],
        ),
    ]
    levels: Annotated[
        list[LevelNow], Field(description="By rising alpha.", examples=[[_LEVEL_EXAMPLE]])
    ]


class JobNow(Wire):
    """A calibration job; the whole of it is at `/calibrations/{id}`."""

    id: Annotated[str, Field(description="Its name.", examples=["cal_5f3a9c21d07e"])]
    state: Annotated[
        Literal["queued", "recording", "fitting", "done", "failed", "cancelled"],
        Field(description="The last three are for good.", examples=["recording"]),
    ]
    done: Annotated[int, Field(description="Rollouts recorded.", examples=[320])]
    total: Annotated[int, Field(description="Rollouts to record.", examples=[1600])]
    seconds_left: Annotated[
        float | None,
        Field(description="Until all are recorded; null if unknown.", examples=[412.0]),
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
        str | None, Field(description="Id of its result.", examples=["93a2ad9a11e8"])
    ]
    error: Annotated[str | None, Field(description="Why it failed.", examples=[None])]
    log: Annotated[
        list[LogLineBody], Field(description="The last lines.", examples=[[LOG_EXAMPLE]])
    ]

    @classmethod
    def from_job(cls, job: Calibration, seconds_left: float | None) -> Self:
        """The job as it goes over the wire."""
        return cls(
            id=job.id,
            state=job.state.value,
            done=job.done,
            total=job.total,
            seconds_left=seconds_left,
            created=iso(job.created),
            started=None if job.started is None else iso(job.started),
            finished=None if job.finished is None else iso(job.finished),
            certificate=job.certificate,
            error=job.error,
            log=[LogLineBody(time=iso(line.time), text=line.text) for line in job.log],
        )


class OverviewBody(Wire):
    """The service as it is now. Counts are those of `/metrics`, since the process started."""

    time: Annotated[str, Field(description="ISO 8601, UTC.", examples=[LOG_EXAMPLE["time"]])]
    uptime_s: Annotated[float, Field(description="Seconds since it started.", examples=[812.4])]
    version: Annotated[str, Field(description="Of the service.", examples=["0.1.0"])]
    model: Annotated[str, Field(description="That is served.", examples=["embedded"])]
    engine: Annotated[
        EngineNow, Field(description="Its state.", examples=[{"state": "ready", "ready": True}])
    ]
    requests: Annotated[RequestsNow, Field(description="Over HTTP.", examples=[{"in_flight": 2}])]
    queue: Annotated[
        QueueNow, Field(description="Of questions.", examples=[{"running": 1, "waiting": 0}])
    ]
    questions: Annotated[
        QuestionsSoFar, Field(description="By outcome.", examples=[{"answered": 120}])
    ]
    tokens: Annotated[
        dict[str, int],
        Field(
            description="By kind, as `usage` of /solve: cached_prompt is a part of prompt.",
            examples=[{"prompt": 4100, "reasoning": 18200}],
        ),
    ]
    saved: Annotated[SavedSoFar, Field(description="Tokens not spent.", examples=[{"share": 0.69}])]
    exits: Annotated[
        dict[str, int],
        Field(description="Samples by why they stopped.", examples=[{"high": 210, "low": 12}]),
    ]
    confidence: Annotated[ConfidenceNow, Field(description="At exit.", examples=[{"now": [3, 1]}])]
    certificates: Annotated[
        list[CertificateNow], Field(description="In force.", examples=[[_CERTIFICATE_EXAMPLE]])
    ]
    jobs: Annotated[
        list[JobNow], Field(description="The latest ten, last first.", examples=[[_JOB_EXAMPLE]])
    ]
    jobs_error: Annotated[
        str | None, Field(description="Why they cannot be read, if so.", examples=[None])
    ]
