"""Recorded questions for the page: one rollout of each, close to the figures of their series."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from calibration import Certificate, CertifiedLevel, Traces, read_traces
from calibration.policy.exit_rule import ExitPolicy
from calibration.policy.exit_search import find_exits
from calibration.policy.voting import NO_ANSWER
from calibration.report.recorded import (
    QUESTIONS,
    WRONG_WEIGHT,
    _figures,
    _question,
    choose_recorded,
)
from calibration.simulation.replay import outcomes
from calibration.traces.recorded import RecordedSeries

ROOT = Path(__file__).parents[3]
CERTIFICATES = ROOT / "rlcm_serve/models/embedded/certificates"


@pytest.fixture(scope="module")
def series() -> Traces:
    return read_traces(ROOT / "studies/traces/embedded-test.parquet")


@pytest.fixture(scope="module")
def certificate() -> Certificate:
    return Certificate.load(CERTIFICATES / "selective-1.json")


@pytest.fixture(scope="module")
def recorded(certificate: Certificate, series: Traces) -> RecordedSeries:
    found = choose_recorded(certificate, series, on_test=True, questions={})
    assert found is not None
    return found


def rows_of(recorded: RecordedSeries, series: Traces) -> list[int]:
    """The rollout that each question is, found by its readings and verdicts."""
    rows = []
    for one in recorded.questions:
        end = len(one.tokens)
        same = [
            row
            for row in np.flatnonzero(series.problem_R == series.problem_ids.index(one.id))
            if series.final_R[row] == end - 1
            and tuple(series.tokens_RC[row, :end]) == one.tokens
            and np.allclose(series.confidence_RC[row, :end], one.confidence, rtol=1e-5)
            and _question(series, int(row), {}).right == one.right
        ]
        assert same, f"{one.id} was not recorded like this"
        rows.append(int(same[0]))
    return rows


def figures(policies: list[ExitPolicy], traces: Traces, rows: list[int]) -> np.ndarray:
    """Of these rollouts: the shares of wrong and of answered questions, by policy."""
    part = (traces.tokens_RC[rows], traces.confidence_RC[rows], traces.final_R[rows])
    exits = find_exits(policies, *part)
    right_RT = np.take_along_axis(traces.correct_RC[rows], exits.stop_RT, axis=1)
    wrong = (exits.answered_RT & ~right_RT).mean(axis=0)
    return np.concatenate([wrong, exits.answered_RT.mean(axis=0)])


def test_every_question_is_another_problem(recorded: RecordedSeries, series: Traces) -> None:
    ids = [one.id for one in recorded.questions]
    assert len(set(ids)) == len(ids) == QUESTIONS
    assert (recorded.n_problems, recorded.n_rollouts) == (240, 1920)
    assert len(set(rows_of(recorded, series))) == QUESTIONS


def test_its_figures_are_close_to_those_of_the_series(
    recorded: RecordedSeries, series: Traces, certificate: Certificate
) -> None:
    policies = [level.policy for level in certificate.levels if level.certified]  # type: ignore[union-attr]
    whole = figures(policies, series, list(range(series.n_rollouts)))
    shown = figures(policies, series, rows_of(recorded, series))
    n = len(policies)
    assert np.abs(shown - whole)[:n].max() < 0.015, "wrong answers"
    assert np.abs(shown - whole)[n:].max() < 0.05, "answers"


def test_rounded_readings_stop_where_the_recorded_ones_do(
    recorded: RecordedSeries, series: Traces, certificate: Certificate
) -> None:
    policies = [level.policy for level in certificate.levels if level.certified]  # type: ignore[union-attr]
    for row, one in zip(rows_of(recorded, series), recorded.questions, strict=True):
        end = len(one.tokens)
        exact = find_exits(
            policies,
            series.tokens_RC[row : row + 1],
            series.confidence_RC[row : row + 1],
            series.final_R[row : row + 1],
        )
        rounded = find_exits(
            policies,
            np.array([one.tokens]),
            np.array([one.confidence]),
            np.array([end - 1]),
        )
        assert (exact.stop_RT == rounded.stop_RT).all()
        assert (exact.answered_RT == rounded.answered_RT).all()


def test_the_same_series_gives_the_same_questions(
    recorded: RecordedSeries, series: Traces, certificate: Certificate
) -> None:
    again = choose_recorded(certificate, series, on_test=True, questions={})
    assert again == recorded


def test_texts_come_with_those_that_have_one(certificate: Certificate, series: Traces) -> None:
    known = {series.problem_ids[0]: "What is 1 + 1?"}
    found = choose_recorded(certificate, series, on_test=False, questions=known)
    assert found is not None
    assert not found.on_test
    assert {one.question for one in found.questions} <= {None, "What is 1 + 1?"}


def test_there_are_none_where_a_dot_would_be_no_percentage(
    certificate: Certificate, series: Traces
) -> None:
    few = series.select(np.arange(series.n_problems) < QUESTIONS - 1)
    assert choose_recorded(certificate, few, on_test=True) is None
    for name in ("selective-4", "error-1"):
        other = Certificate.load(CERTIFICATES / f"{name}.json")
        assert choose_recorded(other, series, on_test=True) is None
    uncertified = replace(certificate, levels=())
    assert choose_recorded(uncertified, series, on_test=True) is None


def test_an_answer_that_cannot_be_read_is_none(certificate: Certificate, series: Traces) -> None:
    """As in the certificate's own figures: it counts as unanswered, and not as wrong."""
    unread_RC = np.random.default_rng(0).random(series.tokens_RC.shape) < 0.2
    class_RC = np.where(unread_RC, NO_ANSWER, series.answer_class_RC)
    some = replace(series, answer_class_RC=class_RC, correct_RC=series.correct_RC & ~unread_RC)
    policies = [one.policy for one in certificate.levels if isinstance(one, CertifiedLevel)]
    figures_RF = _figures(policies, some)
    found, n = outcomes(some, policies), len(policies)
    assert (figures_RF[:, n : 2 * n] == found.answered_DT).all()
    wrong_RT = found.answered_DT & ~found.correct_DT
    assert (figures_RF[:, :n] == WRONG_WEIGHT * wrong_RT).all()
    shown = {row: _question(some, row, {}).right for row in range(0, some.n_rollouts, 20)}
    assert set("".join(shown.values())) == set("01-")
    for row, right in shown.items():
        unread_C = class_RC[row, : len(right)] == NO_ANSWER
        assert [one == "-" for one in right] == unread_C.tolist()
