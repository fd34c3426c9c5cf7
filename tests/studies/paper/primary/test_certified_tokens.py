"""Tokens under exits that the other half of the problems certifies."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from calibration import certify, replay
from calibration.traces.traces import read_traces
from studies.paper.primary.certified_tokens import certified_tokens
from studies.paper.primary.design import ALPHA, DELTA, RISK
from studies.paper.primary.problems import is_out_of_domain

TRACES = Path(__file__).parents[4] / "studies" / "traces" / "embedded-test.parquet"


def test_each_half_is_read_under_the_policy_that_the_other_certifies() -> None:
    traces = read_traces(TRACES)
    tokens_P, full_P = certified_tokens(traces)
    whole = replay(traces, [certify(traces, risk=RISK, alphas=[ALPHA]).levels[0].policy])
    assert full_P.mean() == pytest.approx(whole.full_tokens)
    assert 0.2 < tokens_P.mean() / full_P.mean() < 0.8
    one, other = traces.split(0.5)
    trained = other.select(np.array([not is_out_of_domain(name) for name in other.problem_ids]))
    assert 0 < trained.n_problems < other.n_problems
    policy = certify(trained, risk=RISK, alphas=[ALPHA], delta=DELTA).levels[0].policy
    of_one_P = np.isin(traces.problem_ids, one.problem_ids)
    assert tokens_P[of_one_P].mean() == pytest.approx(replay(one, [policy]).tokens_T[0])


def test_the_halves_are_the_same_whatever_was_recorded() -> None:
    traces = read_traces(TRACES)
    other = replace(traces, confidence_RC=traces.confidence_RC**1.001)
    whole = {*traces.split(0.5)[0].problem_ids}
    assert {*other.split(0.5)[0].problem_ids} == whole
    assert {*other.split_by_content(0.5)[0].problem_ids} != whole
    tokens_P, other_P = certified_tokens(traces)[0], certified_tokens(other)[0]
    assert np.mean(tokens_P == other_P) > 0.9


def test_too_few_problems_certify_nothing() -> None:
    traces = read_traces(TRACES)
    few = traces.select(np.arange(traces.n_problems) < 40)
    tokens_P, full_P = certified_tokens(few)
    assert tokens_P.tolist() == full_P.tolist()
