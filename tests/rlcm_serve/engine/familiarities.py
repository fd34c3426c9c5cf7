"""Familiarity readings for tests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from rlcm_serve.core import Rollout, TokenIds
from rlcm_serve.familiarity.familiarity import (
    FAMILIARITY_FOLDER,
    Familiarity,
    FamiliarityConfig,
)
from rlcm_serve.familiarity.score import StateScore
from tests.rlcm_serve.engine.crowd import Forward

RANKED = 40


def save_familiarity(model: Path) -> Familiarity:
    """Puts a reading of chance beside a copy of the embedded model, and returns it."""
    draw = np.random.default_rng(0)
    score = StateScore.fit(draw.normal(size=(400, 160)).astype(np.float32))
    config = FamiliarityConfig(160, 400, RANKED, 0.005, 0.9, 1 / (RANKED + 1))
    # The scores of the embedded model's own questions are spread over this range.
    made = Familiarity(config, score, np.linspace(136, 140, RANKED))
    made.save(model / FAMILIARITY_FOLDER)
    return made


def compare_familiarity(
    finished: Sequence[tuple[TokenIds, Rollout]], made: Familiarity, forward: Forward
) -> list[float]:
    """Compares every rollout's familiarity with that of a forward pass; returns all of them."""
    for prompt, rollout in finished:
        expected = made.p_value(forward.states_TH(prompt)[-1].numpy())
        # A score may lie next to one that it is ranked among.
        assert rollout.familiarity == pytest.approx(expected, abs=1.5 / (RANKED + 1))
    return [rollout.familiarity or 0.0 for _, rollout in finished]
