"""The confidence probe that is trained together with the policy (RLCM §3.2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from rlcm_serve.engine.worker.probe import Probe
from training.probe.plain import plain_probe
from training.rl.settings import ProbeSettings

Sum = Callable[[Tensor], Tensor]
"""The sum of a tensor over all ranks."""


class JointProbe(nn.Module):
    """A 2-layer MLP on detached states; its gradients do not reach the policy.

    Inputs are standardised by the mean and standard deviation of the first batch of states.
    The probe is not part of the policy's module: the policy's optimiser and wrapping (FSDP, DDP)
    do not see it. All ranks hold the same weights and sum their gradients.

    Args:
        hidden_size: length of a state vector.
        settings: of the probe and its optimiser.
        seed: of the initial weights; the global random state does not change.
    """

    mean_H: Tensor
    scale_H: Tensor

    def __init__(self, hidden_size: int, settings: ProbeSettings, seed: int) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=()):
            torch.manual_seed(seed)
            self.inner = nn.Linear(hidden_size, settings.width)
            self.outer = nn.Linear(settings.width, 1)
        self.register_buffer("mean_H", torch.zeros(hidden_size))
        self.register_buffer("scale_H", torch.zeros(hidden_size))
        self.updates = settings.updates
        self.optimizer = torch.optim.AdamW(
            self.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay
        )

    @property
    def is_scaled(self) -> bool:
        """Whether the standardisation is set, which the first batch does."""
        return bool(self.scale_H.any())

    def scale_to(self, hidden_NH: Tensor, over_ranks: Sum) -> None:
        """Sets the standardisation from these states, over all ranks."""
        wide_NH = hidden_NH.double()
        count = over_ranks(torch.tensor(float(len(wide_NH)), device=wide_NH.device)).clamp(min=1)
        mean_H = over_ranks(wide_NH.sum(0)) / count
        variance_H = over_ranks(((wide_NH - mean_H) ** 2).sum(0)) / count
        self.mean_H.copy_(mean_H)
        self.scale_H.copy_(variance_H.sqrt() + 1e-3)

    def forward(self, hidden_NH: Tensor) -> Tensor:
        """Log-odds of the confidence, shape (N,)."""
        return self.as_probe().logit(hidden_NH)

    @torch.no_grad()
    def confidence(self, hidden_NH: Tensor) -> Tensor:
        """C_b in (0, 1), shape (N,)."""
        return torch.sigmoid(self(hidden_NH))

    def update(self, hidden_NH: Tensor, target_N: Tensor, over_ranks: Sum) -> float:
        """Trains on one batch: soft-target binary cross-entropy, averaged over all ranks' cuts.

        Returns:
            The loss before the first step, in nats per cut; NaN if no rank has a cut.
        """
        count = over_ranks(torch.tensor(float(len(target_N)), device=target_N.device))
        if not count:
            return float("nan")
        before = None
        for _ in range(self.updates):
            self.optimizer.zero_grad()
            loss = binary_cross_entropy_with_logits(self(hidden_NH), target_N, reduction="sum")
            (loss / count).backward()  # type: ignore[no-untyped-call]
            for parameter in self.parameters():
                if parameter.grad is not None:
                    parameter.grad = over_ranks(parameter.grad)
            self.optimizer.step()
            if before is None:
                before = float(over_ranks(loss.detach()) / count)
        return float("nan") if before is None else before

    def as_probe(self) -> Probe:
        """The service's probe, which has no standardisation: it is merged into the first layer."""
        return plain_probe(self.inner, self.outer, self.mean_H, self.scale_H)

    def whole_state(self) -> dict[str, Any]:
        """Weights and optimiser state, for a checkpoint."""
        return {"weights": self.state_dict(), "optimizer": self.optimizer.state_dict()}

    def restore(self, state: dict[str, Any]) -> None:
        """Loads a state that `whole_state` returned."""
        self.load_state_dict(state["weights"])
        self.optimizer.load_state_dict(state["optimizer"])
