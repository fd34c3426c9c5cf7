"""The card beside a probe: how it was trained, and its metrics on held-out problems."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from training.probe import ProbeMetrics, ProbeTraining


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
    (folder / "README.md").write_text(
        f"""# Confidence probe

A 2-layer MLP on the model's final-layer hidden state (RLCM §3.2), trained after the fact (RLCM
App. B): {rollouts} rollouts per problem, {samples} forced answers at every cut, soft-target binary
cross-entropy, {training.width} hidden units. Measured on the problems held out of the fit, which
also chose the epoch:

| validation | |
|---|---|
| problems, cuts | {metrics.problems}, {metrics.points} |
| binary cross-entropy | {metrics.bce:.4f} (knowing every target: {metrics.bce_floor:.4f}; \
a constant: {metrics.bce_constant:.4f}) |
| AUROC (target at least 1/2) | {metrics.auroc:.3f} |
| ECE (10 equal-width bins) | {metrics.ece:.3f} |

It reads this model's states only, at cuts of reasoning like those it was trained on.
"""
    )
