"""The model card of a trained policy: what it is, how it was trained, and its curves."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

from rlcm_serve.evaluation.sources import Source
from training.cards import card
from training.rl.rewards.methods import METHODS, Method

_SHOWN = {
    "accuracy": "rollouts that are right",
    "reward": "reward",
    "completions/mean_length": "tokens of a rollout",
    "completions/clipped_ratio": "rollouts cut off at the most tokens",
    "probe/bce": "probe: binary cross-entropy, nats per cut",
    "probe/target": "probe: mean target Y_b",
    "probe/confidence": "probe: mean confidence C_b",
    "budgets/both_sides": "rollouts with budgets in both B+ and B-",
    "confidence/stated": "rollouts that state a confidence",
    "confidence/sequence": "mean sequence probability",
    "sampling/sampling_logp_difference/max": "engine and trainer: largest log-probability gap",
}
_WINDOW = 10


def model_card(facts: Mapping[str, Any]) -> str:
    """The card in Markdown, from the result of `TrainingRecord.facts`."""
    settings = facts["settings"]
    method = METHODS[settings["method"]]
    steps = [entry for entry in facts["curves"] if "reward" in entry]
    kept = {key: value for key, value in settings.items() if key != "trainer" or value}
    return card(
        "policy",
        **{name: facts[name] for name in ("base", "data", "versions", "seconds")},
        method=method,
        confidence=_confidence(method, facts["has_probe"]),
        rollouts=settings["rollouts"],
        n_steps=len(steps) or settings["steps"],
        window=min(_WINDOW, len(steps)),
        curves=_first_and_last(steps),
        settings=json.dumps(kept, indent=1, default=list),
    )


def _confidence(method: Method, has_probe: bool) -> str:
    if method.confidence is Source.VERBALIZED:
        return "Its confidence is what it says when it is asked (`rlcm eval`)."
    if method.confidence is Source.SEQUENCE_PROBABILITY:
        return (
            "Its confidence is the normalised probability of its tokens (`rlcm serve --confidence "
            "sequence-probability`)."
        )
    if has_probe:
        return "Its confidence is what the probe in `probe/`, trained beside it, reads."
    return (
        "No probe that the service can read was trained beside it: `rlcm train probe` makes "
        "one, in `probe/`."
    )


def _first_and_last(steps: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, float, float]]:
    """Name, and means over the first and the last steps, of each curve that was logged."""
    for key, name in _SHOWN.items():
        values = [float(entry[key]) for entry in steps if entry.get(key) is not None]
        if values:
            yield name, fmean(values[:_WINDOW]), fmean(values[-_WINDOW:])
