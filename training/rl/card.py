"""The model card of a trained policy: what it is, how it was trained, and its curves."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from rlcm_serve.evaluation.sources import Source
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
    settings, curves = facts["settings"], facts["curves"]
    method = METHODS[settings["method"]]
    steps = [entry for entry in curves if "reward" in entry]
    kept = {key: value for key, value in settings.items() if key != "trainer" or value}
    base, data, rollouts = facts["base"], facts["data"], settings["rollouts"]
    versions = ", ".join(f"{name} {number}" for name, number in facts["versions"].items())
    link = f"base_model: {base['name']}\n" if "/" in base["name"] else ""
    return f"""---
library_name: transformers
pipeline_tag: text-generation
tags: [rlcm-serve, {method.name}]
{link}---

# {base["name"]}, trained with {method.title}

{len(steps)} steps of {rollouts["prompts"]} prompts x {rollouts["per_prompt"]} rollouts took
{facts["seconds"] / 60:.0f} minutes. {_confidence(method, facts["has_probe"])}

    rlcm serve --model THIS_FOLDER

No certificate comes with it: before it can promise a risk, record traces and fit one (`rlcm
collect`, `rlcm fit`).

## Training

Means over the first and the last {min(_WINDOW, len(steps))} steps, on training problems, under the
policy of that time. They say how training went, and nothing of other problems: for that, `rlcm
eval`.

| | first | last |
|---|---|---|
{_table(steps)}

- **Data**: {data["source"]}, {data["problems"]} problems, digest `{data["digest"]}`.
- **Base model**: {base["name"]}, digest `{base["digest"]}`.
- **Versions**: {versions}.

Curves of every step are in `training.json`, with these settings:

```json
{json.dumps(kept, indent=1, default=list)}
```
"""


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
    return "It has no probe yet: train one (`rlcm train probe`)."


def _table(steps: Sequence[Mapping[str, Any]]) -> str:
    rows = []
    for key, name in _SHOWN.items():
        values = [float(entry[key]) for entry in steps if entry.get(key) is not None]
        if values:
            first, last = (fmean(part) for part in (values[:_WINDOW], values[-_WINDOW:]))
            rows.append(f"| {name} | {first:.4g} | {last:.4g} |")
    return "\n".join(rows)
