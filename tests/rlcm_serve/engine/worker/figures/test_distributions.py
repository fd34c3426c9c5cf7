"""Figures of tokens: as torch computes them from the whole distribution."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from rlcm_serve.engine.worker.figures import distributions
from rlcm_serve.engine.worker.figures.distributions import Distributions
from rlcm_serve.engine.worker.readings.table import Places, TableAddress


def by_definition(logits_V: torch.Tensor, token: int) -> tuple[float, float, float]:
    """The figures of one token, in float64."""
    log_probs_V = logits_V.double().log_softmax(dim=-1)
    top = log_probs_V.topk(min(20, len(logits_V) - 2)).values
    entropy = torch.distributions.Categorical(logits=logits_V.double()).entropy()
    return float(log_probs_V[token]), float(entropy), -float(top.mean())


def logits_of(rows: int, vocabulary: int, spread: float) -> torch.Tensor:
    """Random logits; the two stop ids at the end are impossible."""
    draw = torch.Generator().manual_seed(rows + vocabulary)
    logits_NV = 100 + spread * torch.randn(rows, vocabulary, generator=draw)
    logits_NV[:, -2:] = -math.inf
    return logits_NV


@pytest.mark.parametrize("vocabulary", [8, 24, 512, 5120, 20_037])
@pytest.mark.parametrize("spread", [0.1, 3.0, 40.0])
@pytest.mark.parametrize("at_once", [3, 2**12])
def test_figures_are_those_of_the_whole_distribution(
    vocabulary: int, spread: float, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(distributions, "_CACHED", at_once * vocabulary)
    logits_NV = logits_of(7, vocabulary, spread)
    rows, sampled = [6, 1, 2, 5], [int(logits_NV[row].argmax()) for row in (6, 1, 2, 5)]
    sampled[3] = 4
    found = Distributions.of(logits_NV, rows)
    expected = [by_definition(logits_NV[r], t) for r, t in zip(rows, sampled, strict=True)]
    figures_NF = found.figures(range(4), sampled)
    np.testing.assert_allclose(figures_NF, expected, atol=2e-5, rtol=1e-6)
    assert found.entropy(2) == pytest.approx(expected[2][1], abs=2e-5)
    np.testing.assert_array_equal(found.only(3, 1).figures([0], [4]), figures_NF[3:])


@pytest.mark.parametrize("rows", [[0, 1, 2], [2, 0]])
def test_a_sampler_may_work_in_place(rows: list[int]) -> None:
    logits_NV = logits_of(3, 512, 3.0)
    expected = [by_definition(logits_NV[row], 5) for row in rows]
    found = Distributions.of(logits_NV, rows, raw_NV=logits_NV)
    logits_NV.fill_(math.nan)
    np.testing.assert_allclose(
        found.figures(range(len(rows)), [5] * len(rows)), expected, atol=2e-5
    )


@pytest.mark.parametrize("rows", [[0, 1, 2], [2, 0]])
def test_logits_that_the_sampler_copies_are_not_copied_again(rows: list[int]) -> None:
    raw_NV = logits_of(3, 20_000, 3.0).bfloat16()
    logits_NV = raw_NV.float()
    expected = [by_definition(logits_NV[row], 5) for row in rows]
    found = Distributions.of(logits_NV, rows, raw_NV)
    logits_NV.fill_(math.nan)
    np.testing.assert_allclose(
        found.figures(range(len(rows)), [5] * len(rows)), expected, atol=2e-5
    )
    assert (found._logits_NV is raw_NV) == (len(rows) == 3)


def test_many_equal_logits_are_as_likely_as_each_other() -> None:
    found = Distributions.of(torch.zeros(1, 20_000), [0]).figures([0], [7])
    expected = [-math.log(20_000), math.log(20_000), math.log(20_000)]
    assert found[0].tolist() == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("vocabulary", [24, 512, 20_037])
@pytest.mark.parametrize("type_", [torch.float32, torch.bfloat16])
def test_figures_are_noted_for_the_requests_whose_slots_are_still_theirs(
    vocabulary: int, type_: torch.dtype
) -> None:
    layout = TableAddress("", slots=4, capacity=1, tokens=5).layout
    table = np.zeros(4, layout)
    table["ticket"] = (10, 11, 12, 13)
    fields = (table[name] for name in ("ticket", "figures", "observed"))
    places = Places(np.array([2, 0, 3]), np.array([12, 99, 13]), *fields)
    raw_NV = logits_of(3, vocabulary, 3.0).to(type_)
    found = Distributions.of(raw_NV.float(), range(3), raw_NV)
    found.note(places, [5, 1, 2], [2, 0, 1], [7, 8, 9])
    expected = found.figures([2, 1], [7, 9])
    assert table["figures"][2, 4].tolist() == expected[0].tolist()
    assert table["figures"][3, 1].tolist() == expected[1].tolist()
    assert np.count_nonzero(table["figures"]) == expected.size
    assert table["observed"].tolist() == [0, 0, 5, 2]


def test_few_equal_logits_are_as_likely_as_each_other() -> None:
    logits_NV = torch.zeros(2, 512)
    logits_NV[1, 3] = 5.0
    found = Distributions.of(logits_NV, [0, 1])
    expected = [by_definition(logits_V, 7) for logits_V in logits_NV]
    np.testing.assert_allclose(found.figures([0, 1], [7, 7]), expected, atol=2e-5)


@pytest.mark.parametrize("broken", [math.nan, math.inf])
def test_the_figures_of_broken_logits_are_no_numbers(broken: float) -> None:
    logits_NV = logits_of(2, 512, 3.0)
    logits_NV[1, 100] = broken
    figures_NF = Distributions.of(logits_NV, [0, 1]).figures([0, 1], [5, 5])
    assert np.isfinite(figures_NF[0]).all()
    assert np.isnan(figures_NF[1, 1])
