"""Adds a confidence probe to any causal language model of vLLM.

This module's `__getattr__` creates `Probed<Arch>` on demand, as a subclass of vLLM's class for
`<Arch>`, which it replaces in vLLM's registry. The subclass keeps the states from which it computes
logits, so that the exit control can read them. It also masks the two stop ids, so that they are
never sampled by chance.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from vllm.config import VllmConfig

from rlcm_serve.engine.worker.figures.distributions import prepare
from rlcm_serve.engine.worker.plugin import CONFIG_KEY, OWN, PROBED
from rlcm_serve.engine.worker.probe import Probe


class LatestStates:
    """The latest logits, the states behind them, and the probe that reads those.

    vLLM passes a logits processor neither the model nor its states, so they are shared here. One
    worker is one process, and its model runner computes logits and then samples in one thread.
    """

    def __init__(self) -> None:
        self.probe: Probe | None = None
        self.hidden_NH: torch.Tensor | None = None
        self.logits_NV: torch.Tensor | None = None  # kept only if tokens are tracked

    def rows(self, start: int, count: int) -> LatestStates:
        """The part of a step whose logits a processor is given."""
        if self.hidden_NH is None or count == len(self.hidden_NH):
            return self
        some, own = LatestStates(), slice(start, start + count)
        some.probe, some.hidden_NH = self.probe, self.hidden_NH[own]
        some.logits_NV = None if self.logits_NV is None else self.logits_NV[own]
        return some

    @property
    def reads_tokens(self) -> bool:
        """Whether there is a probe that reads statistics of the tokens."""
        return self.probe is not None and self.probe.reads_tokens

    def confidence(
        self,
        rows: list[int],
        hidden_NH: torch.Tensor | None = None,
        statistics_NS: npt.NDArray[np.float32] | None = None,
    ) -> list[float]:
        """Confidence at some rows of the latest states, or of earlier states that were kept.

        For a model without a probe it is NaN, which never fires an exit.

        Args:
            rows: of the states.
            hidden_NH: earlier states.
            statistics_NS: of the tokens before each row, for a probe that reads them.
        """
        states_NH = self.hidden_NH if hidden_NH is None else hidden_NH
        if self.probe is None or states_NH is None:
            return [math.nan] * len(rows)
        read_NS = None
        if self.probe.reads_tokens and statistics_NS is not None:
            read_NS = torch.from_numpy(statistics_NS).to(states_NH.device)
        confidence: list[float] = self.probe.confidence(states_NH[rows], read_NS).tolist()
        return confidence

    def states(
        self, rows: list[int], hidden_NH: torch.Tensor | None = None
    ) -> npt.NDArray[np.float32]:
        """Some rows of the latest states, or of earlier ones, as float32 on the host.

        Where no states were kept, because vLLM computes logits with another model, each row is a
        single NaN. The self-test reports that; an error here would only kill the engine.
        """
        states_NH = self.hidden_NH if hidden_NH is None else hidden_NH
        if states_NH is None:
            return np.full((len(rows), 1), np.nan, np.float32)
        found: npt.NDArray[np.float32] = states_NH[rows].float().cpu().numpy()
        return found


LATEST = LatestStates()


def _probed(base: type[nn.Module]) -> type[nn.Module]:
    class Probed(base):  # type: ignore[misc, valid-type]
        def __init__(self, *, vllm_config: VllmConfig, prefix: str = "") -> None:
            super().__init__(vllm_config=vllm_config, prefix=prefix)
            self._is_served = _is_served(vllm_config)
            if not self._is_served:
                return
            config = vllm_config.additional_config[CONFIG_KEY]
            self._reserved = slice(*config["reserved"])
            self._keeps_logits = config["tokens"]
            device = torch.get_default_device()
            if self._keeps_logits:
                prepare(device)
            if config["probe"] is not None:
                LATEST.probe = Probe.load(Path(config["probe"]), device)

        def compute_logits(
            self, hidden_states: torch.Tensor, *args: Any, **kwargs: Any
        ) -> torch.Tensor | None:
            logits: torch.Tensor | None = super().compute_logits(hidden_states, *args, **kwargs)
            if not self._is_served:
                return logits
            LATEST.hidden_NH = hidden_states
            if logits is not None:
                logits[:, self._reserved] = float("-inf")
            if self._keeps_logits:
                LATEST.logits_NV = logits
            return logits

    Probed.__name__ = Probed.__qualname__ = PROBED + base.__name__
    Probed.__module__ = __name__
    return Probed


def _is_served(vllm_config: VllmConfig) -> bool:
    """Whether a model is under exit control.

    vLLM's registry also gives this class to a draft model of the same architecture, and to a model
    that the same process loads later without exit control.
    """
    controlled = CONFIG_KEY in vllm_config.additional_config
    return controlled and vllm_config.model_config.runner != "draft"


def __getattr__(name: str) -> type[nn.Module]:
    if not name.startswith(PROBED):
        raise AttributeError(name)
    entry = OWN.get(name.removeprefix(PROBED))
    if entry is None:
        raise AttributeError(f"vLLM has no model {name.removeprefix(PROBED)!r}")
    probed = _probed(entry.load_model_cls())
    globals()[name] = probed
    return probed
