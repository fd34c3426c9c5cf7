"""What readings should be: a forward pass of transformers over whole sequences, in this process.

The model is loaded on the CPU in float32, whatever the engine runs on. Nothing here is shared with
vLLM's worker but the probe's weights and the definitions of statistics and signals.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import torch

from rlcm_serve.core import Signal, TokenIds
from rlcm_serve.engine.model_files import ModelFiles
from rlcm_serve.engine.worker.probe import Probe
from rlcm_serve.engine.worker.signals import TokenFigures, window_of
from rlcm_serve.engine.worker.statistics import TOP_TOKENS, Figures, TokenStatistics


class Expected(NamedTuple):
    """What a reading after some tokens should be.

    Attributes:
        confidence: of the source that exits act on; NaN without a probe.
        state_H: the final-layer state.
    """

    confidence: float
    state_H: torch.Tensor


class Forward:
    """The model in transformers, with the probe that the engine reads.

    Args:
        files: of the model; its weights are loaded.
        stop_ids: the two ids that are never sampled.
        signal: the source of the confidence.
        interval: tokens between two readings.

    Raises:
        Exception: whatever transformers raises for a model that it cannot load.
    """

    def __init__(
        self, files: ModelFiles, stop_ids: Sequence[int], signal: Signal, interval: int
    ) -> None:
        from transformers import AutoModelForCausalLM

        with _no_progress_bar():
            model = AutoModelForCausalLM.from_pretrained(files.folder, dtype=torch.float32)
        self._model = model.eval()
        self._probe = Probe.load(files.probe_folder) if files.probe is not None else None
        self._stop_ids, self._signal, self._interval = list(stop_ids), signal, interval

    def expected(
        self, prompt: TokenIds, thinking: TokenIds, lengths: Sequence[int]
    ) -> list[Expected]:
        """What the readings after so many tokens of the thinking should be."""
        with torch.inference_mode():
            out = self._model(torch.tensor([[*prompt, *thinking]]), output_hidden_states=True)
            states_TH = out.hidden_states[-1][0, len(prompt) - 1 :].float()
            figures_TF = self._figures(out.logits[0, len(prompt) - 1 : -1].float(), thinking)
        return [
            Expected(self._confidence(states_TH[at], figures_TF[:at]), states_TH[at])
            for at in lengths
        ]

    def _figures(self, logits_TV: torch.Tensor, sampled: TokenIds) -> Figures:
        logits_TV[:, self._stop_ids] = float("-inf")
        log_probs_TV = logits_TV.log_softmax(dim=-1)
        figures = (
            log_probs_TV[range(len(sampled)), list(sampled)],
            torch.special.entr(log_probs_TV.exp()).sum(dim=-1),
            -log_probs_TV.topk(TOP_TOKENS, dim=-1).values.mean(dim=-1),
        )
        return torch.stack(figures, dim=1).numpy().astype(np.float32)

    def _confidence(self, state_H: torch.Tensor, figures_TF: Figures) -> float:
        if self._signal is not Signal.PROBE:
            figures = TokenFigures(window_of(self._interval))
            figures.extend(figures_TF)
            return float(figures.read()[list(Signal).index(self._signal) - 1])
        if self._probe is None:
            return float("nan")
        statistics = torch.from_numpy(TokenStatistics().read(figures_TF))
        return float(self._probe.confidence(state_H[None], statistics[None]))


@contextmanager
def _no_progress_bar() -> Iterator[None]:
    """Lets transformers load a model without writing to the terminal."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
