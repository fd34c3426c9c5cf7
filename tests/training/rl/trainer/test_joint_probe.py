"""The probe that is trained beside the policy."""

from __future__ import annotations

import math
from copy import deepcopy

import pytest
import torch
from torch import Tensor

from training.errors import TrainingRefused
from training.rl.settings import ProbeSettings
from training.rl.trainer.joint_probe import LEAST_CUTS, JointProbe

HIDDEN = 8


def alone(values: Tensor) -> Tensor:
    return values


def planted(count: int = 400, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Far from standardised, as a model's states are; one direction tells the target."""
    draw = torch.Generator().manual_seed(seed)
    standard = torch.randn(count, HIDDEN, generator=draw)
    return 30 + 5 * standard, (standard[:, 0] > 0).float() * 0.75


def fresh(**changes: object) -> JointProbe:
    return JointProbe(HIDDEN, ProbeSettings(width=16, **changes), seed=3)  # type: ignore[arg-type]  # tests only


def test_it_learns_and_says_the_loss_before_each_batch() -> None:
    probe = fresh(learning_rate=0.01)
    hidden, target = planted()
    probe.scale_to(hidden, alone)
    losses = [probe.update(hidden, target, alone) for _ in range(200)]
    assert losses[0] == pytest.approx(math.log(2), abs=0.2)
    floor = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25)) * (target > 0).float().mean().item()
    assert floor < losses[-1] < floor + 0.06
    assert probe.confidence(hidden)[target > 0].mean() > 0.6


def test_inputs_are_scaled_once() -> None:
    probe = fresh()
    assert not probe.is_scaled
    hidden, _ = planted()
    probe.scale_to(hidden[:0], alone)
    assert not probe.is_scaled, "no state says nothing of the scale"
    probe.scale_to(hidden, alone)
    assert probe.is_scaled
    torch.testing.assert_close(probe.mean_H, hidden.mean(0), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(probe.scale_H, hidden.std(0, correction=0) + 1e-3)


def test_too_few_first_cuts_of_all_ranks_are_refused() -> None:
    hidden, _ = planted(LEAST_CUTS)
    rollouts = torch.split(hidden, LEAST_CUTS // 4)
    states = [torch.cat([own, own[-1:]]) for own in rollouts]  # and the ends
    probe, two = fresh(), fresh()
    with pytest.raises(TrainingRefused, match=r"have 24 budgets together, .* lower interval"):
        probe.ensure_scale(states[1:], alone)
    assert not probe.is_scaled
    probe.ensure_scale(states, alone)
    other = fresh()
    other.scale_to(hidden, alone)
    assert torch.equal(probe.mean_H, other.mean_H)
    assert torch.equal(probe.scale_H, other.scale_H)
    probe.ensure_scale(states[:1], alone)  # those of a later step
    two.ensure_scale(states[:2], lambda values: 2 * values)
    assert two.is_scaled


def test_the_services_probe_is_the_same_function() -> None:
    probe = fresh()
    hidden, target = planted()
    probe.scale_to(hidden, alone)
    for _ in range(5):
        probe.update(hidden, target, alone)
    plain = probe.outer(
        torch.nn.functional.gelu(probe.inner((hidden - probe.mean_H) / probe.scale_H))
    )[:, 0]
    torch.testing.assert_close(probe.as_probe().logit(hidden), plain, atol=1e-4, rtol=0)


def test_states_that_still_have_a_graph_get_no_gradient() -> None:
    probe = fresh()
    hidden, _ = planted()
    probe.scale_to(hidden, alone)
    assert not probe.confidence(hidden.requires_grad_()).requires_grad


def test_its_weights_depend_on_its_seed_alone() -> None:
    torch.manual_seed(1)
    before = torch.random.get_rng_state()
    one = fresh()
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.manual_seed(2)
    assert torch.equal(one.inner.weight, fresh().inner.weight)


def test_a_width_of_none_is_a_quarter_of_the_states() -> None:
    assert JointProbe(HIDDEN, ProbeSettings(width=None), seed=0).inner.weight.shape == (2, HIDDEN)


def test_minibatches_take_every_cut_once_in_each_pass() -> None:
    probe = fresh(updates=3, minibatch=16)
    hidden, target = planted(70)
    seen: list[Tensor] = []
    step = probe._step
    probe._step = lambda h, t, over: (seen.append(h[:, 0]), step(h, t, over))[1]  # type: ignore[method-assign,func-returns-value]  # to look on
    probe.scale_to(hidden, alone)
    probe.update(hidden, target, alone)
    assert [len(part) for part in seen] == 3 * [14, 14, 14, 14, 14]
    for at in range(0, 15, 5):
        both = torch.cat(seen[at : at + 5]).sort().values, hidden[:, 0].sort().values
        assert torch.equal(*both)
    assert not torch.equal(seen[0], seen[5])


def test_dropout_acts_while_it_learns_and_not_while_it_reads() -> None:
    hidden, target = planted(40)
    found = []
    for dropout in (0.0, 0.5):
        probe = fresh(dropout=dropout)
        probe.scale_to(hidden, alone)
        assert torch.equal(probe(hidden), probe(hidden))
        drawn = probe._logit(hidden, dropout=0.5)
        assert drawn.mean().item() == pytest.approx(probe(hidden).mean().item(), abs=0.2)
        probe.update(hidden, target, alone)
        found.append(probe.inner.weight.clone())
    assert not torch.equal(*found)


def test_unless_told_inputs_are_not_standardised() -> None:
    probe = fresh(is_standardised=False, activation="relu")
    hidden, _ = planted(20)
    assert probe.is_scaled
    plain = probe.outer(torch.relu(probe.inner(hidden)))[:, 0]
    torch.testing.assert_close(probe(hidden), plain)


def test_what_the_service_cannot_read_is_no_probe_of_the_service() -> None:
    for changes in ({"activation": "relu"}, {"states": 4}):
        with pytest.raises(ValueError, match="reads one state, through GELU"):
            fresh(**changes).as_probe()


def test_no_cut_anywhere_is_no_step() -> None:
    probe = fresh()
    before = probe.inner.weight.clone()
    assert math.isnan(probe.update(torch.zeros(0, HIDDEN), torch.zeros(0), alone))
    assert torch.equal(probe.inner.weight, before)


def test_a_restored_probe_goes_on_as_the_first_would_have() -> None:
    hidden, target = planted()
    changes = {"updates": 2, "minibatch": 64, "dropout": 0.2}
    first, second = fresh(**changes), fresh(**changes)
    first.scale_to(hidden, alone)
    for _ in range(3):
        first.update(hidden, target, alone)
    second.restore(deepcopy(first.whole_state()))
    assert second.is_scaled
    assert first.update(hidden, target, alone) == second.update(hidden, target, alone)
    assert torch.equal(first.inner.weight, second.inner.weight)
