"""The confidence probe that is trained together with the policy (RLCM §3.2)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, gelu, relu

from rlcm_serve.engine.worker.probe import Probe
from training.errors import TrainingRefused
from training.probe.plain import plain_probe
from training.rl.settings import ProbeSettings

PROBE_STATE = "probe.pt"
"""The probe's file in a checkpoint: what `JointProbe.whole_state` returns."""

LEAST_CUTS = 32
"""Of the first rollouts of all ranks, to take the scale of states from."""

Sum = Callable[[Tensor], Tensor]
"""The sum of a tensor over all ranks."""

_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"gelu": gelu, "relu": relu}


class JointProbe(nn.Module):
    """A 2-layer MLP on detached states; its gradients do not reach the policy.

    Inputs are standardised by the mean and standard deviation of the first batch of states, unless
    the settings say otherwise.
    The probe is not part of the policy's module: the policy's optimiser and wrapping (FSDP, DDP)
    do not see it. All ranks hold the same weights and sum their gradients.

    Args:
        hidden_size: length of a state vector.
        settings: of the probe and its optimiser.
        seed: of weights, shuffling and dropout; the global random state does not change.
    """

    mean_H: Tensor
    scale_H: Tensor

    def __init__(self, hidden_size: int, settings: ProbeSettings, seed: int) -> None:
        super().__init__()
        width = hidden_size // 4 if settings.width is None else settings.width
        with torch.random.fork_rng(devices=()):
            torch.manual_seed(seed)
            self.inner = nn.Linear(hidden_size, width)
            self.outer = nn.Linear(width, 1)
        self.register_buffer("mean_H", torch.zeros(hidden_size))
        unknown = torch.zeros if settings.is_standardised else torch.ones
        self.register_buffer("scale_H", unknown(hidden_size))
        self.settings = settings
        self.draw = torch.Generator().manual_seed(seed)
        self.optimizer = torch.optim.AdamW(
            self.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay
        )

    @property
    def is_scaled(self) -> bool:
        """Whether the standardisation is set, which the first batch does."""
        return bool(self.scale_H.any())

    def scale_to(self, hidden_NH: Tensor, over_ranks: Sum) -> None:
        """Sets the standardisation from these states, over all ranks; not from none."""
        wide_NH = hidden_NH.double()
        count = over_ranks(torch.tensor(float(len(wide_NH)), device=wide_NH.device))
        if not count:
            return
        mean_H = over_ranks(wide_NH.sum(0)) / count
        variance_H = over_ranks(((wide_NH - mean_H) ** 2).sum(0)) / count
        self.mean_H.copy_(mean_H)
        self.scale_H.copy_(variance_H.sqrt() + 1e-3)

    def ensure_scale(self, states: Sequence[Tensor], over_ranks: Sum) -> None:
        """Sets the standardisation from the first rollouts, unless it is set.

        Args:
            states: by rollout, shape (budgets + 1, hidden): at its budgets, then at its end. The
                budgets count.

        Raises:
            TrainingRefused: on all ranks, if all of them have fewer than `LEAST_CUTS` budgets. A
                scale from so few would stay for the whole run, and later states would be far off.
        """
        if self.is_scaled:
            return
        hidden_NH = torch.cat([own[:-1] for own in states])
        count = _count(hidden_NH, over_ranks)
        if count < LEAST_CUTS:
            raise TrainingRefused(
                f"the first rollouts have {count} budgets together, and the probe needs "
                f"{LEAST_CUTS} to learn the scale of the model's states: lower interval (or give "
                "more fractions) in [budgets], or raise prompts or per_prompt in [rollouts]"
            )
        self.scale_to(hidden_NH, over_ranks)

    def forward(self, hidden_NH: Tensor) -> Tensor:
        """Log-odds of the confidence, shape (N,); without dropout."""
        return self._logit(hidden_NH, dropout=0.0)

    def _logit(self, hidden_NH: Tensor, dropout: float) -> Tensor:
        activation = _ACTIVATIONS[self.settings.activation]
        active_NW = activation(self.inner((hidden_NH - self.mean_H) / self.scale_H))
        if dropout:
            draw_NW = torch.rand(active_NW.shape, generator=self.draw).to(active_NW)
            active_NW = active_NW * (draw_NW >= dropout) / (1 - dropout)
        logit_N: Tensor = self.outer(active_NW)[:, 0]
        return logit_N

    @torch.no_grad()
    def confidence(self, hidden_NH: Tensor) -> Tensor:
        """C_b in (0, 1), shape (N,)."""
        return torch.sigmoid(self(hidden_NH))

    def readings(self, states: Sequence[Tensor]) -> list[list[float]]:
        """The confidence at every cut of each rollout."""
        confidence_N = self.confidence(torch.cat(list(states)))
        return [own.tolist() for own in torch.split(confidence_N, [len(own) for own in states])]

    def update(self, hidden_NH: Tensor, target_N: Tensor, over_ranks: Sum) -> float:
        """Trains on a step's cuts: soft-target binary cross-entropy, averaged over all ranks' cuts.

        Returns:
            The loss before the first optimizer step, in nats per cut; NaN if no rank has a cut.
        """
        count = _count(target_N, over_ranks)
        if not count:
            return float("nan")
        with torch.no_grad():
            loss = binary_cross_entropy_with_logits(self(hidden_NH), target_N, reduction="sum")
        before = float(over_ranks(loss) / count)
        size = self.settings.minibatch or count
        for _ in range(self.settings.updates):
            order_N = torch.arange(len(target_N))
            if self.settings.minibatch is not None:
                order_N = torch.randperm(len(target_N), generator=self.draw)
            for rows_B in torch.tensor_split(order_N, math.ceil(count / size)):
                self._step(hidden_NH[rows_B], target_N[rows_B], over_ranks)
        return before

    def _step(self, hidden_BH: Tensor, target_B: Tensor, over_ranks: Sum) -> None:
        """One optimizer step; none if no rank has a cut."""
        count = _count(target_B, over_ranks)
        if not count:
            return
        self.optimizer.zero_grad()
        logit_B = self._logit(hidden_BH, self.settings.dropout)
        loss = binary_cross_entropy_with_logits(logit_B, target_B, reduction="sum")
        (loss / count).backward()  # type: ignore[no-untyped-call]
        for parameter in self.parameters():
            if parameter.grad is not None:
                parameter.grad = over_ranks(parameter.grad)
        self.optimizer.step()

    def as_probe(self) -> Probe:
        """The service's probe, which has no standardisation: it is merged into the first layer.

        Raises:
            ValueError: the service has no such probe (`ProbeSettings.is_servable`).
        """
        if not self.settings.is_servable:
            raise ValueError("the service reads one state, through GELU; this probe does not")
        return plain_probe(self.inner, self.outer, self.mean_H, self.scale_H)

    def whole_state(self) -> dict[str, Any]:
        """Weights, optimiser state and random state, for a checkpoint."""
        return {
            "weights": self.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "draw": self.draw.get_state(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Loads a state that `whole_state` returned.

        Earlier versions stored no random state. A probe that draws nothing needs none.

        Raises:
            TrainingRefused: the state has none, and this probe shuffles or drops out.
        """
        check_state(state, self.settings)
        self.load_state_dict(state["weights"])
        self.optimizer.load_state_dict(state["optimizer"])
        if "draw" in state:
            self.draw.set_state(state["draw"].cpu())


def check_state(state: Mapping[str, Any], settings: ProbeSettings) -> None:
    """Checks that a run can continue with this state of its probe.

    Raises:
        TrainingRefused: it cannot; the message says what to do.
    """
    draws = settings.minibatch is not None or settings.dropout > 0
    missing = {"weights", "optimizer", *(("draw",) if draws else ())} - state.keys()
    if missing:
        raise TrainingRefused(
            f"the last checkpoint's {PROBE_STATE} has no {', '.join(sorted(missing))}, so the "
            "probe cannot continue from it; another version may have written it: continue with "
            "that version, or give another --out to start again"
        )


def require_finite(states: Sequence[Tensor], over_ranks: Sum, step: int) -> None:
    """Checks that a probe can read the states of a step.

    A number that is none would make the probe's weights NaN for good, and rewards without it.

    Args:
        states: by rollout; at least one.
        step: from 1, for the message.

    Raises:
        TrainingRefused: on all ranks, if states of any are NaN or infinite.
    """
    broken = torch.tensor(float(sum(not own.isfinite().all() for own in states)))
    if count := int(over_ranks(broken.to(states[0].device))):
        raise TrainingRefused(
            f"states of {count} rollouts in step {step} are NaN or infinite, so no probe can read "
            "them: the policy has diverged, or its numbers overflow; start again with a smaller "
            "learning_rate in [policy], or, with `rlcm train rl`, with bf16 = false"
        )


def _count(rows_N: Tensor, over_ranks: Sum) -> int:
    """The cuts of all ranks."""
    return int(over_ranks(torch.tensor(float(len(rows_N)), device=rows_N.device)))
