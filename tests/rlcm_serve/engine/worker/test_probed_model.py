"""A probe is in the model that is served, and in no other one of its class."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from rlcm_serve.engine.worker import probed_model
from rlcm_serve.engine.worker.probed_model import LATEST, LatestStates

RESERVED = {"rlcm": {"probe": None, "reserved": [2, 4], "tokens": True}}
STATES_NH = torch.ones(1, 3)


class Plain(nn.Module):
    """A model whose logits are all zero."""

    def __init__(self, *, vllm_config: Any, prefix: str = "") -> None:
        super().__init__()

    def compute_logits(self, hidden_states: torch.Tensor) -> torch.Tensor:
        return torch.zeros(len(hidden_states), 5)


@pytest.fixture(autouse=True)
def latest(monkeypatch: pytest.MonkeyPatch) -> LatestStates:
    monkeypatch.setattr(LATEST, "hidden_NH", None)
    monkeypatch.setattr(LATEST, "logits_NV", None)
    return LATEST


def logits(config: dict[str, Any], runner: str = "auto") -> list[bool]:
    """Where the logits of a probed model are finite."""
    vllm_config: Any = SimpleNamespace(
        additional_config=config, model_config=SimpleNamespace(runner=runner)
    )
    model: Any = probed_model._probed(Plain)(vllm_config=vllm_config)
    found: list[bool] = model.compute_logits(STATES_NH).isfinite()[0].tolist()
    return found


def test_the_model_that_is_served_keeps_its_states_and_never_says_a_stop_id(
    latest: LatestStates,
) -> None:
    assert logits(RESERVED) == [True, True, False, False, True]
    assert latest.hidden_NH is STATES_NH
    assert latest.logits_NV is not None


@pytest.mark.parametrize(("config", "runner"), [(RESERVED, "draft"), ({}, "auto")])
def test_another_model_of_its_class_is_vllms_own(
    latest: LatestStates, config: dict[str, Any], runner: str
) -> None:
    """A draft model, and a model that this process loads without exit control."""
    assert all(logits(config, runner))
    assert latest.hidden_NH is None
    assert latest.logits_NV is None


def test_a_class_is_built_on_vllms_own_where_that_is_overridden() -> None:
    from vllm.model_executor.models.registry import ModelRegistry
    from vllm.plugins import load_general_plugins

    from rlcm_serve.engine.worker.plugin import override

    load_general_plugins()
    ((architecture, target),) = override("Qwen3ForCausalLM").items()
    kept = ModelRegistry.models[architecture]
    ModelRegistry.register_model(architecture, target)
    try:
        probed = ModelRegistry.models[architecture].load_model_cls()
    finally:
        ModelRegistry.models[architecture] = kept
    assert [one.__name__ for one in probed.mro()[:2]] == [f"Probed{architecture}", architecture]
    assert probed.mro()[1].__module__.startswith("vllm.")


def test_a_class_of_no_model_does_not_exist() -> None:
    with pytest.raises(AttributeError, match="vLLM has no model 'NoSuchModel'"):
        probed_model.ProbedNoSuchModel  # noqa: B018
