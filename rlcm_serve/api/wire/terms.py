"""Descriptions of fields that several wire types share, each written once.

A text that is the description of an `Annotated` type here belongs to every field of that type.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

RISK_TEXT = (
    "What alpha limits. `selective`: the share of wrong answers among the questions that are "
    "answered. `error`: the share of wrong answers among all questions. `regret`: the share of all "
    "questions that only the full thinking budget answers right."
)
PROMISE_TEXT = (
    "`simultaneous`: the guarantee holds for all levels at once, so alpha may be chosen freely. "
    "`pointwise`: it holds for one level that was chosen in advance."
)
DELTA_TEXT = "Probability that the guarantee fails, over the draw of the calibration problems."
SAMPLES_TEXT = "Number of samples that are generated for each question."
VOTE_TEXT = (
    "How samples are merged into one answer: by `majority`, or weighted by `confidence` "
    "(RLCM §5.2). It has no effect on a single sample."
)
METHOD_TEXT = "How exit policies are chosen and tested, as in `rlcm fit --method`."
ISO_TEXT = "as an ISO 8601 time in UTC."

RiskChoice = Literal["selective", "error", "regret"]
VoteChoice = Literal["confidence", "majority"]
ExitName = Literal["high", "low", "natural", "budget", "cancelled"]
Scalars = dict[str, bool | int | float]

CertificateId = Annotated[
    str,
    Field(
        description="Id of the certificate: the first 12 characters of its SHA-256 digest.",
        examples=["81d2b7f98fe8"],
    ),
]
BoundedRisk = Annotated[str, Field(description=RISK_TEXT, examples=["selective"])]
PromiseKind = Annotated[str, Field(description=PROMISE_TEXT, examples=["simultaneous"])]
Delta = Annotated[float, Field(description=DELTA_TEXT, examples=[0.1])]
Samples = Annotated[int, Field(description=SAMPLES_TEXT, examples=[1])]
Vote = Annotated[str, Field(description=VOTE_TEXT, examples=["confidence"])]
ThinkingBudget = Annotated[
    int | None,
    Field(description="Thinking budget of one sample, in tokens; null if unknown.", examples=[960]),
]
Alpha = Annotated[float, Field(description="The risk level, between 0 and 1.", examples=[0.1])]
IsCertified = Annotated[
    bool, Field(description="Whether a policy is certified at this level.", examples=[True])
]
PolicyScalars = Annotated[
    Scalars | None,
    Field(
        description="The exit policy that answers questions at this level: `lambda_low` is λ1 and "
        "`lambda_high` is λ2. Null if no policy is certified.",
        examples=[{"lambda_low": 0.4, "patience": 64, "lambda_high": 0.975}],
    ),
]
WhyUncertified = Annotated[
    str | None,
    Field(
        description="Why no policy is certified at this level, and what would help. Null if one "
        "is.",
        examples=["too few problems: ...; record more problems"],
    ),
]
PValue = Annotated[
    float,
    Field(
        description="p-value of the hypothesis that the policy's risk exceeds alpha.",
        examples=[0.0021],
    ),
]
RiskOnCalibration = Annotated[
    float | None,
    Field(
        description="Risk of the policy on the calibration problems. It tends to be optimistic, "
        "because the same problems selected the policy.",
        examples=[0.071],
    ),
]
RiskUpper = Annotated[
    float | None,
    Field(
        description="Upper confidence bound of the policy's risk. The bounds of all tested "
        "policies hold at once with probability 1 - delta.",
        examples=[0.112],
    ),
]
ShareAnswered = Annotated[
    float | None,
    Field(description="Share of the calibration problems that are answered.", examples=[0.93]),
]
ShareRight = Annotated[
    float | None,
    Field(
        description="Share of the calibration problems that are answered correctly.",
        examples=[0.86],
    ),
]
ExpectedTokens = Annotated[
    float | None,
    Field(
        description="Mean number of generated tokens per calibration problem, over all samples.",
        examples=[133.2],
    ),
]
FullBudgetTokens = Annotated[
    float | None,
    Field(
        description="Mean number of generated tokens per calibration problem without early exits, "
        "over all samples.",
        examples=[381.5],
    ),
]
IsActive = Annotated[
    bool,
    Field(
        description="Whether the certificate is active: the service answers under it.",
        examples=[True],
    ),
]
Fits = Annotated[
    bool | None,
    Field(
        description="Whether the certificate was fitted on the engine that is running; null while "
        "the engine starts.",
        examples=[True],
    ),
]
Misfit = Annotated[
    str | None,
    Field(
        description="How the running engine differs from the one the certificate was fitted on; "
        "null if it does not.",
        examples=[None],
    ),
]
MethodInWords = Annotated[
    str,
    Field(
        description="The statistical tests and the source of the tested policies, in words.",
        examples=["Learn-then-Test: ..."],
    ),
]
CreatedOn = Annotated[
    str | None,
    Field(description="Date of the fit; null if it was not recorded.", examples=["2026-01-12"]),
]
SmallestAlpha = Annotated[
    float,
    Field(
        description="Estimate of the smallest alpha that a new fit could certify. It is not part "
        "of the guarantee.",
        examples=[0.043],
    ),
]
Covers = Annotated[
    str, Field(description="What the guarantee covers.", examples=["the policy of each level"])
]
DoesNotCover = Annotated[
    list[str],
    Field(
        description="What the guarantee does not cover.", examples=[["other problem distributions"]]
    ),
]
FINGERPRINT_EXAMPLE = {"model": "9f0c5b", "probe": "1b7a2e", "temperature": 0.8, "top_p": 1.0}
FingerprintOf = Annotated[
    dict[str, Any] | None,
    Field(
        description="Fingerprint of what was calibrated: model, probe, tokenizer, sampling, "
        "budgets, grader. The guarantee does not hold for any other engine.",
        examples=[FINGERPRINT_EXAMPLE],
    ),
]
ExitCounts = Annotated[
    dict[str, int],
    Field(
        description="Number of samples by the reason why their thinking ended.",
        examples=[{"high": 1500, "low": 0}],
    ),
]
CalibrationProblems = Annotated[
    int,
    Field(description="Number of calibration problems that the tests used.", examples=[1600]),
]
ThinkingText = Annotated[
    str | None,
    Field(
        description="The model's thinking, of the sample that gave the answer. Null if several "
        "samples were generated and none of them is the answer.",
        examples=["A up 5: 8. B down 3: unrelated. ..."],
    ),
]
STREAM_FLAG = "Send the response as server-sent events."
TRACE_FLAG = "Also return what each sample thought and every confidence reading."
JobState = Annotated[
    Literal["queued", "recording", "fitting", "done", "failed", "cancelled"],
    Field(
        description="State of the job. `done`, `failed` and `cancelled` are final. A job that is "
        "`done` may have certified no level: see `verdicts` at `/calibrations/{id}`.",
        examples=["recording"],
    ),
]
JobId = Annotated[str, Field(description="Id of the job.", examples=["cal_5f3a9c21d07e"])]
JobDone = Annotated[int, Field(description="Number of rollouts recorded so far.", examples=[320])]
JobTotal = Annotated[
    int, Field(description="Number of rollouts that the job records.", examples=[1600])
]
JobSecondsLeft = Annotated[
    float | None,
    Field(
        description="Estimated seconds until all rollouts are recorded, at the rate of the last "
        "minutes; null if unknown.",
        examples=[412.0],
    ),
]
JobCreated = Annotated[
    str,
    Field(
        description=f"When the job was submitted, {ISO_TEXT}",
        examples=["2026-01-12T09:30:00.000+00:00"],
    ),
]
JobStarted = Annotated[
    str | None,
    Field(
        description=f"When the job started to run, {ISO_TEXT} Null while it waits.",
        examples=["2026-01-12T09:30:01.300+00:00"],
    ),
]
JobFinished = Annotated[
    str | None,
    Field(description=f"When the job ended, {ISO_TEXT} Null until then.", examples=[None]),
]
JobCertificate = Annotated[
    str | None,
    Field(
        description="Id of the certificate that the job fitted, see `/certificates`; null if "
        "there is none yet.",
        examples=["81d2b7f98fe8"],
    ),
]
JobError = Annotated[
    str | None, Field(description="Why the job failed; null if it did not.", examples=[None])
]
