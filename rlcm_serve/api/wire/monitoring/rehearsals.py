"""Wire types of rehearsals."""

from __future__ import annotations

from typing import Self

from pydantic import Field

from rlcm_serve.api.wire import terms
from rlcm_serve.api.wire.base import Wire
from rlcm_serve.api.wire.certificates import CertificateBody, iso, iso_or_none
from rlcm_serve.store.rehearsals.figures import Figure, LevelRehearsed, RehearsalFigures

_TIME = "2026-01-12T09:31:40.120+00:00"


class FigureBody(Wire):
    """A share with its 95% interval, for one look at a time fixed beforehand."""

    of: int = Field(examples=[1200])
    """Number of questions that it is a share of, or for tokens that have them."""
    value: float | None = Field(examples=[0.31])
    """The share; null without any question."""
    low: float | None = Field(examples=[0.29])
    """Lower end of the interval; null if there are too few questions for one, or all of them have
    the same share of tokens.
    """
    high: float | None = Field(examples=[0.33])
    """Upper end of the interval."""

    @classmethod
    def of_figure(cls, figure: Figure) -> Self:
        """The wire form of a figure."""
        low, high = figure.interval or (None, None)
        return cls(of=figure.of, value=figure.value, low=low, high=high)


class RehearsedLevel(Wire):
    """What a certified level would have done with the questions that were answered meanwhile."""

    alpha: terms.Alpha
    questions: int = Field(examples=[1200])
    """Number of answers that it was replayed on: the latest 20,000 at most."""
    undecided: int = Field(examples=[0])
    """Number of them that something else stopped before the level would have. At the full budget
    there are none.
    """
    saved: FigureBody = Field(examples=[FigureBody.example()])
    """Share of the reasoning tokens that it would have saved by the exits of single samples; at
    most so much if answers are undecided, and more where a vote would have ended samples early.
    """
    answered: FigureBody = Field(examples=[FigureBody.example()])
    """Share of the questions that it would have answered, of those for which that is known."""
    lost: FigureBody = Field(examples=[FigureBody.example()])
    """Share of the labelled answers that are right and would have been lost: the level would have
    abstained, or given another answer. An answer counts if it was drawn for audit and there was a
    place to find out what the level would have answered; both are decided when it is asked.
    """
    wrong: FigureBody = Field(examples=[FigureBody.example()])
    """Share of its answers to such questions that are wrong. An answer that differs from a wrong
    one counts as wrong too.
    """
    missing: int = Field(examples=[0])
    """Number of answers in `wrong` of which it is not known (yet) what the level would have
    answered. They count as lost and as wrong; the lower ends of both intervals count them as
    neither.
    """

    @classmethod
    def of_level(cls, level: LevelRehearsed) -> Self:
        """The wire form of a level."""
        return cls(
            alpha=level.alpha,
            questions=level.questions,
            undecided=level.undecided,
            saved=FigureBody.of_figure(level.saved),
            answered=FigureBody.of_figure(level.answered),
            lost=FigureBody.of_figure(level.lost),
            wrong=FigureBody.of_figure(level.wrong),
            missing=level.missing,
        )


class RehearsalBody(Wire):
    """A certificate that is, or was, judged on live answers without serving them."""

    certificate: terms.CertificateId
    running: bool = Field(examples=[True])
    """Whether it is rehearsed now."""
    started: str = Field(examples=[_TIME])
    """When the rehearsal started, as an ISO 8601 time in UTC."""
    ended: str | None = Field(examples=[None])
    """When it ended; null while it runs."""
    levels: list[RehearsedLevel] = Field(examples=[[RehearsedLevel.example()]])
    """Its certified levels, by ascending alpha; none before the first answer."""

    @classmethod
    def of_figures(cls, id_: str, figures: RehearsalFigures) -> Self:
        """The wire form of a rehearsal."""
        return cls(
            certificate=id_,
            running=figures.ended is None,
            started=iso(figures.started),
            ended=iso_or_none(figures.ended),
            levels=[RehearsedLevel.of_level(level) for level in figures.levels],
        )


class RehearsalsBody(Wire):
    """All certificates that are, or were, judged on live answers."""

    rehearsals: list[RehearsalBody] = Field(examples=[[RehearsalBody.example()]])
    """Those that run first, then the latest started first."""


class ActivationBody(CertificateBody):
    """A certificate, and what a rehearsal says of it."""

    activated: bool = Field(examples=[True])
    """Whether it was activated; false with `dry_run`."""
    rehearsal: RehearsalBody | None = Field(default=None, examples=[None])
    """Its rehearsal on live answers; null if there was none."""
