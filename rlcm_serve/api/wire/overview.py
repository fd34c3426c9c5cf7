"""Wire types of `/overview`."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field

from calibration.certificate.report_data import EXIT_EDGES
from rlcm_serve.api.wire.base import Wire
from rlcm_serve.api.wire.calibrations import LOG_EXAMPLE, LogLineBody
from rlcm_serve.api.wire.certificates import iso
from rlcm_serve.api.wire.terms import (
    Alpha,
    BoundedRisk,
    CertificateId,
    Delta,
    ExitCounts,
    ExpectedTokens,
    FullBudgetTokens,
    IsCertified,
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
_CERTIFICATE_EXAMPLE = {"id": "81d2b7f98fe8", "risk": "selective", "n": 1, "vote": "confidence"}

State = Literal["starting", "ready", "restarting", "failed", "stopping"]


class EngineNow(Wire):
    """State of the engine (vLLM under exit control)."""

    state: Annotated[
        State,
        Field(
            description="State of the service. `restarting`: the engine died and is being "
            "started again. `failed`: it could not be started again; only a restart"
            " of the service helps.",
            examples=["ready"],
        ),
    ]
    detail: Annotated[
        str,
        Field(
            description="The state in words, for example the current stage of a start.",
            examples=["ready"],
        ),
    ]
    ready: Annotated[
        bool, Field(description="Whether questions can be answered now.", examples=[True])
    ]
    restarts: Annotated[
        int,
        Field(
            description="How often the engine was restarted since the service started.",
            examples=[0],
        ),
    ]
    requests: Annotated[
        int,
        Field(
            description="Number of requests that vLLM is working on now: samples that are "
            "thinking and forced answers.",
            examples=[3],
        ),
    ]


class RequestsNow(Wire):
    """HTTP requests."""

    in_flight: Annotated[
        int,
        Field(
            description="Number of HTTP requests being served now, including this one.",
            examples=[2],
        ),
    ]


class QueueNow(Wire):
    """Questions that are running or waiting."""

    running: Annotated[
        int, Field(description="Number of questions being answered now.", examples=[1])
    ]
    running_limit: Annotated[
        int,
        Field(
            description="Maximum number of questions answered at the same time (`max_running`).",
            examples=[64],
        ),
    ]
    waiting: Annotated[
        int, Field(description="Number of questions that wait until they may start.", examples=[0])
    ]
    waiting_limit: Annotated[
        int,
        Field(
            description="Maximum number of questions that may wait (`max_waiting`).", examples=[256]
        ),
    ]
    drain_per_second: Annotated[
        float | None,
        Field(
            description="Questions finished per second while the service was fully loaded; null"
            " if that has not happened yet.",
            examples=[None],
        ),
    ]


class QuestionsSoFar(Wire):
    """Questions since the service started."""

    answered: Annotated[
        int, Field(description="Number of questions that got an answer.", examples=[120])
    ]
    abstained: Annotated[
        int, Field(description="Number of questions on which the service abstained.", examples=[14])
    ]
    failed: Annotated[
        int, Field(description="Number of questions that ended in an error.", examples=[3])
    ]
    guaranteed: Annotated[
        int,
        Field(
            description="Number of answers and abstentions that a guarantee covers.", examples=[130]
        ),
    ]
    unguaranteed: Annotated[
        int,
        Field(description="Number of answers and abstentions without a guarantee.", examples=[4]),
    ]
    failures: Annotated[
        dict[str, int],
        Field(
            description="Number of questions that ended in an error, by kind of error.",
            examples=[{"infeasible": 2}],
        ),
    ]


class SavedSoFar(Wire):
    """Tokens saved since the service started, on questions that a certificate covers."""

    full_budget_tokens: Annotated[
        float,
        Field(
            description="Expected tokens of these questions without early exits, according to "
            "their certificates.",
            examples=[60100.5],
        ),
    ]
    saved_tokens: Annotated[
        float,
        Field(
            description="Tokens saved, added over the questions that cost less than expected "
            "without early exits.",
            examples=[42000.1],
        ),
    ]
    over_tokens: Annotated[
        float,
        Field(
            description="Additional tokens, added over the questions that cost more than "
            "expected without early exits.",
            examples=[310.0],
        ),
    ]
    share: Annotated[
        float | None,
        Field(
            description="Net saving (saved minus additional tokens) as a share of the expected "
            "tokens without early exits; null before the first such question.",
            examples=[0.694],
        ),
    ]


class ConfidenceNow(Wire):
    """Distribution of confidence at the end of each sample, now and in calibration."""

    edges: Annotated[
        tuple[float, ...],
        Field(
            description="Edges of the histogram bins. Each bin excludes its lower edge and "
            "includes its upper edge; the first bin includes 0.",
            examples=[EXIT_EDGES],
        ),
    ]
    now: Annotated[
        tuple[int, ...],
        Field(
            description="Number of samples in each bin since the service started.",
            examples=[[3, 1, 0]],
        ),
    ]
    comparable: Annotated[
        tuple[int, ...] | None,
        Field(
            description="Number of samples in each bin that were served under a certificate "
            "with report data; null if there are none.",
            examples=[[2, 1, 0]],
        ),
    ]
    calibration: Annotated[
        tuple[float, ...] | None,
        Field(
            description="Expected share of samples in each bin, from the calibration of the "
            "certificates that served the comparable samples; null if there are "
            "none.",
            examples=[[0.012, 0.004]],
        ),
    ]


class LevelNow(Wire):
    """A level of an active certificate, with its expected figures."""

    alpha: Alpha
    certified: IsCertified
    questions: Annotated[
        int,
        Field(
            description="Number of questions served at this level since the service started.",
            examples=[41],
        ),
    ]
    risk: RiskOnCalibration
    risk_upper: RiskUpper
    expected_tokens: ExpectedTokens
    full_budget_tokens: FullBudgetTokens
    share_answered: ShareAnswered
    share_abstained: Annotated[
        float | None,
        Field(
            description="Share of the calibration problems on which the service abstains.",
            examples=[0.07],
        ),
    ]


class CertificateNow(Wire):
    """An active certificate."""

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
            description="Whether `/certificates/{id}/report` has report data for this certificate.",
            examples=[True],
        ),
    ]
    levels: Annotated[
        list[LevelNow],
        Field(
            description="Levels of the certificate, by ascending alpha.",
            examples=[[_LEVEL_EXAMPLE]],
        ),
    ]


class JobNow(Wire):
    """A calibration job in brief; `/calibrations/{id}` has all of it."""

    id: JobId
    state: JobState
    done: JobDone
    total: JobTotal
    seconds_left: JobSecondsLeft
    created: JobCreated
    started: JobStarted
    finished: JobFinished
    certificate: JobCertificate
    error: JobError
    log: Annotated[
        list[LogLineBody],
        Field(description="The last lines of the job's log.", examples=[[LOG_EXAMPLE]]),
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
    """The service at this moment. Counts are those of `/metrics`, since the service started."""

    time: Annotated[
        str,
        Field(
            description="Time of this overview, as an ISO 8601 time in UTC.",
            examples=[LOG_EXAMPLE["time"]],
        ),
    ]
    uptime_s: Annotated[
        float, Field(description="Seconds since the service started.", examples=[812.4])
    ]
    version: Annotated[str, Field(description="Version of rlcm-serve.", examples=["0.1.0"])]
    model: Annotated[
        str, Field(description="Name of the model that is served.", examples=["embedded"])
    ]
    engine: Annotated[
        EngineNow,
        Field(description="State of the engine.", examples=[{"state": "ready", "ready": True}]),
    ]
    requests: Annotated[
        RequestsNow,
        Field(description="HTTP requests that are being served.", examples=[{"in_flight": 2}]),
    ]
    queue: Annotated[
        QueueNow,
        Field(
            description="Questions that are running or waiting.",
            examples=[{"running": 1, "waiting": 0}],
        ),
    ]
    questions: Annotated[
        QuestionsSoFar,
        Field(description="Number of questions by outcome.", examples=[{"answered": 120}]),
    ]
    tokens: Annotated[
        dict[str, int],
        Field(
            description="Number of tokens by kind, as in `usage` of `/solve`. `cached_prompt` "
            "tokens are included in `prompt`.",
            examples=[{"prompt": 4100, "reasoning": 18200}],
        ),
    ]
    saved: Annotated[
        SavedSoFar, Field(description="Tokens saved by early exits.", examples=[{"share": 0.69}])
    ]
    exits: ExitCounts
    confidence: Annotated[
        ConfidenceNow,
        Field(
            description="Distribution of confidence when samples ended.", examples=[{"now": [3, 1]}]
        ),
    ]
    certificates: Annotated[
        list[CertificateNow],
        Field(description="Certificates that are active.", examples=[[_CERTIFICATE_EXAMPLE]]),
    ]
    jobs: Annotated[
        list[JobNow],
        Field(
            description="The latest ten calibration jobs, newest first.", examples=[[_JOB_EXAMPLE]]
        ),
    ]
    jobs_error: Annotated[
        str | None,
        Field(
            description="Why the calibration jobs could not be read; null if they could.",
            examples=[None],
        ),
    ]
