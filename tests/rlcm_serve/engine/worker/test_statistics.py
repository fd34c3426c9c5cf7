"""Statistics of tokens: as they are defined, however the tokens come."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlcm_serve.engine.worker.statistics import FIGURES, STATISTICS, TokenStatistics

token = st.tuples(
    st.floats(-30, 0, width=32), st.floats(0, 8, width=32), st.floats(3, 60, width=32)
)
rollout = st.lists(token, min_size=1, max_size=90)


def by_definition(figures_TF: np.ndarray) -> list[float]:
    """The statistics of all tokens, one by one, as the module's docstring tells them."""
    log_prob, entropy, confidence = figures_TF.astype(float).T
    return [
        log_prob.mean(),
        log_prob.min(),
        log_prob[-32:].mean(),
        log_prob[-32:].min(),
        np.sort(log_prob)[:5].mean(),
        entropy.mean(),
        entropy[-32:].mean(),
        entropy.max(),
        confidence.mean(),
        confidence[-32:].mean(),
        confidence[-32:].min(),
        math.log(len(log_prob)),
    ]


@given(rollout, st.lists(st.integers(0, 40), max_size=8))
def test_they_are_as_defined_however_many_tokens_come_at_once(
    tokens: list[tuple[float, float, float]], parts: list[int]
) -> None:
    figures_TF, statistics, count = np.array(tokens, np.float32), TokenStatistics(), 0
    for more in (*parts, len(tokens)):
        count = min(count + more, len(tokens))
        expected = by_definition(figures_TF[:count]) if count else [0.0] * 12
        found = statistics.read(figures_TF[:count]).tolist()
        assert found == pytest.approx(expected, rel=1e-6, abs=1e-6)


def test_before_the_first_token_all_are_0() -> None:
    nothing_TF = np.empty((0, len(FIGURES)), np.float32)
    assert TokenStatistics().read(nothing_TF).tolist() == [0.0] * len(STATISTICS)


def test_a_token_that_was_missed_leaves_a_gap_for_good() -> None:
    statistics, figures_TF = TokenStatistics(), np.ones((200, len(FIGURES)), np.float32)
    figures_TF[7] = math.nan
    assert not np.isnan(statistics.read(figures_TF[:7])).any()
    for count in (8, 9, 200):
        assert np.isnan(statistics.read(figures_TF[:count])).all()
