import json
from pathlib import Path

import pytest

from training.probe.card import write_probe_card
from training.probe.fit import ProbeTraining
from training.probe.metrics import ProbeMetrics

pytestmark = pytest.mark.training

METRICS = ProbeMetrics(
    points=5321,
    problems=120,
    bce=0.31234,
    bce_floor=0.2,
    bce_constant=0.65,
    auroc=0.8765,
    ece=0.0432,
)


def test_the_card_says_how_the_probe_was_made_and_how_it_does(tmp_path: Path) -> None:
    write_probe_card(tmp_path, METRICS, ProbeTraining(width=128), rollouts=3, samples=4)
    card = (tmp_path / "README.md").read_text()
    for fact in ("3 rollouts", "4 forced answers", "128", "120, 5321", "0.3123", "0.876", "0.043"):
        assert fact in card
    assert max(map(len, card.splitlines())) <= 100
    facts = json.loads((tmp_path / "metrics.json").read_text())
    assert facts["validation"]["auroc"] == 0.8765
    assert facts["training"]["width"] == 128
    assert (facts["rollouts_per_problem"], facts["forced_answers_per_cut"]) == (3, 4)
