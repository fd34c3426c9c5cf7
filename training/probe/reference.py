"""Readings of a probe without the engine: one plain forward of transformers over the sequence."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from rlcm_serve.core import TokenIds
from rlcm_serve.engine.worker.probe import Probe
from rlcm_serve.engine.worker.statistics import TOP_TOKENS, TokenStatistics


def reference_inputs(
    model_folder: Path,
    prompt: TokenIds,
    tokens: TokenIds,
    stop_ids: Sequence[int],
    adapter: Path | None = None,
) -> tuple[Tensor, Tensor]:
    """What a probe reads after 1, 2, ... tokens (T) of a rollout.

    Args:
        model_folder: folder with weights and configuration. The data type is kept.
        prompt: token ids, at least one.
        tokens: reasoning tokens.
        stop_ids: the ids that the engine keeps from being sampled.
        adapter: folder of a LoRA adapter that the model has, if any.

    Returns:
        The states (T, H), after the final norm, and the `STATISTICS` (T, S), both in float32.

    Raises:
        OSError, ValueError: transformers cannot load a model from `model_folder`.
    """
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    logging.disable_progress_bar()
    model = AutoModelForCausalLM.from_pretrained(model_folder, dtype="auto")
    if adapter is not None:
        model.load_adapter(str(adapter))
    model.eval()
    ids = torch.tensor([[*prompt, *tokens]], device=model.device)
    with torch.inference_mode():
        hidden_TH = model.base_model(input_ids=ids, use_cache=False).last_hidden_state[0]
        logits_TV = model(input_ids=ids, use_cache=False).logits[0, len(prompt) - 1 : -1].float()
        logits_TV[:, list(stop_ids)] = float("-inf")
        log_probs_TV = logits_TV.log_softmax(-1)
    return hidden_TH[len(prompt) :].float(), _statistics(log_probs_TV, tokens)


def reference_readings(
    probe: Probe, inputs: tuple[Tensor, Tensor], cuts: Sequence[int]
) -> list[float]:
    """The probe's confidence after each number of tokens in `cuts`."""
    rows = [cut - 1 for cut in cuts]
    with torch.inference_mode():
        confidence: list[float] = probe.confidence(*(part[rows] for part in inputs)).tolist()
    return confidence


def _statistics(log_probs_TV: Tensor, tokens: TokenIds) -> Tensor:
    log_prob_T = log_probs_TV[range(len(tokens)), list(tokens)]
    entropy_T = torch.special.entr(log_probs_TV.exp()).sum(-1)
    confidence_T = -log_probs_TV.topk(TOP_TOKENS).values.mean(-1)
    figures_TF = torch.stack((log_prob_T, entropy_T, confidence_T), 1).numpy()
    statistics = TokenStatistics()
    found_TS = [statistics.read(figures_TF[: count + 1]) for count in range(len(tokens))]
    return torch.from_numpy(np.stack(found_TS))
