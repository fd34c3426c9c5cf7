"""Post-hoc training of the confidence probe (RLCM §3.2, App. B), for any model, without RL.

The data are rollouts on training problems, with K forced answers and the hidden state at every N-th
token. The loss is soft-target binary cross-entropy on 80% of the problems; the other 20% decide
when to stop early.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from rlcm_serve.engine.worker.probe import STATE_ALONE, Probe, ProbeInputs
from training.probe.data import FIT_SHARE, ProbeData, chunks, split_by_unit
from training.probe.metrics import ProbeMetrics, measure_probe
from training.probe.plain import mean_probe, plain_probe

Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ProbeTraining:
    """Settings of one fit.

    Attributes:
        inputs: what the probe reads.
        heads: networks that are fitted from different random weights. The probe's log-odds are the
            mean of theirs, so it is one network of heads x width hidden units.
        width: hidden units of a head.
        patience: epochs without a better validation loss before a head's fit stops.
    """

    inputs: ProbeInputs = STATE_ALONE
    heads: int = 3
    width: int = 256
    learning_rate: float = 1e-3
    weight_decay: float = 0.05
    dropout: float = 0.1
    batch: int = 256
    epochs: int = 60
    patience: int = 6
    seed: int = 0


def fit_probe(
    data: ProbeData, training: ProbeTraining = ProbeTraining(), report: Report = lambda line: None
) -> tuple[Probe, ProbeMetrics]:
    """Fits a probe to 80% of the problems; each head is taken at its best epoch on the other 20%.

    Raises:
        TrainingRefused: there are too few problems, or the data lack an input.
    """
    fit_N, validation_N = split_by_unit(data, FIT_SHARE, training.seed)
    problem = _Problem(data, training.inputs, fit_N, validation_N)
    probe = mean_probe(
        [_fit_head(problem, training, head, report) for head in range(training.heads)]
    )
    return probe, measure_probe(probe, data, validation_N, float(data.target_N[fit_N].mean()))


class _Problem:
    """Standardised inputs and targets, for fitting and validation."""

    def __init__(
        self, data: ProbeData, inputs: ProbeInputs, fit_N: Tensor, validation_N: Tensor
    ) -> None:
        self.data, self.inputs, self.validation_N = data, inputs, validation_N
        self.fit_rows = fit_N.nonzero()[:, 0]
        self.mean_I, self.scale_I = _moments(data, inputs, fit_N)

    def standardised(self, rows_B: Tensor) -> Tensor:
        """The inputs at some of the cuts (B, I)."""
        return (self.data.inputs(self.inputs, rows_B) - self.mean_I) / self.scale_I

    def validation_loss(self, layers: nn.Module) -> float:
        """Binary cross-entropy on the validation problems."""
        with torch.inference_mode():
            logit_V = torch.cat(
                [layers(self.standardised(part))[:, 0] for part in chunks(self.validation_N)]
            )
            target_V = self.data.target_N[self.validation_N]
            return binary_cross_entropy_with_logits(logit_V, target_V).item()


def _fit_head(problem: _Problem, training: ProbeTraining, head: int, report: Report) -> Probe:
    torch.manual_seed(training.seed + head)
    inner = nn.Linear(len(problem.mean_I), training.width)
    outer = nn.Linear(training.width, 1)
    layers = nn.Sequential(inner, nn.GELU(), nn.Dropout(training.dropout), outer)
    optimizer = torch.optim.AdamW(
        layers.parameters(), lr=training.learning_rate, weight_decay=training.weight_decay
    )
    rows, target_N = problem.fit_rows, problem.data.target_N
    best, best_state, stale = math.inf, layers.state_dict(), 0
    for epoch in range(training.epochs):
        layers.train()
        shuffled = rows[torch.randperm(len(rows))]
        for batch in torch.split(shuffled, training.batch):
            logits_B = layers(problem.standardised(batch))[:, 0]
            loss = binary_cross_entropy_with_logits(logits_B, target_N[batch])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        layers.eval()
        bce = problem.validation_loss(layers)
        report(f"head {head + 1}, epoch {epoch + 1}: validation BCE {bce:.4f}")
        if bce < best - 1e-5:
            best, stale = bce, 0
            best_state = {name: value.clone() for name, value in layers.state_dict().items()}
        elif (stale := stale + 1) >= training.patience:
            break
    layers.load_state_dict(best_state)
    with torch.no_grad():
        return plain_probe(inner, outer, problem.mean_I, problem.scale_I, training.inputs)


def _moments(data: ProbeData, inputs: ProbeInputs, on_N: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and scale (I) of the inputs over some of the cuts, in two passes over the file."""
    count = int(on_N.sum())
    total_I = sum(data.inputs(inputs, part).double().sum(0) for part in chunks(on_N))
    mean_I = torch.as_tensor(total_I) / count
    squares_I = sum(
        (data.inputs(inputs, part).double() - mean_I).square().sum(0) for part in chunks(on_N)
    )
    deviation_I = (torch.as_tensor(squares_I) / max(count - 1, 1)).sqrt()
    return mean_I.float(), deviation_I.float() + 1e-3
