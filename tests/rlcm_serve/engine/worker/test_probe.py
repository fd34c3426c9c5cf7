import json
import math
from pathlib import Path

import pytest
import torch

from rlcm_serve.engine.model_files import EMBEDDED_MODEL
from rlcm_serve.engine.worker.probe import (
    PROBE_FOLDER,
    STATE_ALONE,
    STATE_AND_TOKENS,
    Probe,
    ProbeConfig,
)
from rlcm_serve.engine.worker.statistics import STATISTICS
from rlcm_serve.errors import ModelRefused


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


@pytest.fixture
def of_both() -> Probe:
    """Five hidden units on states of three numbers and the statistics of the tokens."""
    draw = torch.Generator().manual_seed(1)
    return Probe(
        hidden_weight=torch.randn(5, 3 + len(STATISTICS), generator=draw),
        hidden_bias=torch.randn(5, generator=draw),
        output_weight=torch.randn(1, 5, generator=draw),
        output_bias=torch.randn(1, generator=draw),
        inputs=STATE_AND_TOKENS,
    )


def test_a_probe_of_both_reads_the_state_first_then_the_statistics(of_both: Probe) -> None:
    draw = torch.Generator().manual_seed(2)
    state_NH = torch.randn(4, 3, generator=draw)
    statistics_NS = torch.randn(4, len(STATISTICS), generator=draw)
    alone = Probe(
        *(of_both.hidden_weight, of_both.hidden_bias, of_both.output_weight, of_both.output_bias)
    )
    expected_N = alone.logit(torch.cat((state_NH, statistics_NS), dim=1))
    torch.testing.assert_close(of_both.logit(state_NH, statistics_NS), expected_N)
    statistics_NS[2, 7] = math.nan
    assert of_both.confidence(state_NH, statistics_NS).isnan().tolist() == [
        False,
        False,
        True,
        False,
    ]
    with pytest.raises(ValueError, match="statistics_NS"):
        of_both.confidence(state_NH)


def test_a_probe_of_states_ignores_statistics(probe: Probe) -> None:
    state_NH = torch.ones(2, 3)
    statistics_NS = torch.full((2, len(STATISTICS)), math.nan)
    assert torch.equal(probe.logit(state_NH, statistics_NS), probe.logit(state_NH))


def test_a_saved_probe_of_both_comes_back_and_names_what_it_reads(
    of_both: Probe, tmp_path: Path
) -> None:
    of_both.save(tmp_path, checkpoint_interval=16)
    loaded = Probe.load(tmp_path)
    assert loaded.inputs == STATE_AND_TOKENS
    assert torch.equal(loaded.hidden_weight, of_both.hidden_weight)
    assert ProbeConfig.load(tmp_path) == ProbeConfig(3, 5, 16, STATE_AND_TOKENS)
    assert json.loads((tmp_path / "config.json").read_text()) == {
        "hidden_size": 3,
        "width": 5,
        "checkpoint_interval": 16,
        "inputs": ["state", "tokens"],
        "tokens": "window=32 top=20 lowest=5",
    }


def test_a_probe_without_named_inputs_reads_the_state_alone(probe: Probe, tmp_path: Path) -> None:
    probe.save(tmp_path, checkpoint_interval=16)
    config = json.loads((tmp_path / "config.json").read_text())
    del config["inputs"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert ProbeConfig.load(tmp_path).inputs == Probe.load(tmp_path).inputs == STATE_ALONE


def test_the_shipped_probe_reads_states_and_tokens() -> None:
    assert ProbeConfig.load(EMBEDDED_MODEL / PROBE_FOLDER).inputs == STATE_AND_TOKENS


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"inputs": ["tokens"]}, "reads tokens, but this service knows probes of state"),
        ({"inputs": []}, "reads nothing"),
        ({"inputs": None}, "reads None, but"),
        ({"tokens": "window=64 top=20 lowest=5"}, "'window=64 .*computes 'window=32 .*again"),
    ],
)
def test_a_probe_of_what_is_not_computed_is_refused(
    of_both: Probe, tmp_path: Path, changed: dict[str, object], said: str
) -> None:
    of_both.save(tmp_path, checkpoint_interval=16)
    stored = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(stored | changed))
    for load in (ProbeConfig.load, Probe.load):
        with pytest.raises(ModelRefused, match=said):
            load(tmp_path)
