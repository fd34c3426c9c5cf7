"""veRL's engine with states, on the CPU: its own inputs and outputs around the embedded model."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tensordict import TensorDict
from torch import Tensor
from transformers import AutoModelForCausalLM
from verl.workers.engine import EngineRegistry
from verl.workers.engine.fsdp.transformer_impl import FSDPEngineWithLMHead

from tests.training.verl.on_cpu import cpu_engine, nested, with_settings
from training.rl.inputs import RunInputs
from training.verl.engine import AVERAGED, CUTS, STATES, StatesEngine

pytestmark = pytest.mark.verl

PROMPTS = [[5, 6, 7], [9, 8, 7, 6, 5, 4]]
COMPLETIONS = [[11, 12, 13, 14, 15, 16], [21, 22, 23]]
CUTS_OF = [[2, 5], [3]]


def micro_batch(padded: bool, **more: Any) -> TensorDict:
    whole = [[*prompt, *own] for prompt, own in zip(PROMPTS, COMPLETIONS, strict=True)]
    fields = {
        "input_ids": nested(whole),
        "position_ids": nested([list(range(len(own))) for own in whole]),
        "prompts": nested(PROMPTS),
        CUTS: nested(CUTS_OF),
    }
    table = TensorDict(fields, batch_size=2)
    settings = {"use_remove_padding": not padded, "temperature": 1.0, "pad_token_id": 0, **more}
    return with_settings(table, settings)


def expected(inputs: RunInputs, averaged: int) -> list[Tensor]:
    """The states of a plain forward pass of each sequence alone."""
    model = AutoModelForCausalLM.from_pretrained(inputs.files.folder, dtype=torch.float32).eval()
    rows = []
    for prompt, own, cuts in zip(PROMPTS, COMPLETIONS, CUTS_OF, strict=True):
        with torch.no_grad():
            hidden = model.base_model(torch.tensor([[*prompt, *own]])).last_hidden_state[0]
        ends = [len(prompt) + cut for cut in cuts]
        rows.append(torch.stack([hidden[end - averaged : end].mean(0) for end in ends]))
    return rows


def outputs(inputs: RunInputs, batch: TensorDict) -> dict[str, Any]:
    engine = cpu_engine(inputs)
    arguments, kept = engine.prepare_model_inputs(batch)
    with torch.no_grad():
        output = engine.module(**arguments, use_cache=False)
        return engine.prepare_model_outputs(output, kept, batch, None)


@pytest.mark.parametrize("averaged", [1, 3])
def test_states_at_the_cuts_are_those_of_each_sequence_alone(
    inputs: RunInputs, averaged: int
) -> None:
    found = outputs(inputs, micro_batch(padded=True, **{AVERAGED: averaged}))
    assert found["log_probs"].offsets().tolist() == [0, 9, 18]
    for own, wanted in zip(found[STATES].unbind(), expected(inputs, averaged), strict=True):
        torch.testing.assert_close(own.reshape(wanted.shape), wanted, atol=1e-5, rtol=1e-5)


def test_states_of_a_packed_batch_are_read_at_the_same_tokens(inputs: RunInputs) -> None:
    engine = cpu_engine(inputs)
    engine.use_ulysses_sp = False
    hidden = torch.arange(20.0).repeat(4, 1).T[None]  # 18 tokens, and two that fill the batch
    rows = engine._rows(hidden, micro_batch(padded=False), {"pad_size": 2})
    at = [[2 + cut for cut in CUTS_OF[0]], [9 + 5 + cut for cut in CUTS_OF[1]]]
    assert [own[:, 0].tolist() for own in rows] == at


def test_a_pass_with_gradients_keeps_no_states(inputs: RunInputs) -> None:
    engine, batch = cpu_engine(inputs), micro_batch(padded=True)
    arguments, kept = engine.prepare_model_inputs(batch)
    output = engine.module(**arguments, use_cache=False)
    assert STATES not in engine.prepare_model_outputs(output, kept, batch, None)


def test_a_batch_without_cuts_is_verls_own(inputs: RunInputs) -> None:
    batch = micro_batch(padded=True)
    del batch[CUTS]
    assert outputs(inputs, batch).keys() == {"log_probs"}


def test_verl_finds_this_engine_on_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    for vendor in ("nvidia", "amd"):
        monkeypatch.setenv("VERL_ENGINE_DEVICE", "cuda")
        monkeypatch.setenv("VERL_ENGINE_VENDOR", vendor)
        assert EngineRegistry.get_engine_cls("language_model", "fsdp") is StatesEngine
        assert EngineRegistry.get_engine_cls("language_model", "fsdp2") is StatesEngine
    monkeypatch.setenv("VERL_ENGINE_VENDOR", "other")
    assert EngineRegistry.get_engine_cls("language_model", "fsdp") is FSDPEngineWithLMHead
