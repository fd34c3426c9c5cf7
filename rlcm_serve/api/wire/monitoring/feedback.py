"""Wire types of `/feedback` and `/audit`."""

from __future__ import annotations

from pydantic import Field

from rlcm_serve.api.wire.base import Wire

_ID = "chatcmpl-019aae2fb9c09f86d081884c7d659a2f"
_TIME = "2026-01-12T09:31:40.120+00:00"
_STORABLE = r"^[^\x00]*$"
"""Texts without U+0000, which databases refuse."""
MOST_ITEMS = 2000
"""Labels of one request."""


class FeedbackItem(Wire):
    """A label: the verdict on one answer, the reference to compare it with, or `skip`. Give one."""

    id: str = Field(min_length=1, max_length=200, pattern=_STORABLE, examples=[_ID])
    """Id of the answer, as the service gave it."""
    right: bool | None = Field(default=None, examples=[True])
    """Whether the answer is right."""
    reference: str | None = Field(default=None, max_length=100_000, examples=["8"])
    """The reference answer. The service grades its answer as in calibration. If it abstained, the
    reference is kept for the next certificate.
    """
    answer: str | None = Field(default=None, max_length=100_000, examples=[None])
    """The answer that the service gave. Needed with `reference` where the service keeps no texts;
    it must be exactly the answer given.
    """
    full_budget_right: bool | None = Field(default=None, examples=[None])
    """Whether the full budget's answer is right, where a shadow run gave another one. Only the risk
    `regret` needs it; a reference says it too, where the service keeps texts. Where it keeps none
    and no answer could be read, this alone is the label.
    """

    skip: bool = Field(default=False, examples=[False])
    """Whether the wait for a label of this answer ends now, because nobody can judge it. It counts
    as if its deadline had passed: as right in the test, and as anything in the confidence sequence.
    Needs a key whose labels enter the test.
    """


class FeedbackRequest(Wire):
    """Labels, in order: of two for one answer, the last is shown."""

    answers: list[FeedbackItem] = Field(
        min_length=1, max_length=MOST_ITEMS, examples=[[FeedbackItem.example(reference=None)]]
    )
    """One entry for each label."""


class RefusedLabel(Wire):
    """A label that was not taken."""

    id: str = Field(examples=[_ID])
    """Id of the answer."""
    why: str = Field(examples=["the service abstained, so no answer can be right or wrong"])
    """Why the label was not taken, and what to do."""


class FeedbackResponse(Wire):
    """What became of the labels. Those that were taken are stored."""

    labelled: int = Field(examples=[1])
    """Number of answers that had no label before, from a key that is trusted as much."""
    corrected: int = Field(examples=[0])
    """Number of labels that changed an earlier one. The earlier one is kept, and no longer shown.
    """
    unchanged: int = Field(examples=[0])
    """Number of labels that said what was known already."""
    audited: int = Field(examples=[1])
    """Number of answers among `labelled` whose label enters the test: the answer was drawn for
    audit, the label is in time, and the key's labels are trusted (setting `tested_labels`). A
    question that was asked before under the same certificate counts here, and enters no test.
    """
    skipped: int = Field(examples=[0])
    """Number of answers that waited for a label, and wait no longer because of `skip`."""
    unknown: list[str] = Field(examples=[[]])
    """Ids that are not of an answer that this key may label."""
    refused: list[RefusedLabel] = Field(examples=[[]])
    """Labels that were not taken, each with the reason."""


class AuditItem(Wire):
    """An answer that was drawn for audit and waits for its label."""

    id: str = Field(examples=[_ID])
    """Id of the answer."""
    time: str = Field(examples=[_TIME])
    """When the answer was given, as an ISO 8601 time in UTC."""
    due: str = Field(examples=["2026-01-19T09:31:40.120+00:00"])
    """When a label must be in to count in the test, as an ISO 8601 time in UTC."""
    key: str | None = Field(examples=["9f2c01ab"])
    """Id of the API key that asked; null where no key is needed."""
    kind: str | None = Field(examples=[None])
    """Kind of the question; null if it named none."""
    profile: str = Field(examples=["default"])
    """Prompt profile under which the question was answered."""
    certificate: str | None = Field(examples=["571b667eda0c"])
    """Id of the certificate that covered the answer; null without a guarantee."""
    alpha: float | None = Field(examples=[0.1])
    """Certified level that the question was served at; null without a guarantee."""
    abstained: bool = Field(examples=[False])
    """Whether the service abstained. Then there is no answer to judge: send the reference alone.
    Under `regret`, where the service keeps no texts, send `full_budget_right` alone.
    """
    confidence: float | None = Field(examples=[0.97])
    """Confidence in the answer."""
    question: str | None = Field(examples=["A dial shows 3. A up 5."])
    """Text of the question; null where the service keeps no texts."""
    answer: str | None = Field(examples=["8"])
    """The answer; null where the service keeps no texts, and if it abstained."""
    full_budget_answer: str | None = Field(examples=["12"])
    """The answer at the full budget, from the answer's shadow run; null where the service keeps no
    texts, and if no run has given one.
    """
    full_budget_differs: bool | None = Field(examples=[True])
    """Whether the full budget gives another answer: then the label should also say whether that one
    is right. Null if no shadow run has told.
    """


class AuditResponse(Wire):
    """Answers that wait for a label, the oldest first: the test of a level waits for its oldest."""

    waiting: int = Field(examples=[1])
    """Number of answers that wait for a label, among those that this key may see."""
    answers: list[AuditItem] = Field(examples=[[AuditItem.example()]])
    """At most `limit` of them."""
