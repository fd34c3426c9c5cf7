"""The card of a trained policy."""

from __future__ import annotations

from typing import Any

import pytest

from training.rl.card import model_card
from training.rl.settings import RunSettings


def facts(**changes: Any) -> dict[str, Any]:
    return {
        "settings": RunSettings(method=changes.pop("method", "rlcm")).to_json(),
        "base": {"name": "someone/model", "digest": "abc", "is_on_hub": True},
        "data": {"source": "train.jsonl", "problems": 12, "digest": "def"},
        "versions": {"trl": "1.16.0"},
        "has_probe": True,
        "seconds": 90.0,
        "curves": [{"reward": n / 40, "accuracy": n / 20} for n in range(20)],
        **changes,
    }


def test_it_says_how_training_went_and_on_what() -> None:
    card = model_card(facts())
    assert "base_model: someone/model" in card
    assert "# someone/model, trained with RLCM" in card
    assert "20 steps of 32 prompts x 6 rollouts took\n2 minutes" in card
    assert "| rollouts that are right | 0.225 | 0.725 |" in card
    assert "train.jsonl, 12 problems, digest `def`" in card
    assert "nan" not in card


@pytest.mark.parametrize(
    ("method", "has_probe", "words"),
    [
        ("rlcm", True, "the probe in `probe/`, trained beside it"),
        ("grpo", False, "No probe that the service can read was trained beside it"),
        ("rlcm-authors", False, "No probe that the service can read was trained beside it"),
        ("rlcr", False, "what it says when it is asked"),
        ("c2gspg", False, "--confidence sequence-probability"),
    ],
)
def test_it_says_where_confidence_comes_from(method: str, has_probe: bool, words: str) -> None:
    assert words in " ".join(model_card(facts(method=method, has_probe=has_probe)).split())


def test_a_model_that_is_on_no_hub_is_not_linked() -> None:
    base = {"name": "./runs/base", "digest": "abc", "is_on_hub": False}
    assert "base_model" not in model_card(facts(base=base))
