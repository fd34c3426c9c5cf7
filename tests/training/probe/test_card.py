import json
from dataclasses import replace
from pathlib import Path

import pytest

from rlcm_serve.core import Sampling
from tests.rlcm_serve.scripted_engine import IDENTITY
from training.probe.card import write_probe_card
from training.probe.fit import ProbeTraining
from training.probe.metrics import ProbeMetrics

pytestmark = pytest.mark.training

RECORDED = replace(IDENTITY, sampling=Sampling(temperature=0.6, top_p=0.95))
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
    write_probe_card(tmp_path, METRICS, ProbeTraining(width=128), RECORDED, rollouts=3, samples=4)
    card = (tmp_path / "README.md").read_text()
    for fact in ("3 rollouts", "4 forced answers", "128", "120, 5321", "0.3123", "0.876", "0.043"):
        assert fact in card
    assert "temperature\n0.6 and top-p 0.95 with at most 96 tokens" in card
    assert max(map(len, card.splitlines())) <= 100
    facts = json.loads((tmp_path / "metrics.json").read_text())
    assert facts["validation"]["auroc"] == 0.8765
    assert facts["training"]["width"] == 128
    assert facts["recorded"]["sampling"] == {"temperature": 0.6, "top_p": 0.95}
    assert (facts["rollouts_per_problem"], facts["forced_answers_per_cut"]) == (3, 4)


def test_the_card_says_why_a_metric_is_missing(tmp_path: Path) -> None:
    metrics = replace(METRICS, auroc=None, undefined={"auroc": "all 9 targets are below 1/2"})
    write_probe_card(tmp_path, metrics, ProbeTraining(), RECORDED, rollouts=3, samples=4)
    card = (tmp_path / "README.md").read_text()
    assert (
        "| AUROC (target at least 1/2) | cannot be computed: all 9 targets are below 1/2 |" in card
    )
    assert json.loads((tmp_path / "metrics.json").read_text())["validation"]["auroc"] is None
