"""Post-hoc training of the confidence probe (RLCM §3.2, App. B), for any model, without RL.

The data are rollouts on training problems, with K forced answers and the hidden state at every N-th
token. The loss is soft-target binary cross-entropy on 80% of the problems; the other 20% decide
when to stop early.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from calibration.metrics.ranking import auroc
from calibration.metrics.reliability import expected_calibration_error
from rlcm_serve.engine.worker.probe import Probe
from rlcm_serve.recording.rollouts import RecordedRollout
from training.errors import TrainingRefused
from training.plain_probe import plain_probe

Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ProbeData:
    """Cuts of reasoning (N): the state, and the share of right forced answers at each cut.

    Attributes:
        hidden_NH: final-layer state (after the final norm) at the last token of the prefix,
            float32.
        target_N: Y_b in [0, 1], float32.
        problem_N: index of the problem. A split keeps all cuts of one problem together.
        tokens_N: reasoning tokens before the cut.
    """

    hidden_NH: Tensor
    target_N: Tensor
    problem_N: Tensor
    tokens_N: Tensor


@dataclass(frozen=True, slots=True)
class ProbeTraining:
    """Settings of one fit; `patience` counts epochs without a better validation loss."""

    width: int = 256
    learning_rate: float = 1e-3
    weight_decay: float = 0.05
    dropout: float = 0.1
    batch: int = 256
    epochs: int = 60
    patience: int = 6
    seed: int = 0


@dataclass(frozen=True, slots=True)
class ProbeMetrics:
    """Metrics of a probe on problems that the fit did not use.

    AUROC counts Y_b >= 1/2 as positive (the split of RLCM §3.3); ECE has 10 equal-width bins and
    compares with the soft target. `bce_floor` is the loss of a probe that knows every Y_b, and
    `bce_constant` the loss of the mean of the fitted targets.
    """

    points: int
    problems: int
    bce: float
    bce_floor: float
    bce_constant: float
    auroc: float
    ece: float


def hidden_states(
    model_folder: Path,
    recordings: Sequence[RecordedRollout],
    device: str | None = None,
    advance: Callable[[], None] = lambda: None,
) -> ProbeData:
    """Runs each rollout through transformers once and returns the states at its cuts.

    Args:
        model_folder: folder with weights and configuration. The data type is kept.
        recordings: the rollouts.
        device: torch device; by default a GPU if there is one, else the CPU.
        advance: called after each rollout.

    Raises:
        OSError, ValueError: transformers cannot load a model from `model_folder`.
    """
    from transformers import AutoModel

    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    model = AutoModel.from_pretrained(model_folder, dtype="auto").to(device).eval()
    problems = {name: i for i, name in enumerate(dict.fromkeys(r.problem_id for r in recordings))}
    states, targets, owners, lengths = [], [], [], []
    with torch.inference_mode():
        for recording in recordings:
            ids = torch.tensor([[*recording.prompt, *recording.tokens]], device=device)
            hidden_TH = model(input_ids=ids, use_cache=False).last_hidden_state[0]
            for reading in recording.readings:
                states.append(hidden_TH[len(recording.prompt) + reading.tokens - 1].float().cpu())
                targets.append(reading.share_correct)
                owners.append(problems[recording.problem_id])
                lengths.append(reading.tokens)
            advance()
    return ProbeData(
        hidden_NH=torch.stack(states),
        target_N=torch.tensor(targets),
        problem_N=torch.tensor(owners),
        tokens_N=torch.tensor(lengths),
    )


def split_by_problem(data: ProbeData, share: float, seed: int) -> tuple[Tensor, Tensor]:
    """Masks over cuts for fitting (`share` of the problems) and validation.

    Raises:
        TrainingRefused: there are too few problems for both.
    """
    problems = torch.unique(data.problem_N)
    count = round(share * len(problems))
    if not 0 < count < len(problems):
        raise TrainingRefused(
            f"{len(problems)} problems cannot be split {share:.0%} to {1 - share:.0%}: record more"
        )
    order = torch.randperm(len(problems), generator=torch.Generator().manual_seed(seed))
    fit_N = torch.isin(data.problem_N, problems[order[:count]])
    return fit_N, ~fit_N


def fit_probe(
    data: ProbeData, training: ProbeTraining = ProbeTraining(), report: Report = lambda line: None
) -> tuple[Probe, ProbeMetrics]:
    """Fits a probe to 80% of the problems and returns its best state on the other 20%."""
    fit_N, validation_N = split_by_problem(data, 0.8, training.seed)
    mean_H = data.hidden_NH[fit_N].mean(0)
    scale_H = data.hidden_NH[fit_N].std(0) + 1e-3
    inputs_NH = (data.hidden_NH - mean_H) / scale_H
    torch.manual_seed(training.seed)
    inner, outer = nn.Linear(inputs_NH.shape[1], training.width), nn.Linear(training.width, 1)
    layers = nn.Sequential(inner, nn.GELU(), nn.Dropout(training.dropout), outer)
    optimizer = torch.optim.AdamW(
        layers.parameters(), lr=training.learning_rate, weight_decay=training.weight_decay
    )
    rows = fit_N.nonzero()[:, 0]
    best, best_state, stale = math.inf, layers.state_dict(), 0
    for epoch in range(training.epochs):
        layers.train()
        shuffled = rows[torch.randperm(len(rows))]
        for batch in torch.split(shuffled, training.batch):
            logits_B = layers(inputs_NH[batch])[:, 0]
            loss = binary_cross_entropy_with_logits(logits_B, data.target_N[batch])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        bce = _validation_loss(layers, inputs_NH[validation_N], data.target_N[validation_N])
        report(f"epoch {epoch + 1}: validation BCE {bce:.4f}")
        if bce < best - 1e-5:
            best, stale = bce, 0
            best_state = {name: value.clone() for name, value in layers.state_dict().items()}
        elif (stale := stale + 1) >= training.patience:
            break
    layers.load_state_dict(best_state)
    with torch.no_grad():
        probe = plain_probe(inner, outer, mean_H, scale_H)
    return probe, measure_probe(probe, data, validation_N, float(data.target_N[fit_N].mean()))


def _validation_loss(layers: nn.Module, inputs_NH: Tensor, target_N: Tensor) -> float:
    layers.eval()
    with torch.inference_mode():
        return binary_cross_entropy_with_logits(layers(inputs_NH)[:, 0], target_N).item()


def measure_probe(
    probe: Probe, data: ProbeData, on_N: Tensor, constant: float | None = None
) -> ProbeMetrics:
    """Metrics of a probe on some of the cuts.

    Args:
        on_N: mask over cuts.
        constant: the constant prediction to compare with; by default the mean target of these cuts.
    """
    target_N = data.target_N[on_N]
    with torch.inference_mode():
        logit_N = probe.logit(data.hidden_NH[on_N])
        confidence_N = torch.sigmoid(logit_N).double().numpy()
    level = target_N.mean() if constant is None else torch.tensor(constant)
    soft_N = target_N.double().numpy()
    return ProbeMetrics(
        points=len(target_N),
        problems=len(torch.unique(data.problem_N[on_N])),
        bce=binary_cross_entropy_with_logits(logit_N, target_N).item(),
        bce_floor=_cross_entropy(target_N, target_N),
        bce_constant=_cross_entropy(level, target_N),
        auroc=auroc(confidence_N, soft_N >= 0.5),
        ece=expected_calibration_error(confidence_N, soft_N),
    )


def _cross_entropy(confidence: Tensor, target_N: Tensor) -> float:
    """Mean in nats; infinite if a confidence of 0 or 1 is wrong; 0 · log 0 is 0, its limit."""
    right_N = torch.special.xlogy(target_N, confidence)
    wrong_N = torch.special.xlogy(1 - target_N, 1 - confidence)
    return float(-(right_N + wrong_N).mean())
