"""LoRA adapters through the real engine: each profile's own, and none of the others'."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from calibration import FULL_BUDGET
from rlcm_serve.core import GenerationSettings, Rollout, TokenIds
from rlcm_serve.engine.contract import Reasoner
from rlcm_serve.engine.launch import EngineSettings
from rlcm_serve.engine.vllm_engine import VllmEngine
from rlcm_serve.engine.weights.adapters import Adapter
from rlcm_serve.errors import ModelRefused
from rlcm_serve.profiles.profile import Profile
from rlcm_serve.solving.fingerprints import fingerprint_of
from tests.rlcm_serve.engine.crowd import Forward
from tests.rlcm_serve.engine.lora import write_adapter
from tests.rlcm_serve.engine.probes import shipped_probe

pytestmark = pytest.mark.engine

TOLERANCE = 1e-3
"""Of log-odds of a confidence: vLLM and transformers add the same numbers in other orders."""

QUESTION = "A dial shows 3. A up 4. What does the dial show?"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    top = tmp_path_factory.mktemp("adapters")
    return {
        name: write_adapter(top / name, seed, rank)
        for name, seed, rank in (("first", 1, 4), ("second", 2, 20))
    }


@pytest.fixture(scope="module")
async def engine(folders: dict[str, Path]) -> AsyncIterator[VllmEngine]:
    profiles = tuple(Profile(name=name, adapter=folder) for name, folder in folders.items())
    running = VllmEngine(EngineSettings(profiles=profiles, temperature=0.0, max_tokens=160))
    await running.start()
    yield running
    running.stop()


async def full(reasoner: Reasoner, prompt: TokenIds) -> Rollout:
    generation = GenerationSettings(reasoner.identity.budget, reasoner.identity.sampling)
    events = [event async for event in reasoner.think(prompt, FULL_BUDGET, generation)]
    assert isinstance(events[-1], Rollout)
    return events[-1]


async def test_each_profile_has_its_adapter_also_in_one_batch(
    engine: VllmEngine, folders: dict[str, Path]
) -> None:
    names = ("default", "first", "second")
    prompt = engine.prompt(engine.identity.profile.messages(QUESTION))
    rollouts = await asyncio.gather(
        *(full(engine.under(name), prompt) for name in (*names, *names))
    )
    probe = shipped_probe()
    forwards = {name: Forward(engine.stop_ids, folders.get(name)) for name in names}
    for name, rollout in zip((*names, *names), rollouts, strict=True):
        assert len(rollout.readings) > 1
        found = torch.tensor([reading.confidence for reading in rollout.readings])
        gaps = {}
        for other, forward in forwards.items():
            after = forward.confidences(probe, prompt, rollout.tokens)
            read = torch.tensor([after[reading.tokens] for reading in rollout.readings])
            gaps[other] = float((found.logit() - read.logit()).abs().max())
        assert gaps.pop(name) < TOLERANCE
        assert min(gaps.values()) > 10 * TOLERANCE


async def test_a_forced_answer_is_the_adapters_too(engine: VllmEngine) -> None:
    prompt = engine.prompt(engine.identity.profile.messages(QUESTION))
    thinking = (await full(engine, prompt)).tokens[:32]
    said = {}
    for name in ("default", "first", "second"):
        reasoner = engine.under(name)
        generation = GenerationSettings(reasoner.identity.budget, reasoner.identity.sampling)
        (answer,) = await reasoner.continue_after(prompt, thinking, "x", generation, logprobs=True)
        assert answer.pieces is not None
        said[name] = tuple(round(log_prob, 3) for _, log_prob in answer.pieces)
    assert len(set(said.values())) == 3


async def test_the_adapter_is_part_of_the_fingerprint(
    engine: VllmEngine, folders: dict[str, Path]
) -> None:
    prints = [fingerprint_of(identity) for identity in engine.identities]
    digests = ["", *(Adapter.read(folder).digest for folder in folders.values())]
    assert [one.adapter for one in prints] == digests
    assert len(set(digests)) == 3
    adapter, *others = prints[0].differences(prints[1])
    assert adapter == "adapter: none here, one there"
    # Familiarity was read from prompts of the model without adapters.
    assert [one.partition(":")[0] for one in others] == ["familiarity", "familiarity_cutoff"]


async def test_an_adapter_for_other_modules_is_refused_and_vllm_stops(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    stored = load_file(folders["first"] / "adapter_model.safetensors")
    other = {name.replace("q_proj", "fused_proj"): weight for name, weight in stored.items()}
    save_file(other, tmp_path / "adapter_model.safetensors")
    (tmp_path / "adapter_config.json").write_bytes(
        (folders["first"] / "adapter_config.json").read_bytes()
    )
    engine = VllmEngine(EngineSettings(profiles=(Profile(name="odd", adapter=tmp_path),)))
    with pytest.raises(ModelRefused, match=r"cannot load the adapter .* onto this model: .*fused"):
        await engine.start()
    assert engine.running is None
