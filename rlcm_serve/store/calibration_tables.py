"""The tables of calibration jobs: requests, states, problems, recordings, logs."""

from __future__ import annotations

from sqlalchemy import (
    ForeignKey,
    ForeignKeyConstraint,
    LargeBinary,
    String,
    Text,
)
from sqlalchemy.orm import Mapped, mapped_column

from rlcm_serve.store.base import Base, Number


class CalibrationRow(Base):
    """One job. Jobs run by rising `number`; times are in seconds since 1970, UTC.

    As JSON, `asked` is the `CalibrationRequest`, and `fingerprint` the engine and grader of the
    recordings.
    """

    __tablename__ = "rlcm_calibrations"

    number: Mapped[int] = mapped_column(Number, primary_key=True, autoincrement=True)
    id: Mapped[str] = mapped_column(String(32), unique=True)
    state: Mapped[str] = mapped_column(String(16), index=True)
    asked: Mapped[str] = mapped_column(Text)
    n_problems: Mapped[int]
    created: Mapped[float]
    started: Mapped[float | None]
    finished: Mapped[float | None]
    fingerprint: Mapped[str | None] = mapped_column(Text)
    certificate: Mapped[str | None] = mapped_column(String(12))
    error: Mapped[str | None] = mapped_column(Text)


class ProblemRow(Base):
    """One problem of a job."""

    __tablename__ = "rlcm_calibration_problems"

    job: Mapped[int] = mapped_column(ForeignKey(CalibrationRow.number), primary_key=True)
    index: Mapped[int] = mapped_column(primary_key=True)
    id: Mapped[str] = mapped_column(Text)
    problem: Mapped[str] = mapped_column(Text)
    answer: Mapped[str] = mapped_column(Text)
    group: Mapped[str | None] = mapped_column(Text)


class KindRow(Base):
    """The kind of a problem. A problem without a row has none."""

    __tablename__ = "rlcm_calibration_kinds"

    job: Mapped[int] = mapped_column(ForeignKey(CalibrationRow.number), primary_key=True)
    index: Mapped[int] = mapped_column(primary_key=True)
    kind: Mapped[str] = mapped_column(Text)


class KindCertificateRow(Base):
    """The certificate of a single kind that a job made, beside the one for all kinds."""

    __tablename__ = "rlcm_calibration_kind_certificates"

    job: Mapped[int] = mapped_column(ForeignKey(CalibrationRow.number), primary_key=True)
    certificate: Mapped[str] = mapped_column(String(12), primary_key=True)
    kind: Mapped[str] = mapped_column(Text)


class RecordingRow(Base):
    """One finished rollout of one problem of a job, as JSON; the key allows no second one."""

    __tablename__ = "rlcm_calibration_recordings"
    __table_args__ = (ForeignKeyConstraint(["job", "problem"], [ProblemRow.job, ProblemRow.index]),)

    job: Mapped[int] = mapped_column(Number, primary_key=True)
    problem: Mapped[int] = mapped_column(primary_key=True)
    rollout: Mapped[int] = mapped_column(primary_key=True)
    content: Mapped[str] = mapped_column(Text)


class TracesRow(Base):
    """The recordings of a job as traces, in the Parquet format that `rlcm fit` reads."""

    __tablename__ = "rlcm_calibration_traces"

    job: Mapped[int] = mapped_column(ForeignKey(CalibrationRow.number), primary_key=True)
    parquet: Mapped[bytes] = mapped_column(LargeBinary)


class LogRow(Base):
    """One line of a job's log; the oldest lines are deleted."""

    __tablename__ = "rlcm_calibration_log"

    job: Mapped[int] = mapped_column(ForeignKey(CalibrationRow.number), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    time: Mapped[float]
    text: Mapped[str] = mapped_column(Text)


class LeaseRow(Base):
    """The process that runs a job, and until when it does; `until` is in seconds since 1970, UTC.

    A job without a row, or whose `until` has passed, is run by none.
    """

    __tablename__ = "rlcm_calibration_leases"

    job: Mapped[int] = mapped_column(ForeignKey(CalibrationRow.number), primary_key=True)
    holder: Mapped[str] = mapped_column(String(16))
    until: Mapped[float]


class OwnerRow(Base):
    """The API key that started a job. A job without a row was started without a key."""

    __tablename__ = "rlcm_calibration_owners"

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    key: Mapped[str] = mapped_column(String(16))


class PostRow(Base):
    """The job that a request with an idempotency key made. It is committed together with the job.

    `place` and `digest` are those of the `Post`; `until` is in seconds since 1970, UTC.
    """

    __tablename__ = "rlcm_calibration_posts"

    place: Mapped[str] = mapped_column(String(64), primary_key=True)
    digest: Mapped[str] = mapped_column(String(64))
    job: Mapped[str] = mapped_column(String(32))
    until: Mapped[float] = mapped_column(index=True)
