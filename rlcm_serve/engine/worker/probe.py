"""The confidence probe (RLCM §3.2): a 2-layer MLP on the policy's final-layer hidden state.

A probe can also read statistics of the rollout's own tokens. Then the statistics follow the state
in the input of the first layer. Standardisation of the inputs is part of that layer's weights.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

import torch
from safetensors.torch import load_file, save
from torch import Tensor
from torch.nn.functional import gelu, linear

from rlcm_serve.engine.worker.statistics import DEFINITION, STATISTICS
from rlcm_serve.errors import ModelRefused

PROBE_FOLDER = "probe"
WEIGHTS_FILE, CONFIG_FILE = "probe.safetensors", "config.json"
_TENSORS = ("hidden_weight", "hidden_bias", "output_weight", "output_bias")


class ProbeInput(StrEnum):
    """What a probe reads."""

    STATE = "state"
    """The final-layer hidden state (H)."""

    TOKENS = "tokens"
    """The statistics of the tokens (S); see `rlcm_serve.engine.worker.statistics`."""


ProbeInputs = tuple[ProbeInput, ...]
STATE_ALONE: ProbeInputs = (ProbeInput.STATE,)
"""The paper's form. A probe without named inputs has it."""

STATE_AND_TOKENS: ProbeInputs = (ProbeInput.STATE, ProbeInput.TOKENS)


@dataclass(frozen=True, slots=True)
class ProbeConfig:
    """The sizes of a probe, the tokens between two readings in its training, and its inputs."""

    hidden_size: int
    width: int
    checkpoint_interval: int
    inputs: ProbeInputs = STATE_ALONE

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Reads `folder/config.json`.

        Raises:
            FileNotFoundError: the folder holds no probe.
            ModelRefused: the probe reads what this service does not compute.
        """
        stored = json.loads((folder / CONFIG_FILE).read_text())
        return cls(
            hidden_size=stored["hidden_size"],
            width=stored["width"],
            checkpoint_interval=stored["checkpoint_interval"],
            inputs=_inputs_of(folder, stored),
        )

    def to_json(self) -> dict[str, Any]:
        """The contents of the file."""
        plain: dict[str, Any] = {
            "hidden_size": self.hidden_size,
            "width": self.width,
            "checkpoint_interval": self.checkpoint_interval,
            "inputs": list(self.inputs),
        }
        return plain | ({"tokens": DEFINITION} if self.reads_tokens else {})

    @property
    def reads_tokens(self) -> bool:
        """Whether the probe reads statistics of the tokens."""
        return ProbeInput.TOKENS in self.inputs


def _inputs_of(folder: Path, stored: dict[str, Any]) -> ProbeInputs:
    listed = stored.get("inputs", STATE_ALONE)
    named = tuple(listed) if isinstance(listed, list | tuple) else (listed,)
    if named not in (STATE_ALONE, STATE_AND_TOKENS):
        raise ModelRefused(
            f"the probe in {folder} reads {', '.join(map(str, named)) or 'nothing'}, but this "
            "service knows probes of state, or of state and tokens: train one with "
            "`rlcm train probe`"
        )
    if named == STATE_AND_TOKENS and stored.get("tokens") != DEFINITION:
        raise ModelRefused(
            f"the probe in {folder} reads statistics of tokens with {stored.get('tokens')!r}, but "
            f"this service computes {DEFINITION!r}: train the probe again with `rlcm train probe`"
        )
    return tuple(map(ProbeInput, named))


@dataclass(frozen=True, slots=True)
class Probe:
    """Weights of one probe in float32; plain tensors, so that no model loader handles them.

    Shapes: hidden_weight (W, H), or (W, H + S) with tokens; hidden_bias (W), output_weight (1, W),
    output_bias (1).
    """

    hidden_weight: Tensor
    hidden_bias: Tensor
    output_weight: Tensor
    output_bias: Tensor
    inputs: ProbeInputs = STATE_ALONE

    @property
    def reads_tokens(self) -> bool:
        """Whether the probe reads statistics of the tokens."""
        return ProbeInput.TOKENS in self.inputs

    def logit(self, hidden_NH: Tensor, statistics_NS: Tensor | None = None) -> Tensor:
        """Log-odds of the confidence, shape (N,), float32. Arguments as of `confidence`.

        Raises:
            ValueError: the probe reads statistics, but there are none.
        """
        inputs_NI = hidden_NH.float()
        if self.reads_tokens:
            if statistics_NS is None:
                raise ValueError("this probe reads statistics of the tokens: pass statistics_NS")
            inputs_NI = torch.cat((inputs_NI, statistics_NS.to(inputs_NI)), dim=1)
        inner_NW = gelu(linear(inputs_NI, self.hidden_weight, self.hidden_bias))
        return linear(inner_NW, self.output_weight, self.output_bias).squeeze(-1)

    def confidence(self, hidden_NH: Tensor, statistics_NS: Tensor | None = None) -> Tensor:
        """C_b in (0, 1) for each state: the probability that the prefix leads to the right answer.

        Args:
            hidden_NH: final-layer states (after the final norm) at the last token of each prefix.
            statistics_NS: the `STATISTICS` of each prefix; a probe of states alone ignores them.

        Returns:
            Shape (N,), float32; NaN where a statistic is NaN and read.
        """
        return torch.sigmoid(self.logit(hidden_NH, statistics_NS))

    def save(self, folder: Path, checkpoint_interval: int) -> None:
        """Writes weights and configuration into `folder`."""
        folder.mkdir(parents=True, exist_ok=True)
        width, columns = self.hidden_weight.shape
        hidden_size = columns - len(STATISTICS) if self.reads_tokens else columns
        config = ProbeConfig(hidden_size, width, checkpoint_interval, self.inputs)
        weights = {name: getattr(self, name).detach().contiguous().cpu() for name in _TENSORS}
        # Not `save_file`: only the file's owner could read the result.
        (folder / WEIGHTS_FILE).write_bytes(save(weights))
        (folder / CONFIG_FILE).write_text(json.dumps(config.to_json(), indent=2) + "\n")

    @classmethod
    def load(cls, folder: Path, device: torch.device | str = "cpu") -> Self:
        """Reads the probe of `folder` onto `device`.

        Raises:
            FileNotFoundError: there is no probe in the folder.
            ModelRefused: as `ProbeConfig.load`.
        """
        stored = load_file(folder / WEIGHTS_FILE)
        weights = {name: stored[name].to(device, torch.float32) for name in _TENSORS}
        return cls(**weights, inputs=ProbeConfig.load(folder).inputs)
