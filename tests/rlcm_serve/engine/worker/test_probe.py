import json
import math
from pathlib import Path

import pytest
import torch

from rlcm_serve.engine.worker.probe import Probe, ProbeConfig


@pytest.fixture
def probe() -> Probe:
    """Five hidden units on states of three numbers."""
    draw = torch.Generator().manual_seed(0)
    return Probe(
        hidden_weight=torch.randn(5, 3, generator=draw),
        hidden_bias=torch.randn(5, generator=draw),
        output_weight=torch.randn(1, 5, generator=draw),
        output_bias=torch.randn(1, generator=draw),
    )


def by_hand(probe: Probe, state: list[float]) -> float:
    """RLCM §3.2, one number at a time."""
    logit = probe.output_bias.item()
    for unit in range(5):
        weights = probe.hidden_weight[unit].tolist()
        inner = probe.hidden_bias[unit].item()
        inner += sum(weight * value for weight, value in zip(weights, state, strict=True))
        gelu = inner * 0.5 * (1 + math.erf(inner / math.sqrt(2)))
        logit += probe.output_weight[0, unit].item() * gelu
    return 1 / (1 + math.exp(-logit))


def test_confidence_is_a_two_layer_mlp(probe: Probe) -> None:
    states = [[0.3, -1.2, 2.0], [0.0, 0.0, 0.0], [-5.0, 4.0, 1.0]]
    confidence_N = probe.confidence(torch.tensor(states))
    assert confidence_N.tolist() == pytest.approx([by_hand(probe, s) for s in states], abs=1e-6)
    assert confidence_N.shape == (3,)


def test_states_in_bfloat16_are_read_in_float32(probe: Probe) -> None:
    state_NH = torch.tensor([[0.5, -1.25, 2.0]])  # exact in bfloat16
    half = probe.confidence(state_NH.bfloat16())
    assert half.dtype is torch.float32
    assert torch.equal(half, probe.confidence(state_NH))


def test_no_state_has_no_confidence(probe: Probe) -> None:
    assert probe.confidence(torch.empty(0, 3)).shape == (0,)


def test_a_saved_probe_comes_back(probe: Probe, tmp_path: Path) -> None:
    folder = tmp_path / "made" / "probe"
    probe.save(folder, checkpoint_interval=32)
    loaded = Probe.load(folder)
    for name in ("hidden_weight", "hidden_bias", "output_weight", "output_bias"):
        assert torch.equal(getattr(loaded, name), getattr(probe, name))
    assert ProbeConfig.load(folder) == ProbeConfig(hidden_size=3, width=5, checkpoint_interval=32)
    assert all(path.stat().st_mode & 0o044 == 0o044 for path in folder.iterdir()), "for all to read"


def test_what_a_later_version_adds_to_the_configuration_is_passed_over(
    probe: Probe, tmp_path: Path
) -> None:
    probe.save(tmp_path, checkpoint_interval=16)
    stored = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(stored | {"made_by": "someone"}))
    assert ProbeConfig.load(tmp_path).checkpoint_interval == 16


def test_a_folder_without_a_probe_says_so(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"config\.json"):
        ProbeConfig.load(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"probe\.safetensors"):
        Probe.load(tmp_path)
