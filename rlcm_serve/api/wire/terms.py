"""Descriptions of fields that several wire types share, each written once.

A text that is the description of an `Annotated` type here belongs to every field of that type.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from rlcm_serve.api.wire.base import described

RISK_TEXT = (
    "What alpha limits. `selective`: the share of wrong answers among the questions that are "
    "answered. `error`: the share of wrong answers among all questions. `regret`: the share of all "
    "questions that only the full thinking budget answers right."
)
PROMISE_TEXT = (
    "`simultaneous`: the guarantee holds for all levels at once, so alpha may be chosen after "
    "seeing them and the answers to other questions. "
    "`pointwise`: it holds for one level that was chosen in advance."
)
DELTA_TEXT = (
    "Largest probability that the guarantee fails, over the draw of the calibration problems."
)
SAMPLES_TEXT = "Number of samples that are generated for each question."
VOTE_TEXT = (
    "How samples are merged into one answer: by `majority`, or weighted by `confidence` "
    "(RLCM §5.2). It has no effect on a single sample."
)
METHOD_TEXT = "How exit policies are chosen and tested, as in `rlcm fit --method`."
SEQUENTIAL_TEXT = (
    "Make a certificate to which problems may be added later with `extend`, until a level is "
    "certified. Its guarantee holds at all times together. Every problem needs a label. For labels "
    "of a share of the problems, start with `rlcm plan --design FILE --label-share S` instead."
)
EXTEND_TEXT = (
    "Id of a job that is done and made a sequential certificate: the posted problems are added to "
    "it. They must be new, in complete groups, and drawn from the same population without looking "
    "at their answers. All settings but `activate` are those of that job."
)
REPLACE_TEXT = (
    "Id of a certificate whose guarantee was withdrawn after a risk alarm: the job fits a new one "
    "with its settings, at the delta that is left for the next time, and activates it. The posted "
    "problems must be drawn after the alarm. Without a body, the job takes the audited questions "
    "since then whose reference answer came with the feedback."
)
BY_TEXT = (
    "`kind`: make a certificate for each kind of question with enough labels, and one for all "
    "kinds together, which all hold at once with probability 1 - delta. The kind of a problem is "
    "its field `kind`. Left out: one certificate."
)
BOUNDS_TEXT = (
    "Other risks to bound at once with the levels, as shares of all questions: `declined`, `wrong` "
    "or `lost` (a right answer of the full budget). With a limit, as in `declined=0.4`, no policy "
    "is served that is not shown to keep it. Repeat the parameter for several."
)
ANSWERED_TEXT = (
    "Smallest share of the questions that every policy served must answer: the same as the bound "
    "`declined=1-X`."
)
NEXT_TEXT = (
    "Number of next questions for which the certificate says how many go wrong at most, at once "
    "with the levels."
)
AVERAGE_TEXT = (
    "What the risk averages over: `problems` (a group counts by its size) or `groups` (each counts "
    "once)."
)
MAX_GROUP_SIZE_TEXT = (
    "Largest number of problems that a group can have, decided before labels are seen. Required if "
    "groups differ in size and `average` is `problems`."
)
CERTIFICATE_TEXT = "Id of the certificate: the first 12 characters of its SHA-256 digest."
ISO_TEXT = "as an ISO 8601 time in UTC."

ExitName = Literal["high", "low", "natural", "budget", "cancelled"]
Scalars = dict[str, bool | int | float]

CertificateId = Annotated[str, described(CERTIFICATE_TEXT, "571b667eda0c")]
AveragedOver = Annotated[str, described(AVERAGE_TEXT, "problems")]
BoundedRisk = Annotated[str, described(RISK_TEXT, "selective")]
PromiseKind = Annotated[str, described(PROMISE_TEXT, "simultaneous")]
AskedRisk = Annotated[Literal["selective", "error", "regret"], described(RISK_TEXT, "selective")]
AskedVote = Annotated[Literal["confidence", "majority"], described(VOTE_TEXT, "confidence")]
Delta = Annotated[float, described(DELTA_TEXT, 0.1)]
Samples = Annotated[int, described(SAMPLES_TEXT, 1)]
Vote = Annotated[str, described(VOTE_TEXT, "confidence")]
ServedProfiles = Annotated[
    list[str], described("Served profiles that the certificate is for.", ["default"])
]
ThinkingBudget = Annotated[
    int | None, described("Thinking budget of one sample, in tokens; null if unknown.", 960)
]
Alpha = Annotated[float, described("The risk level, between 0 and 1.", 0.1)]
IsCertified = Annotated[bool, described("Whether a policy is certified at this level.", True)]
PolicyScalars = Annotated[
    Scalars | None,
    described(
        "The exit policy that answers questions at this level: `lambda_low` is λ1 and "
        "`lambda_high` is λ2. Null if no policy is certified.",
        {"lambda_low": 0.4, "patience": 64, "lambda_high": 0.975},
    ),
]
WhyUncertified = Annotated[
    str | None,
    described(
        "Why no policy is certified at this level, and what would help. Null if one is.",
        "too few problems: ...; record more problems",
    ),
]
PValue = Annotated[
    float, described("p-value of the hypothesis that the policy's risk exceeds alpha.", 0.0021)
]
RiskOnCalibration = Annotated[
    float | None,
    described(
        "Risk of the policy on the calibration problems. It tends to be optimistic, "
        "because the same problems selected the policy.",
        0.071,
    ),
]
RiskUpper = Annotated[
    float | None,
    described(
        "Upper confidence bound of the policy's risk. The bounds of all tested "
        "policies hold at once with probability 1 - delta.",
        0.112,
    ),
]
ShareAnswered = Annotated[
    float | None, described("Share of the calibration problems that are answered.", 0.93)
]
ExpectedTokens = Annotated[
    float | None,
    described("Mean number of generated tokens per calibration problem, over all samples.", 133.2),
]
FullBudgetTokens = Annotated[
    float | None,
    described(
        "Mean number of generated tokens per calibration problem without early exits, "
        "over all samples.",
        381.5,
    ),
]
IsActive = Annotated[
    bool, described("Whether the certificate is active: the service answers under it.", True)
]
Fits = Annotated[
    bool | None,
    described(
        "Whether the certificate was fitted on the engine that is running; null while "
        "the engine starts.",
        True,
    ),
]
Misfit = Annotated[
    str | None,
    described(
        "How the running engine differs from the one the certificate was fitted on; "
        "null if it does not.",
        None,
    ),
]
GuaranteeWithdrawn = Annotated[
    str | None,
    described(
        "Why answers no longer have the guarantee of this certificate after an alarm, and how they "
        "are given; null if they have it.",
        None,
    ),
]
GuaranteeVoided = Annotated[
    str | None,
    described(
        "Why no answer of the running engine has the guarantee of this certificate, although the "
        "certificate fits: the engine computes other numbers than the certified one. Null if "
        "answers may have it.",
        None,
    ),
]
MethodInWords = Annotated[
    str,
    described(
        "The statistical tests and the source of the tested policies, in words.",
        "Learn-then-Test: ...",
    ),
]
VerifiedBy = Annotated[
    Literal["traces", "signature", "none"],
    described(
        "How this service verified the figures of the certificate. `traces`: they follow from "
        "traces that the service recorded itself or got with the certificate. `signature`: a key "
        "that the operator trusts signed the certificate; the service has not seen the traces. "
        "`none`: the figures do not contradict each other, and nothing more is known.",
        "traces",
    ),
]
CreatedOn = Annotated[
    str | None, described("Date of the fit; null if it was not recorded.", "2026-01-12")
]
SmallestAlpha = Annotated[
    float,
    described(
        "Estimate of the smallest alpha that a fit on as many new problems could certify. It is "
        "not part of the guarantee.",
        0.043,
    ),
]
Covers = Annotated[str, described("What the guarantee covers.", "the policy of each level")]
DoesNotCover = Annotated[
    tuple[str, ...],
    described("What the guarantee does not cover.", ["other problem distributions"]),
]
FINGERPRINT_EXAMPLE = {"model": "9f0c5b", "probe": "1b7a2e", "temperature": 0.8, "top_p": 1.0}
FingerprintOf = Annotated[
    dict[str, Any] | None,
    described(
        "Fingerprint of what was calibrated: model, probe, tokenizer, sampling, "
        "budgets, grader. The guarantee does not hold for any other engine.",
        FINGERPRINT_EXAMPLE,
    ),
]
ExitCounts = Annotated[
    dict[str, int],
    described(
        "Number of samples by the reason why their thinking ended.", {"high": 1500, "low": 0}
    ),
]
CalibrationProblems = Annotated[
    int, described("Number of calibration problems that the tests used.", 1600)
]
STREAM_FLAG = "Send the response as server-sent events."
JobState = Annotated[
    Literal["queued", "recording", "fitting", "done", "failed", "cancelled"],
    described(
        "State of the job. `done`, `failed` and `cancelled` are final. A job that is "
        "`done` may have certified no level: see `verdicts` at `/calibrations/{id}`.",
        "recording",
    ),
]
JobId = Annotated[str, described("Id of the job.", "cal_5f3a9c21d07e")]
JobDone = Annotated[int, described("Number of rollouts recorded so far.", 320)]
JobTotal = Annotated[int, described("Number of rollouts that the job records.", 1600)]
JobSecondsLeft = Annotated[
    float | None,
    described(
        "Estimated seconds until all rollouts are recorded, at the rate of the last "
        "minutes; null if unknown.",
        412.0,
    ),
]
JobCreated = Annotated[
    str, described(f"When the job was submitted, {ISO_TEXT}", "2026-01-12T09:30:00.000+00:00")
]
JobStarted = Annotated[
    str | None,
    described(
        f"When the job started to run, {ISO_TEXT} Null while it waits.",
        "2026-01-12T09:30:01.300+00:00",
    ),
]
JobFinished = Annotated[
    str | None, described(f"When the job ended, {ISO_TEXT} Null until then.", None)
]
JobCertificate = Annotated[
    str | None,
    described(
        "Id of the certificate that the job fitted, see `/certificates`; null if "
        "there is none yet.",
        "571b667eda0c",
    ),
]
JobError = Annotated[
    str | None, described("Why the job failed, or what it waits for now; null if neither.", None)
]
AnswerId = Annotated[
    str,
    described(
        "Id of the answer. `/answers/{id}` returns its record, if the service keeps records.",
        "chatcmpl-019aae2fb9c09f86d081884c7d659a2f",
    ),
]
