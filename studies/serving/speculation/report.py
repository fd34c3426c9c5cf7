"""The figures of the study, from the rollouts that exist."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from rlcm_serve.core import Message, Role
from rlcm_serve.engine.model_files import EMBEDDED_MODEL, ModelFiles
from rlcm_serve.engine.model_text import ModelText
from studies.serving.speculation.distribution import Outcomes, p_values, rejected
from studies.serving.speculation.equality import Gap, compare
from studies.serving.speculation.power import smallest_found
from studies.serving.speculation.rollouts import DRAFTS, Arm, Chunk, Plan, Seen, load
from training.tasks.problems import Split, sample_problems


def figures(folder: Path, greedy: Plan, sampled: Plan) -> dict[str, Any]:
    """All figures; parts without rollouts are left out."""
    found: dict[str, Any] = {"drafts": DRAFTS}
    plain, drafted = (load(folder, greedy, arm) for arm in (Arm.PLAIN, Arm.DRAFTS))
    if plain and drafted:
        equality = compare(_all(plain), _all(drafted), gap_of(greedy))
        found["greedy"] = {"thinking": greedy.thinking, **asdict(equality)}
        found["greedy"]["steps"] = steps(drafted)
    by_arm = {arm: load(folder, sampled, arm) for arm in sampled.arms}
    if by_arm[Arm.PLAIN] and by_arm[Arm.DRAFTS]:
        found["sampled"] = _sampled({arm: _all(chunks) for arm, chunks in by_arm.items()}, sampled)
        found["sampled"]["steps"] = steps(by_arm[Arm.DRAFTS])
    return found


def _all(chunks: Sequence[Chunk]) -> list[Seen]:
    return list(chain.from_iterable(chunk.rollouts for chunk in chunks))


def _sampled(by_arm: dict[Arm, list[Seen]], plan: Plan) -> dict[str, Any]:
    shared = set.intersection(*({one.question for one in own} for own in by_arm.values() if own))
    outcomes = {
        arm: Outcomes.of([one for one in own if one.question in shared])
        for arm, own in by_arm.items()
        if own
    }
    rng = np.random.default_rng(0)
    found: dict[str, Any] = {
        "thinking": plan.thinking,
        "temperature": plan.temperature,
        "questions": len(shared),
        "samples": plan.samples,
    }
    for arm in (Arm.DRAFTS, Arm.BROKEN):
        if arm in outcomes:
            p = p_values(outcomes[Arm.PLAIN], outcomes[arm], rng)
            found[str(arm)] = {"p": p, "differs": rejected(p)}
    found["found_with_power_0.9"] = smallest_found(
        outcomes[Arm.PLAIN].joined(outcomes[Arm.DRAFTS]), plan.samples, rng
    )
    return found


def steps(chunks: Sequence[Chunk]) -> dict[str, float]:
    """Tokens per step of a request, and what drafts cost and save.

    A request's first token comes with its prompt, without drafts. Without drafts, a token is a
    step. `past_an_end` are accepted drafts that a stop or an end of text cut off.
    """
    counts = {name: sum(one.counts[name] for one in chunks) for name in chunks[0].counts}
    rollouts = _all(chunks)
    taken = counts["verifications"] + len(rollouts)
    return {
        "rollouts": len(rollouts),
        "tokens": counts["generated"],
        "steps": taken,
        "tokens_per_step": counts["generated"] / taken,
        "steps_saved": 1 - taken / counts["generated"],
        "accepted": counts["accepted"] / counts["drafted"],
        "discarded_tokens": sum(one.discarded for one in rollouts),
        "past_an_end": counts["accepted"] + taken - counts["generated"],
    }


def gap_of(plan: Plan) -> Gap:
    """The difference of the top two logits, by a forward pass of transformers."""
    model = AutoModelForCausalLM.from_pretrained(EMBEDDED_MODEL, dtype=torch.float32).eval()
    files = ModelFiles.read(EMBEDDED_MODEL)
    text = ModelText(files, AutoTokenizer.from_pretrained(EMBEDDED_MODEL))
    questions = [p.question for p in sample_problems(Split.VALIDATION, plan.prompts, seed=41)]

    def gap(question: int, tokens: tuple[int, ...]) -> float:
        prompt = text.prompt([Message(Role.USER, questions[question])])
        with torch.inference_mode():
            logits_V = model(torch.tensor([[*prompt, *tokens]])).logits[0, -1]
        logits_V[[text.stop_high, text.stop_low]] = float("-inf")
        first, second = logits_V.topk(2).values.tolist()
        return float(first - second)

    return gap
