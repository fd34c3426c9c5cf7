"""The card beside a probe: how it was trained, and its metrics on held-out problems."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from rlcm_serve.engine.contract import EngineIdentity
from rlcm_serve.engine.worker.probe import ProbeInput
from training.cards import card
from training.probe.fit import ProbeTraining
from training.probe.metrics import ProbeMetrics


def write_probe_card(
    folder: Path,
    metrics: ProbeMetrics,
    training: ProbeTraining,
    recorded: EngineIdentity,
    rollouts: int,
    samples: int,
) -> None:
    """Writes `metrics.json` and `README.md` into the probe's folder.

    Args:
        recorded: the engine that generated the rollouts.
        rollouts: of each problem.
        samples: forced answers at each cut.
    """
    facts = {
        "rollouts_per_problem": rollouts,
        "forced_answers_per_cut": samples,
        "recorded": recorded.to_json(),
        "training": asdict(training),
        "validation": asdict(metrics),
    }
    (folder / "metrics.json").write_text(json.dumps(facts, indent=2, allow_nan=False) + "\n")
    text = card(
        "probe",
        rollouts=rollouts,
        samples=samples,
        reads_tokens=ProbeInput.TOKENS in training.inputs,
        heads=training.heads,
        width=training.width,
        sampling=recorded.sampling,
        budget=recorded.budget,
        **asdict(metrics),
    )
    (folder / "README.md").write_text(text)
