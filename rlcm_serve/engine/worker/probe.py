"""The confidence probe (RLCM §3.2): a 2-layer MLP on the policy's final-layer hidden state."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Self

import torch
from safetensors.torch import load_file, save
from torch import Tensor
from torch.nn.functional import gelu, linear

PROBE_FOLDER = "probe"
WEIGHTS_FILE, CONFIG_FILE = "probe.safetensors", "config.json"


@dataclass(frozen=True, slots=True)
class ProbeConfig:
    """The sizes of a probe, and the tokens between two readings in its training."""

    hidden_size: int
    width: int
    checkpoint_interval: int

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Reads `folder/config.json`.

        Raises:
            FileNotFoundError: the folder holds no probe.
        """
        stored = json.loads((folder / CONFIG_FILE).read_text())
        return cls(**{field.name: stored[field.name] for field in fields(cls)})


@dataclass(frozen=True, slots=True)
class Probe:
    """Weights of one probe in float32; plain tensors, so that no model loader handles them.

    Shapes: hidden_weight (W, H), hidden_bias (W), output_weight (1, W), output_bias (1).
    """

    hidden_weight: Tensor
    hidden_bias: Tensor
    output_weight: Tensor
    output_bias: Tensor

    def logit(self, hidden_NH: Tensor) -> Tensor:
        """Log-odds of the confidence, shape (N,), float32."""
        inner_NW = gelu(linear(hidden_NH.float(), self.hidden_weight, self.hidden_bias))
        return linear(inner_NW, self.output_weight, self.output_bias).squeeze(-1)

    def confidence(self, hidden_NH: Tensor) -> Tensor:
        """C_b in (0, 1) for each state: the probability that the prefix leads to the right answer.

        Args:
            hidden_NH: final-layer states (after the final norm) at the last token of each prefix.

        Returns:
            Shape (N,), float32.
        """
        return torch.sigmoid(self.logit(hidden_NH))

    def save(self, folder: Path, checkpoint_interval: int) -> None:
        """Writes weights and configuration into `folder`."""
        folder.mkdir(parents=True, exist_ok=True)
        width, hidden_size = self.hidden_weight.shape
        config = ProbeConfig(hidden_size, width, checkpoint_interval)
        weights = {f.name: getattr(self, f.name).detach().contiguous().cpu() for f in fields(self)}
        # Not `save_file`: only the file's owner could read the result.
        (folder / WEIGHTS_FILE).write_bytes(save(weights))
        (folder / CONFIG_FILE).write_text(json.dumps(asdict(config), indent=2) + "\n")

    @classmethod
    def load(cls, folder: Path, device: torch.device | str = "cpu") -> Self:
        """Reads the weights of `folder` onto `device`.

        Raises:
            FileNotFoundError: there is no probe in the folder.
        """
        stored = load_file(folder / WEIGHTS_FILE)
        return cls(**{f.name: stored[f.name].to(device, torch.float32) for f in fields(cls)})
