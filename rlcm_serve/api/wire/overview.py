"""Wire types of `/overview`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from calibration.certificate.report_data import EXIT_EDGES
from rlcm_serve.api.wire import terms
from rlcm_serve.api.wire.base import Wire
from rlcm_serve.api.wire.calibrations import LogLineBody
from rlcm_serve.api.wire.certificates import KindBody

_JOB_EXAMPLE = {"id": "cal_5f3a9c21d07e", "state": "recording", "done": 320, "total": 1600}
_LEVEL_EXAMPLE = {"alpha": 0.1, "certified": True, "questions": 41, "expected_tokens": 133.2}
_CERTIFICATE_EXAMPLE = {"id": "571b667eda0c", "risk": "selective", "n": 1, "vote": "confidence"}

State = Literal["starting", "ready", "restarting", "failed", "stopping"]


class EngineNow(Wire):
    """State of the engine (vLLM under exit control)."""

    state: State = Field(examples=["ready"])
    """State of the service. `restarting`: the engine died or hung and is being started again.
    `failed`: it could not be started again; only a restart of the service helps.
    """
    detail: str = Field(examples=["ready"])
    """The state in words, for example the current stage of a start."""
    ready: bool = Field(examples=[True])
    """Whether questions can be answered now."""
    restarts: int = Field(examples=[0])
    """How often the engine was restarted since the service started."""
    requests: int | None = Field(examples=[3])
    """Number of requests that vLLM is working on now: samples that are thinking and forced answers;
    null if the figures are those of one key.
    """


class RequestsNow(Wire):
    """HTTP requests."""

    in_flight: int | None = Field(examples=[2])
    """Number of HTTP requests being served now, including this one; null if the figures are those
    of one key.
    """


class QueueNow(Wire):
    """Questions that are running or waiting."""

    running: int = Field(examples=[1])
    """Number of questions being answered now."""
    running_limit: int = Field(examples=[64])
    """Maximum number of questions answered at the same time (`max_running`)."""
    waiting: int = Field(examples=[0])
    """Number of questions that wait until they may start."""
    waiting_limit: int = Field(examples=[256])
    """Maximum number of questions that may wait (`max_waiting`)."""
    drain_per_second: float | None = Field(examples=[None])
    """Questions finished per second while the service was fully loaded; null if that has not
    happened yet, or if the figures are those of one key.
    """


class QuestionsSoFar(Wire):
    """Questions since the service started."""

    answered: int = Field(examples=[120])
    """Number of questions that got an answer."""
    abstained: int = Field(examples=[14])
    """Number of questions on which the service abstained."""
    failed: int = Field(examples=[3])
    """Number of questions that ended in an error."""
    guaranteed: int = Field(examples=[130])
    """Number of answers and abstentions that a guarantee covers."""
    unguaranteed: int = Field(examples=[4])
    """Number of answers and abstentions without a guarantee."""
    failures: dict[str, int] = Field(examples=[{"infeasible": 2}])
    """Number of questions that ended in an error, by kind of error."""


class SavedSoFar(Wire):
    """Tokens saved since the service started, on questions that a certificate covers."""

    full_budget_tokens: float = Field(examples=[60100.5])
    """Expected tokens of these questions without early exits, according to their certificates."""
    saved_tokens: float = Field(examples=[42000.1])
    """Tokens saved, added over the questions that cost less than expected without early exits."""
    over_tokens: float = Field(examples=[310.0])
    """Additional tokens, added over the questions that cost more than expected without early exits.
    """
    share: float | None = Field(examples=[0.694])
    """Net saving (saved minus additional tokens) as a share of the expected tokens without early
    exits; null before the first such question.
    """


class ConfidenceNow(Wire):
    """Distribution of confidence at the end of each sample, now and in calibration."""

    edges: tuple[float, ...] = Field(examples=[EXIT_EDGES])
    """Edges of the histogram bins. Each bin excludes its lower edge and includes its upper edge;
    the first bin includes 0.
    """
    now: tuple[int, ...] = Field(examples=[[3, 1, 0]])
    """Number of samples in each bin since the service started."""
    comparable: tuple[int, ...] | None = Field(examples=[[2, 1, 0]])
    """Number of samples in each bin that were served under a certificate with report data; null if
    there are none.
    """
    calibration: tuple[float, ...] | None = Field(examples=[[0.012, 0.004]])
    """Expected share of samples in each bin, from the calibration of the certificates that served
    the comparable samples; null if there are none.
    """


class LevelNow(Wire):
    """A level of an active certificate, with its expected figures."""

    alpha: terms.Alpha
    certified: terms.IsCertified
    questions: int = Field(examples=[41])
    """Number of questions served at this level since the service started."""
    risk: terms.RiskOnCalibration
    risk_upper: terms.RiskUpper
    expected_tokens: terms.ExpectedTokens
    full_budget_tokens: terms.FullBudgetTokens
    share_answered: terms.ShareAnswered
    share_abstained: float | None = Field(examples=[0.07])
    """Share of the calibration problems on which the service abstains."""


class CertificateNow(Wire):
    """An active certificate."""

    id: terms.CertificateId
    risk: terms.BoundedRisk
    promise: terms.PromiseKind
    delta: terms.Delta
    n: terms.Samples
    vote: terms.Vote
    max_tokens: terms.ThinkingBudget
    profiles: terms.ServedProfiles
    kind: KindBody | None = Field(default=None, examples=[None])
    """Kind of question that the certificate is for; null if it does not distinguish kinds."""
    withdrawn: terms.GuaranteeWithdrawn
    verified: terms.VerifiedBy
    caveats: list[str] = Field(
        examples=[
            ["vllm is 0.32, the certified value is 0.31: its answers are the same up to rounding"]
        ]
    )
    """How the engine departs from the one that the certificate was fitted on; empty if it does
    not. Each says whether the answers still have the guarantee."""
    has_report: bool = Field(examples=[True])
    """Whether `/certificates/{id}/report` has report data for this certificate."""
    levels: list[LevelNow] = Field(examples=[[_LEVEL_EXAMPLE]])
    """Levels of the certificate, by ascending alpha."""


class JobNow(Wire):
    """A calibration job in brief; `/calibrations/{id}` has all of it."""

    id: terms.JobId
    state: terms.JobState
    done: terms.JobDone
    total: terms.JobTotal
    seconds_left: terms.JobSecondsLeft
    created: terms.JobCreated
    started: terms.JobStarted
    finished: terms.JobFinished
    certificate: terms.JobCertificate
    error: terms.JobError
    log: list[LogLineBody] = Field(examples=[[LogLineBody.example()]])
    """The last lines of the job's log."""


class OverviewBody(Wire):
    """The service at this moment. Counts are those of `/metrics`, since the service started. A key
    without the scopes `metrics` and `admin` gets the counts of its own questions, and its own jobs.
    """

    time: str = Field(examples=["2026-01-12T09:31:40.120+00:00"])
    """Time of this overview, as an ISO 8601 time in UTC."""
    uptime_s: float = Field(examples=[812.4])
    """Seconds since the service started."""
    process: str = Field(examples=["9f2c01ab"])
    """Process that answered. Several may share one address and one database; certificates and jobs
    are those of all, other figures its own.
    """
    version: str = Field(examples=["0.1.0"])
    """Version of rlcm-serve."""
    model: str = Field(examples=["embedded"])
    """Name of the model that is served."""
    figures: Literal["service", "key"] = Field(examples=["service"])
    """Whose questions the figures count: those of all callers, or of the key that asks."""
    may_administer: bool = Field(examples=[True])
    """Whether the caller may start calibration jobs and change certificates: the key has the scope
    `admin`, or the service needs no key.
    """
    engine: EngineNow = Field(examples=[{"state": "ready", "ready": True}])
    """State of the engine."""
    requests: RequestsNow = Field(examples=[{"in_flight": 2}])
    """HTTP requests that are being served."""
    queue: QueueNow = Field(examples=[{"running": 1, "waiting": 0}])
    """Questions that are running or waiting."""
    questions: QuestionsSoFar = Field(examples=[{"answered": 120}])
    """Number of questions by outcome."""
    tokens: dict[str, int] = Field(examples=[{"prompt": 4100, "reasoning": 18200}])
    """Number of tokens by kind, as in `usage` of `/solve`. `cached_prompt` tokens are included in
    `prompt`.
    """
    saved: SavedSoFar = Field(examples=[{"share": 0.69}])
    """Tokens saved by early exits."""
    exits: terms.ExitCounts
    confidence: ConfidenceNow = Field(examples=[{"now": [3, 1]}])
    """Distribution of confidence when samples ended."""
    certificates: list[CertificateNow] = Field(examples=[[_CERTIFICATE_EXAMPLE]])
    """Certificates that are active."""
    unsigned: list[str] = Field(examples=[[]])
    """Ids of certificates that are not served, because the service demands a signature of a trusted
    key and they have none.
    """
    jobs: list[JobNow] = Field(examples=[[_JOB_EXAMPLE]])
    """The latest ten calibration jobs, newest first."""
    jobs_error: str | None = Field(examples=[None])
    """Why the calibration jobs could not be read; null if they could."""
