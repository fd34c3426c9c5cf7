"""The tables of live monitoring. Times are in seconds since 1970, UTC."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import (
    BigInteger,
    ForeignKey,
    Index,
    LargeBinary,
    String,
    Text,
    select,
    text,
    true,
    tuple_,
)
from sqlalchemy.orm import Mapped, aliased, column_property, mapped_column

from rlcm_serve.store.base import Base, Number, partial_index

_GUARANTEED = "certificate IS NOT NULL"
_WAITING = "audited AND answered AND labelled IS NULL"
_DECLINED = "audited AND NOT answered AND labelled IS NULL"
_UNREAD = f"{_DECLINED} AND risk = 'regret'"


class AnswerRow(Base):
    """One answer or abstention. Monitors see answers in the order of `started`, then `sequence`.

    `certificate` is a digest, and None without a guarantee. `answer_digest` is a keyed digest of
    the answer, `question_digest` one of the question. `departs` says whether the conversation or
    the schema was not the profile's, `setup` and `grader` are as in `ServedUnder`. The last
    four are None in rows of older releases. `question` and `answer` are None where texts are not
    kept. `labelled` is when the first trusted label came, and `right` what the last one says; both
    are None without one. An abstention is never `right` or wrong: its label has a reference alone.
    `reported` is what the last label says that is not trusted, and so enters no test.
    """

    __tablename__ = "rlcm_answers"

    sequence: Mapped[int] = mapped_column(Number, primary_key=True, autoincrement=True)
    id: Mapped[str] = mapped_column(String(64), unique=True)
    key_id: Mapped[str | None] = mapped_column(String(16))
    started: Mapped[float]
    time: Mapped[float]
    profile: Mapped[str] = mapped_column(Text)
    kind: Mapped[str | None] = mapped_column(Text)
    certificate: Mapped[str | None] = mapped_column(String(64))
    alpha: Mapped[float | None]
    risk: Mapped[str] = mapped_column(Text)
    answered: Mapped[bool]
    confidence: Mapped[float]
    tokens: Mapped[int] = mapped_column(BigInteger)
    familiarity: Mapped[float | None]
    audited: Mapped[bool]
    audit_share: Mapped[float]
    due: Mapped[float]
    right: Mapped[bool | None]
    labelled: Mapped[float | None]
    reported: Mapped[bool | None]
    answer_digest: Mapped[bytes | None] = mapped_column(LargeBinary(32))
    question: Mapped[str | None] = mapped_column(Text)
    answer: Mapped[str | None] = mapped_column(Text)
    question_digest: Mapped[bytes | None] = mapped_column(LargeBinary(32))
    departs: Mapped[bool | None]
    setup: Mapped[str | None] = mapped_column(String(64))
    grader: Mapped[str | None] = mapped_column(Text)
    if TYPE_CHECKING:
        repeated: Mapped[bool]

    __table_args__ = (
        partial_index(
            "rlcm_answers_level", _GUARANTEED, "certificate", "alpha", "started", "sequence"
        ),
        partial_index(
            "rlcm_answers_question",
            _GUARANTEED,
            "certificate",
            "question_digest",
            "started",
            "sequence",
        ),
        partial_index("rlcm_answers_waiting", _WAITING, "due"),
        partial_index("rlcm_answers_declined", _DECLINED, "started"),
        partial_index("rlcm_answers_unread", _UNREAD, "due"),
        Index("rlcm_answers_time", "time"),
    )


_Earlier = aliased(AnswerRow)
AnswerRow.repeated = column_property(
    select(_Earlier.sequence)
    .where(
        _Earlier.certificate == AnswerRow.certificate,
        _Earlier.question_digest == AnswerRow.question_digest,
        tuple_(_Earlier.started, _Earlier.sequence) < tuple_(AnswerRow.started, AnswerRow.sequence),
    )
    .correlate(AnswerRow)
    .exists(),
    deferred=True,
)
"""Whether the question was asked before under the guarantee of the same certificate, by anybody, at
whatever level. Monitors skip such answers."""

UNLABELLED = (text(_WAITING),)
"""The condition on answers that were drawn for audit and have no label. It is the text of the
index, because SQLite does not find the index for `audited = 1`."""

DECLINED = (text(_DECLINED),)
"""The condition on abstentions that were drawn for audit and have no reference."""

UNREAD = (text(_UNREAD),)
"""The condition on those of them under `regret`, where no answer could be read. Their label says
whether the full budget's answer is right, so the test waits for it if there is such an answer."""


class LabelRow(Base):
    """One verdict on an answer, or the reference of an abstention.

    Of several verdicts, the one with the largest number is shown, a trusted one before others.

    `reference` is what it was graded with, where texts are kept. `trusted` is as in `Label`.
    """

    __tablename__ = "rlcm_labels"

    number: Mapped[int] = mapped_column(Number, primary_key=True, autoincrement=True)
    sequence: Mapped[int] = mapped_column(ForeignKey(AnswerRow.sequence))
    right: Mapped[bool]
    trusted: Mapped[bool] = mapped_column(server_default=true())
    key_id: Mapped[str | None] = mapped_column(String(16))
    time: Mapped[float]
    reference: Mapped[str | None] = mapped_column(Text)

    __table_args__ = (Index("rlcm_labels_last", "sequence", "trusted", "number"),)


class LabelCountsRow(Base):
    """Numbers of answers of one level, by what is known of them, since its first answer.

    `certificate` is a digest; it is empty, and `alpha` 0, for answers without a guarantee.
    `audited`, `right`, `wrong` are of answers that were drawn for audit, `late` of those whose
    first label came after its deadline; `others_right` and `others_wrong` have labels that do not
    enter the test. `overdue` are audited answers without a label whose deadline was before
    `overdue_at`; who reads adds those whose deadline has passed since.
    """

    __tablename__ = "rlcm_label_counts"

    certificate: Mapped[str] = mapped_column(String(64), primary_key=True)
    alpha: Mapped[float] = mapped_column(primary_key=True)
    audited: Mapped[int] = mapped_column(BigInteger)
    right: Mapped[int] = mapped_column(BigInteger)
    wrong: Mapped[int] = mapped_column(BigInteger)
    late: Mapped[int] = mapped_column(BigInteger)
    others_right: Mapped[int] = mapped_column(BigInteger)
    others_wrong: Mapped[int] = mapped_column(BigInteger)
    overdue: Mapped[int] = mapped_column(BigInteger)
    overdue_at: Mapped[float]


class MonitorRow(Base):
    """The state of one monitor of one level, and the last answer that it has seen: its `started`
    and `sequence`.

    `certificate` is a digest, `what` a `MonitorKind`, `risk` that of the certificate, `delta` the
    monitor's share of its delta. `reference` has the readings of calibration that a drift monitor
    compares with, and `state` what it has seen; both are JSON. `slot` is as in `StoredCertificate`,
    `whole_delta` the certificate's.
    """

    __tablename__ = "rlcm_monitors"

    certificate: Mapped[str] = mapped_column(String(64), primary_key=True)
    alpha: Mapped[float] = mapped_column(primary_key=True)
    what: Mapped[str] = mapped_column(String(8), primary_key=True)
    risk: Mapped[str] = mapped_column(Text)
    delta: Mapped[float]
    reference: Mapped[str] = mapped_column(Text)
    started: Mapped[float]
    sequence: Mapped[int] = mapped_column(BigInteger)
    state: Mapped[str] = mapped_column(Text)
    alarmed: Mapped[float | None]
    slot: Mapped[str] = mapped_column(String(64))
    whole_delta: Mapped[float]


class EventRow(Base):
    """One event of the monitors; `figures` is JSON. `hook` says whether the webhook was told."""

    __tablename__ = "rlcm_monitor_events"

    number: Mapped[int] = mapped_column(Number, primary_key=True, autoincrement=True)
    time: Mapped[float]
    certificate: Mapped[str] = mapped_column(String(64))
    alpha: Mapped[float | None]
    what: Mapped[str] = mapped_column(String(16))
    text: Mapped[str] = mapped_column(Text)
    figures: Mapped[str] = mapped_column(Text)
    action: Mapped[str] = mapped_column(String(16))
    hook: Mapped[str] = mapped_column(String(16), index=True)


class HistoryRow(Base):
    """A level as it was at one time, for the page. `figures` is JSON."""

    __tablename__ = "rlcm_monitor_history"

    certificate: Mapped[str] = mapped_column(String(64), primary_key=True)
    alpha: Mapped[float] = mapped_column(primary_key=True)
    time: Mapped[float] = mapped_column(primary_key=True)
    figures: Mapped[str] = mapped_column(Text)


class WithdrawalRow(Base):
    """A certificate whose guarantee is no longer given. `slot` is as in `StoredCertificate`.

    `restored` is when an admin put its policies back, without a guarantee.
    """

    __tablename__ = "rlcm_withdrawn_certificates"

    certificate: Mapped[str] = mapped_column(String(64), primary_key=True)
    slot: Mapped[str] = mapped_column(String(64), index=True)
    delta: Mapped[float]
    time: Mapped[float]
    why: Mapped[str] = mapped_column(Text)
    restored: Mapped[float | None]
    restored_by: Mapped[str | None] = mapped_column(String(16))


class SmallerLevelRow(Base):
    """A withdrawn certificate whose policies serve on, without a guarantee, at its levels below
    `below`. Without a row, questions are answered at the full budget.
    """

    __tablename__ = "rlcm_smaller_levels"

    certificate: Mapped[str] = mapped_column(String(64), primary_key=True)
    below: Mapped[float]


class BettingRow(Base):
    """Which process runs the monitors, and until when; it renews the row while it does."""

    __tablename__ = "rlcm_betting"

    name: Mapped[str] = mapped_column(String(16), primary_key=True)
    holder: Mapped[str] = mapped_column(String(16))
    until: Mapped[float]
    looked: Mapped[float]


class MarkRow(Base):
    """A process that answers questions: all of those asked before `mark` have ended and are stored.

    A process that stops renewing its row, until `until`, counts as ended.
    """

    __tablename__ = "rlcm_answering"

    process: Mapped[str] = mapped_column(String(16), primary_key=True)
    mark: Mapped[float]
    until: Mapped[float]
