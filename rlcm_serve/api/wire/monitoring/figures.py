"""Wire types of `/monitoring`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from rlcm_serve.api.wire import terms
from rlcm_serve.api.wire.base import Wire
from rlcm_serve.api.wire.monitoring.shadows import ShadowNow
from rlcm_serve.settings.actions import ActionName

_TIME = "2026-01-12T09:31:40.120+00:00"


class LabelCounts(Wire):
    """Answers given at a level since its first one, by what is known of them."""

    audited: int = Field(examples=[240])
    """Number of answers that were drawn for audit."""
    waiting: int = Field(examples=[12])
    """Number of audited answers that wait for a label. Under `regret` it includes abstentions where
    the full budget gave an answer, which the other numbers leave out.
    """
    expired: int = Field(examples=[3])
    """Number of audited answers whose label was not in by its deadline. The test counts them as
    right.
    """
    right: int = Field(examples=[210])
    """Number of audited answers with the label right, as last corrected."""
    wrong: int = Field(examples=[15])
    """Number of audited answers with the label wrong, as last corrected."""
    others_right: int = Field(examples=[40])
    """Number of answers with a label right that does not enter the test: they were not drawn for
    audit, or the key that labelled them is not trusted (setting `tested_labels`).
    """
    others_wrong: int = Field(examples=[9])
    """Number of answers with such a label that says wrong."""


class LabelTest(Wire):
    """The test of a level's promise on audited answers, in answer order, valid at all times."""

    labels: int = Field(examples=[225])
    """Number of labels that entered the test."""
    answers: int = Field(examples=[4700])
    """Number of answers that the test has passed, audited or not."""
    behind: int = Field(examples=[130])
    """Number of answers that it has not reached, because an earlier one waits for its label."""
    risk: float | None = Field(examples=[0.068])
    """Estimated mean risk of the answers so far that could be drawn for audit; a missing label
    counts as half a loss. Null before the first label.
    """
    low: float = Field(examples=[0.031])
    """Lower end of the confidence sequence of the mean risk so far. It holds however often you
    look.
    """
    high: float = Field(examples=[0.119])
    """Upper end of the confidence sequence."""
    log_wealth: float = Field(examples=[-0.8])
    """Natural logarithm of the evidence against the promise. The alarm is raised at `threshold`."""
    threshold: float = Field(examples=[4.38])
    """Logarithm of one over the level's share of delta."""
    alarmed: bool = Field(examples=[False])
    """Whether the test rejected the promise. Once true, it stays true."""
    alarmed_at: str | None = Field(examples=[None])
    """When it did, as an ISO 8601 time in UTC; null if it did not."""


class DriftNow(Wire):
    """One statistic of the first asks at a level, compared with calibration."""

    statistic: Literal["familiarity", "confidence", "tokens", "declined"] = Field(
        examples=["confidence"]
    )
    """What is compared."""
    calibration: float | None = Field(examples=[0.91])
    """Its mean in calibration; null if it is not known."""
    now: float | None = Field(examples=[0.84])
    """Its mean over the window; null before the first question."""
    rank: float = Field(examples=[0.47])
    """Mean rank of the window's values, each among those of calibration and all earlier live ones,
    from 0 to 1. About 0.5 without drift, and again long after a lasting change: then read `alarmed`
    and `log_wealth`.
    """
    low: float = Field(examples=[0.44])
    """Lower edge of the noise band of `rank`."""
    high: float = Field(examples=[0.56])
    """Upper edge of the noise band of `rank`."""
    window: int = Field(examples=[200])
    """Number of questions in the window."""
    average_run_length: float | None = Field(examples=[10000.0])
    """Number of questions between two false crossings of the band, on average; null if unknown."""
    log_wealth: float | None = Field(examples=[0.4])
    """Natural logarithm of the evidence of drift; null if it is not known."""
    alarmed: bool = Field(examples=[False])
    """Whether the test of this statistic found drift. Once true, it stays true."""


class HistoryPoint(Wire):
    """A level as it was at one time."""

    time: str = Field(examples=[_TIME])
    """When, as an ISO 8601 time in UTC."""
    answers: int = Field(examples=[4700])
    """Number of questions so far, abstentions included."""
    labels: int = Field(examples=[225])
    """Number of labels in the test so far."""
    risk: float | None = Field(examples=[0.068])
    """As in the test."""
    low: float | None = Field(examples=[0.031])
    """As in the test; null if the level has no test."""
    high: float | None = Field(examples=[0.119])
    """As in the test; null if the level has no test."""
    log_wealth: float | None = Field(examples=[-0.8])
    """As in the test; null if the level has no test."""
    share_declined: float | None = Field(examples=[0.07])
    """Share of abstentions among the questions so far; null before the first."""


class MonitoredLevel(Wire):
    """A certified level, live."""

    alpha: terms.Alpha
    delta: float = Field(examples=[0.0125])
    """Share of the certificate's delta with which its test may alarm falsely, ever."""
    risk: terms.RiskOnCalibration
    risk_upper: terms.RiskUpper
    questions: int = Field(examples=[5000])
    """Number of questions under a guarantee at this level, in all processes and since the
    certificate was first active here.
    """
    answered: int = Field(examples=[4700])
    """Number of them that were answered."""
    share_declined: float | None = Field(examples=[0.06])
    """Share of them on which the service abstained; null before the first."""
    share_declined_expected: float | None = Field(examples=[0.07])
    """Share of the calibration problems on which the policy abstains."""
    labels: LabelCounts = Field(examples=[LabelCounts.example()])
    """The labels of its answers, counted."""
    test: LabelTest | None = Field(examples=[LabelTest.example()])
    """The test of the promise; null for losses of your own, or `regret` without shadow runs."""
    shadow: ShadowNow | None = Field(default=None, examples=[ShadowNow.example()])
    """Its shadow runs; null if there were none (the setting `shadow_share`)."""
    drift: list[DriftNow] = Field(examples=[[DriftNow.example()]])
    """One entry for each statistic that is compared; needs no labels."""
    drift_alarmed_at: str | None = Field(examples=[None])
    """When the first statistic moved, as an ISO 8601 time in UTC; null if none did."""
    history: list[HistoryPoint] = Field(examples=[[HistoryPoint.example()]])
    """The level over time, the oldest first: about 300 points, evenly spaced over all the days for
    which answers are kept.
    """


class MonitoredCertificate(Wire):
    """A certificate whose promise is watched."""

    id: terms.CertificateId
    risk: terms.BoundedRisk
    delta: terms.Delta
    active: bool = Field(examples=[True])
    """Whether the service answers under it now."""
    guarantee: Literal["given", "withdrawn", "restored", "void"] = Field(examples=["given"])
    """`given`: its answers have the guarantee. `withdrawn`: they have none since an alarm, and run
    at the full budget or, if so configured, with the policy of a smaller level. `restored`: its
    policies serve again, without a guarantee. `void`: it is active, but the engine that answers
    here computes other numbers than the one it was fitted on, so answers have none.
    """
    why: str | None = Field(examples=[None])
    """Why the guarantee is not given; null if it is."""
    since: str | None = Field(examples=[None])
    """Since when, as an ISO 8601 time in UTC; null if it is given."""
    runbook: str | None = Field(default=None, examples=[None])
    """URL of what to do about it; null if the guarantee is given, and without the setting
    `runbook_url`.
    """
    levels: list[MonitoredLevel] = Field(examples=[[{"alpha": 0.1, "questions": 5000}]])
    """Its certified levels, by ascending alpha."""


class MonitoringEventBody(Wire):
    """Something that the monitors found, or that was done about it."""

    number: int = Field(examples=[1])
    """Number of the event; later ones are larger."""
    time: str = Field(examples=[_TIME])
    """When, as an ISO 8601 time in UTC."""
    certificate: str = Field(examples=["571b667eda0c"])
    """Id of the certificate."""
    alpha: float | None = Field(examples=[0.1])
    """The level; null if the event is about all levels."""
    what: Literal["risk_alarm", "drift_alarm", "withdrawn", "restored"] = Field(
        examples=["risk_alarm"]
    )
    """`risk_alarm`: audited labels show a risk above alpha. `drift_alarm`: questions or readings
    changed. `withdrawn`: the guarantee was withdrawn. `restored`: an `admin` key put the
    certificate's policies back.
    """
    text: str = Field(examples=["risk alarm at alpha 0.1: 31 of 120 labels are wrong"])
    """What happened, in words."""
    statistics: list[str] = Field(examples=[[]])
    """Of a drift alarm: what moved."""
    action: ActionName = Field(examples=["withdraw"])
    """What was done about it."""
    runbook: str | None = Field(
        examples=["https://docs.example.com/guides/runbooks.html#rlcmriskalarm"]
    )
    """URL of what to do about it; null without the setting `runbook_url`."""
    hook: Literal["none", "waiting", "delivered", "failed"] = Field(examples=["delivered"])
    """Whether the webhook has received the event; `none` without a webhook."""


class AuditNow(Wire):
    """How answers are drawn for audit."""

    share: float = Field(examples=[0.05])
    """Share of the answers that is drawn, unless the key or the kind has its own."""
    deadline_s: float = Field(examples=[604800.0])
    """Seconds from an answer until its label must be in."""
    waiting: int = Field(examples=[12])
    """Number of answers that wait for a label."""
    oldest: str | None = Field(examples=[_TIME])
    """When the oldest of them was given, as an ISO 8601 time in UTC; null if none waits."""


class MonitoringBody(Wire):
    """The promise of every certificate that gave a guarantee here, held against what happened."""

    time: str = Field(examples=[_TIME])
    """Time of these figures, as an ISO 8601 time in UTC."""
    enabled: bool = Field(examples=[True])
    """Whether answers are stored and tested (the setting `monitor`)."""
    behind_s: float | None = Field(examples=[0.4])
    """Seconds since the tests last looked for new answers; null if they never did."""
    audit: AuditNow = Field(examples=[AuditNow.example()])
    """How answers are drawn for audit."""
    certificates_known: bool = Field(examples=[True])
    """Whether this process knows which certificates are active: not before its engine has started
    once.
    """
    certificates: list[MonitoredCertificate] = Field(examples=[[MonitoredCertificate.example()]])
    """The active ones first."""
    events: list[MonitoringEventBody] = Field(examples=[[MonitoringEventBody.example()]])
    """The latest hundred events, the newest first."""
