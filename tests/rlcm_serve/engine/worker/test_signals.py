"""Signals of tokens: as they are defined, and as they are kept while tokens come one by one."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlcm_serve.core import Signal
from rlcm_serve.engine.worker.signals import NO_SIGNALS, TokenFigures, TokenSignals, definition
from rlcm_serve.evaluation.sources import ABOUT, Source

WINDOW = 6


def follow(
    log_probs: Sequence[float], confidences: Sequence[float], window: int = WINDOW
) -> TokenFigures:
    figures = TokenFigures(window)
    add(figures, log_probs, confidences)
    return figures


def add(figures: TokenFigures, log_probs: Sequence[float], confidences: Sequence[float]) -> None:
    """Adds tokens; no signal is made from their entropies."""
    nothing = [0.0] * len(log_probs)
    figures.extend(np.array([log_probs, nothing, confidences], np.float32).T)


def mapped(confidence: float) -> float:
    return confidence / (confidence + 10)


# The logs of 20 probabilities that sum to at most 1 have a mean of at most -log 20 = -2.996.
token = st.tuples(st.floats(-30, 0, width=32), st.floats(3, 60, width=32))


@given(st.lists(token, min_size=1, max_size=40), st.integers(1, 12), st.integers(0, 40))
def test_they_are_the_means_of_their_definitions(
    tokens: list[tuple[float, float]], window: int, first: int
) -> None:
    log_probs, confidences = map(np.array, zip(*tokens, strict=True))
    figures = follow(log_probs[:first], confidences[:first], window)
    add(figures, log_probs[first:], confidences[first:])
    found = figures.read()
    groups = [
        confidences[max(0, end - window) : end].mean()
        for end in range(min(window, len(tokens)), len(tokens) + 1)
    ]
    expected = TokenSignals(math.exp(log_probs.mean()), mapped(min(groups)), mapped(groups[-1]))
    assert found == pytest.approx(expected, abs=1e-6)
    assert all(0 <= value <= 1 for value in found)


def test_before_there_is_a_whole_window_all_tokens_are_one() -> None:
    early = follow([-1] * 3, [2.0, 30.0, 30.0]).read()
    assert early.lowest_group == early.tail == pytest.approx(mapped(62 / 3))
    later = follow([-1] * 8, [2.0, *[30.0] * 7]).read()
    assert later.lowest_group == pytest.approx(mapped(152 / 6)), "the first token alone is no group"
    assert later.tail == pytest.approx(mapped(30))


def test_a_group_that_was_unsure_is_remembered() -> None:
    figures = follow([-1] * WINDOW, [1.0] * WINDOW)
    for _ in range(3 * WINDOW):
        add(figures, [-1], [20.0])
    assert figures.read().lowest_group == pytest.approx(mapped(1))
    assert figures.read().tail == pytest.approx(mapped(20))


def test_before_the_first_token_nothing_speaks_for_an_answer() -> None:
    assert TokenFigures(WINDOW).read() == NO_SIGNALS == (0.0, 0.0, 0.0)


def test_they_are_as_exact_as_a_table_of_readings() -> None:
    """So that an exit is taken on the very number that is recorded."""
    for value in follow([-0.1, -0.7, -0.3], [3.3, 7.7, 11.1]).read():
        assert value == float(np.float32(value))


def test_a_lost_token_leaves_no_signal_however_many_follow() -> None:
    figures = follow([-0.1] * 9, [20.0] * 9)
    add(figures, [math.nan], [math.nan])
    for _ in range(3 * WINDOW):
        assert all(map(math.isnan, figures.read()))
        add(figures, [-0.1], [20.0])
    assert figures.count == 10 + 3 * WINDOW
    unseen = TokenFigures(WINDOW)
    add(unseen, [math.nan], [math.nan])
    assert all(map(math.isnan, unseen.read()))


def test_a_definition_names_all_that_a_value_depends_on() -> None:
    tail = definition(Signal.TAIL, 32)
    assert tail == "signal:tail top=20 window=128 half=10"
    assert definition(Signal.TAIL, 64) != tail
    assert definition(Signal.LOWEST_GROUP, 32) != tail
    assert definition(Signal.SEQUENCE_PROBABILITY, 32) == "signal:sequence-probability"
    with pytest.raises(ValueError, match="digest"):
        definition(Signal.PROBE, 32)


def test_signals_are_the_sources_that_are_read_online() -> None:
    online = [source.value for source in Source if ABOUT[source].online]
    assert [signal.value for signal in Signal] == online
