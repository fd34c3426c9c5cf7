"""The card beside a probe: how it was trained, and its metrics on held-out problems."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from training.cards import card
from training.probe.fit import ProbeTraining
from training.probe.metrics import ProbeMetrics


def write_probe_card(
    folder: Path, metrics: ProbeMetrics, training: ProbeTraining, rollouts: int, samples: int
) -> None:
    """Writes `metrics.json` and `README.md` into the probe's folder."""
    facts = {
        "rollouts_per_problem": rollouts,
        "forced_answers_per_cut": samples,
        "training": asdict(training),
        "validation": asdict(metrics),
    }
    (folder / "metrics.json").write_text(json.dumps(facts, indent=2) + "\n")
    counts = {"rollouts": rollouts, "samples": samples, "width": training.width}
    (folder / "README.md").write_text(card("probe", **counts, **asdict(metrics)))
