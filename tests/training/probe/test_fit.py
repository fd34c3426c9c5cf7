import itertools
import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from rlcm_serve.engine.worker.probe import STATE_AND_TOKENS, Probe
from rlcm_serve.engine.worker.statistics import STATISTICS
from training.errors import TrainingRefused
from training.probe.data import ProbeData, split_by_unit
from training.probe.fit import ProbeTraining, fit_probe
from training.probe.metrics import measure_probe
from training.probe.plain import plain_probe

HIDDEN, SAMPLES = 16, 4


@pytest.fixture(scope="module")
def planted() -> ProbeData:
    """200 problems of 10 cuts each; right with a probability that two directions of the state set.

    The states are far from standardised, as a model's are.
    """
    draw = torch.Generator().manual_seed(0)
    standard_NH = torch.randn(2000, HIDDEN, generator=draw)
    truth_N = torch.sigmoid(3 * standard_NH[:, 0] - 2 * standard_NH[:, 1].abs() + 1)
    right_NK = torch.rand(2000, SAMPLES, generator=draw) < truth_N[:, None]
    return ProbeData(
        hidden_NH=30 + 5 * standard_NH,
        target_N=right_NK.float().mean(1),
        problem_N=torch.arange(2000) // 10,
        tokens_N=(torch.arange(2000) % 10 + 1) * 32,
    )


@pytest.mark.parametrize("share", [0.5, 0.8])
def test_a_split_never_parts_a_problem(planted: ProbeData, share: float) -> None:
    fit_N, validation_N = split_by_unit(planted, share, seed=3)
    assert torch.equal(fit_N, ~validation_N)
    fit, validation = (set(planted.problem_N[on].tolist()) for on in (fit_N, validation_N))
    assert not fit & validation
    assert len(fit) == share * 200


def test_a_split_never_parts_a_group(planted: ProbeData) -> None:
    grouped = replace(planted, unit_N=planted.problem_N // 4)
    fit_N, validation_N = split_by_unit(grouped, 0.8, seed=3)
    fit, validation = (set(grouped.unit_N[on].tolist()) for on in (fit_N, validation_N))
    assert not fit & validation
    assert len(fit) == 0.8 * 50


def test_a_splits_seed_decides(planted: ProbeData) -> None:
    first, again, other = (split_by_unit(planted, 0.8, seed)[0] for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_too_few_problems_cannot_be_split() -> None:
    one = ProbeData(torch.zeros(5, 2), torch.zeros(5), torch.zeros(5), torch.zeros(5))
    with pytest.raises(
        TrainingRefused,
        match=r"1 problems or groups of them cannot be split 80% to 20%.*at least 3",
    ):
        split_by_unit(one, 0.8, seed=0)


def test_folding_the_standardisation_changes_nothing(planted: ProbeData) -> None:
    torch.manual_seed(1)
    inner, outer = nn.Linear(HIDDEN, 32), nn.Linear(32, 1)
    layers = nn.Sequential(inner, nn.GELU(), nn.Dropout(0.5), outer)
    layers.eval()
    mean_H, scale_H = planted.hidden_NH.mean(0), planted.hidden_NH.std(0)
    probe = plain_probe(inner, outer, mean_H, scale_H)
    with torch.inference_mode():
        expected_N = layers((planted.hidden_NH - mean_H) / scale_H)[:, 0]
        torch.testing.assert_close(probe.logit(planted.hidden_NH), expected_N, atol=1e-5, rtol=0)


def test_a_fit_finds_a_planted_signal(planted: ProbeData) -> None:
    lines: list[str] = []
    training = ProbeTraining(heads=1, width=32, epochs=15, learning_rate=3e-3)
    probe, metrics = fit_probe(planted, training, lines.append)
    assert (metrics.problems, metrics.points) == (40, 400)
    assert metrics.auroc > 0.9
    assert metrics.ece < 0.1
    assert metrics.bce_floor < metrics.bce < 0.8 * metrics.bce_constant
    assert "validation BCE" in lines[0]
    # Of the best epoch, on the held-out problems and with the folded weights.
    assert metrics.bce == pytest.approx(min(float(line.split()[-1]) for line in lines), abs=1e-4)
    assert probe.hidden_weight.shape == (32, HIDDEN)


def test_a_fit_stops_when_it_no_longer_helps(planted: ProbeData) -> None:
    noise = ProbeData(
        torch.randn(200, 4, generator=torch.Generator().manual_seed(0)),
        planted.target_N[:200],
        planted.problem_N[:200],
        planted.tokens_N[:200],
    )
    lines: list[str] = []
    training = ProbeTraining(heads=1, width=64, patience=2, learning_rate=0.03)
    _, metrics = fit_probe(noise, training, lines.append)
    assert len(lines) < training.epochs
    assert metrics.bce == pytest.approx(min(float(line.split()[-1]) for line in lines), abs=1e-4)


def test_the_same_seed_fits_the_same_probe(planted: ProbeData) -> None:
    training = ProbeTraining(width=8, epochs=2)
    (first, _), (again, _) = fit_probe(planted, training), fit_probe(planted, training)
    assert torch.equal(first.hidden_weight, again.hidden_weight)
    assert torch.equal(first.output_bias, again.output_bias)


def test_a_probe_is_the_mean_of_its_heads(planted: ProbeData) -> None:
    lines: list[str] = []
    training = ProbeTraining(heads=3, width=8, epochs=4, learning_rate=3e-3)
    probe, metrics = fit_probe(planted, training, lines.append)
    assert probe.hidden_weight.shape == (24, HIDDEN)
    heads = [
        Probe(
            probe.hidden_weight[first : first + 8],
            probe.hidden_bias[first : first + 8],
            3 * probe.output_weight[:, first : first + 8],
            probe.output_bias,
        ).logit(planted.hidden_NH)
        for first in (0, 8, 16)
    ]
    assert not torch.allclose(heads[0], heads[1])
    mean_N = torch.stack(heads).mean(0)
    torch.testing.assert_close(probe.logit(planted.hidden_NH), mean_N, atol=1e-4, rtol=0)
    # The loss is convex in the log-odds: that of the mean is at most the mean loss.
    best: dict[str, float] = {}
    for line in lines:
        head = line.split(",")[0]
        best[head] = min(best.get(head, math.inf), float(line.split()[-1]))
    assert list(best) == ["head 1", "head 2", "head 3"]
    assert metrics.bce <= sum(best.values()) / 3 + 1e-4


def identity_probe() -> Probe:
    """Log-odds: the state's one number, if it is well above 0 (GELU is the identity there)."""
    one, zero = torch.ones(1, 1), torch.zeros(1)
    return Probe(hidden_weight=one, hidden_bias=zero + 40, output_weight=one, output_bias=zero - 40)


def test_metrics_are_what_they_say() -> None:
    confidences = [0.05, 0.13, 0.17, 0.35, 0.62, 0.68, 0.91, 0.97]
    targets = [0.0, 0.25, 0.0, 0.5, 0.25, 1.0, 1.0, 0.75]
    logits = [math.log(c / (1 - c)) for c in confidences]
    # A last cut that is not looked at.
    data = ProbeData(
        hidden_NH=torch.tensor([*logits, 3.0])[:, None],
        target_N=torch.tensor([*targets, 0.0]),
        problem_N=torch.tensor([0, 0, 0, 1, 1, 2, 2, 2, 3]),
        tokens_N=torch.arange(9),
    )
    metrics = measure_probe(identity_probe(), data, torch.arange(9) < 8, constant=0.4)
    pairs = list(zip(confidences, targets, strict=True))
    right = [c for c, y in pairs if y >= 0.5]
    wrong = [c for c, y in pairs if y < 0.5]
    above = [r > w for r, w in itertools.product(right, wrong)]
    bins: dict[int, list[tuple[float, float]]] = {}
    for c, y in pairs:
        bins.setdefault(int(10 * c), []).append((c, y))
    gaps = [abs(sum(y - c for c, y in own)) for own in bins.values()]

    def cross_entropy(said: list[float]) -> float:
        terms = [
            -(y * math.log(c) if y else 0) - ((1 - y) * math.log(1 - c) if y < 1 else 0)
            for c, y in zip(said, targets, strict=True)
        ]
        return sum(terms) / 8

    assert (metrics.points, metrics.problems) == (8, 3)
    assert metrics.bce == pytest.approx(cross_entropy(confidences), abs=1e-5)
    assert metrics.bce_floor == pytest.approx(cross_entropy(targets), abs=1e-6)
    assert metrics.bce_constant == pytest.approx(cross_entropy([0.4] * 8), abs=1e-6)
    assert metrics.auroc == pytest.approx(sum(above) / len(above))
    assert metrics.ece == pytest.approx(sum(gaps) / 8, abs=1e-6)


EVERY = torch.ones(2, dtype=torch.bool)


def test_a_constant_that_is_infinitely_wrong_has_no_figure() -> None:
    logits_NH = torch.tensor([[-1.0], [2.0]])
    data = ProbeData(logits_NH, torch.tensor([0.0, 1.0]), torch.arange(2), torch.arange(2))
    metrics = measure_probe(identity_probe(), data, EVERY, constant=0.0)
    assert metrics.bce_constant is None
    assert "every target of the fit is 0" in metrics.undefined["bce_constant"]
    by_default = measure_probe(identity_probe(), data, EVERY)
    assert by_default.bce_constant == pytest.approx(math.log(2))
    assert not by_default.undefined


@pytest.mark.parametrize(("target", "side"), [(0.25, "below 1/2"), (0.5, "1/2 or more")])
def test_an_auroc_of_one_side_has_no_figure(target: float, side: str) -> None:
    logits_NH = torch.tensor([[-1.0], [2.0]])
    data = ProbeData(logits_NH, torch.full((2,), target), torch.arange(2), torch.arange(2))
    metrics = measure_probe(identity_probe(), data, EVERY)
    assert metrics.auroc is None
    assert f"all 2 targets are {side}" in metrics.undefined["auroc"]
    assert math.isfinite(metrics.ece)


def test_a_fit_of_both_inputs_finds_what_only_the_tokens_say(planted: ProbeData) -> None:
    draw = torch.Generator().manual_seed(5)
    statistics_NS = 7 + 0.01 * torch.randn(2000, len(STATISTICS), generator=draw)
    data = replace(
        planted,
        target_N=(statistics_NS[:, 4] + 0.002 * planted.hidden_NH[:, 0] > 7.06).float(),
        statistics_NS=statistics_NS,
    )
    training = ProbeTraining(width=32, epochs=15, learning_rate=3e-3)
    _, blind = fit_probe(data, training)
    probe, metrics = fit_probe(data, replace(training, inputs=STATE_AND_TOKENS))
    assert probe.inputs == STATE_AND_TOKENS
    assert metrics.auroc > 0.97 > 0.9 > blind.auroc


def test_a_fit_of_inputs_that_were_not_recorded_is_refused(planted: ProbeData) -> None:
    with pytest.raises(TrainingRefused, match=r"no statistics of the tokens.*record"):
        fit_probe(planted, ProbeTraining(inputs=STATE_AND_TOKENS))
