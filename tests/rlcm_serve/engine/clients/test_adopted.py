"""An engine on a vLLM that was started elsewhere: what it needs of it, and what it leaves alone."""

from __future__ import annotations

import asyncio
from copy import copy, deepcopy
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from calibration import FULL_BUDGET
from rlcm_serve.core import Budget, Sampling
from rlcm_serve.engine.launch import EngineSettings
from rlcm_serve.engine.vllm_engine import VllmEngine
from rlcm_serve.engine.worker.readings.slots import ReadingsTable
from rlcm_serve.errors import EngineDead, ModelRefused
from rlcm_serve.profiles.profile import Profile
from tests.rlcm_serve.engine.asking import generation, think
from tests.rlcm_serve.engine.lora import write_adapter

if TYPE_CHECKING:
    from vllm.config import VllmConfig
    from vllm.v1.engine.async_llm import AsyncLLM

pytestmark = pytest.mark.engine

QUESTION = "A dial shows 3. A up 5. What does it show now?"


def changed(client: AsyncLLM, part: str, name: str, value: Any) -> Any:
    """What is read of a client, if vLLM had been started with another value of one setting."""
    config = copy(client.vllm_config)
    owner: VllmConfig | Any = config
    if part:
        owner = copy(getattr(config, part))
        setattr(config, part, owner)
    setattr(owner, name, value)
    return SimpleNamespace(vllm_config=config)


@pytest.mark.parametrize(
    ("part", "name", "value", "lacks"),
    [
        ("model_config", "model_class_overrides", {}, "--model-class-overrides '{"),
        ("model_config", "logits_processors", None, "--logits-processors rlcm_serve.engine.work"),
        ("parallel_config", "worker_extension_cls", "", "--worker-extension-cls rlcm_serve.engi"),
        ("", "additional_config", {}, '--additional-config \'{"rlcm":{"probe":"'),
    ],
)
async def test_what_vllm_was_started_without_is_named(
    client: AsyncLLM, part: str, name: str, value: Any, lacks: str
) -> None:
    engine = VllmEngine(EngineSettings(), changed(client, part, name, value))
    with pytest.raises(ModelRefused, match="vLLM runs without exit control") as refusal:
        await engine.start()
    assert lacks in str(refusal.value)
    assert str(refusal.value).count(" --") == 1, "the others are there"


async def test_the_processor_of_the_other_runner_is_not_enough(client: AsyncLLM) -> None:
    ours = client.vllm_config.model_config.logits_processors
    (other,) = {"processor_v1:ExitProcessor", "processor_v2:ExitProcessorV2"} - {
        str(one).rpartition(".")[2] for one in ours
    }
    wrong = changed(client, "model_config", "logits_processors", [other])
    with pytest.raises(ModelRefused, match="--logits-processors"):
        await VllmEngine(EngineSettings(), wrong).start()


async def test_a_probe_at_another_place_or_other_stop_ids_are_noticed(client: AsyncLLM) -> None:
    for key, value in (("probe", "/elsewhere"), ("reserved", [1, 3]), ("tokens", False)):
        config = deepcopy(client.vllm_config.additional_config)
        config["rlcm"][key] = value
        wrong = changed(client, "", "additional_config", config)
        with pytest.raises(ModelRefused, match="--additional-config"):
            await VllmEngine(EngineSettings(), wrong).start()


async def test_another_model_is_refused(client: AsyncLLM, tmp_path: Path) -> None:
    elsewhere = changed(client, "model_config", "model", str(tmp_path))
    with pytest.raises(ModelRefused, match=f"vLLM serves {tmp_path}, but the settings name embed"):
        await VllmEngine(EngineSettings(), elsewhere).start()


async def test_adapters_need_room_in_vllm(client: AsyncLLM, tmp_path: Path) -> None:
    profile = Profile(name="tuned", adapter=write_adapter(tmp_path / "adapter"))
    with pytest.raises(ModelRefused, match="--enable-lora --max-loras 2 --max-lora-rank 8"):
        await VllmEngine(EngineSettings(profiles=(profile,)), client).start()


async def test_arguments_for_a_vllm_that_runs_are_refused(client: AsyncLLM) -> None:
    with pytest.raises(ModelRefused, match=r"cannot take --max-num-seqs 4: give .* itself"):
        VllmEngine(EngineSettings(vllm_arguments=("--max-num-seqs", "4")), client)


async def test_stopping_and_killing_leave_the_adopted_vllm_running(client: AsyncLLM) -> None:
    engine = VllmEngine(EngineSettings(), client)
    await engine.start()
    engine.kill("it was silent for too long")
    with pytest.raises(EngineDead, match="it was silent for too long"):
        await think(engine, QUESTION)
    engine.stop()
    assert not client.errored
    await engine.start()
    brief = generation(engine, Budget(thinking=40, answer=8))
    assert len((await think(engine, QUESTION, FULL_BUDGET, brief)).checkpoints) > 0
    engine.stop()


@pytest.mark.parametrize("share_memory", [(True, True), (False, False), (True, False)])
async def test_two_front_ends_of_one_vllm_do_not_disturb_each_other(
    client: AsyncLLM, share_memory: tuple[bool, bool]
) -> None:
    """Their requests have the same slots and tickets, each in a table of its own."""
    engines = [VllmEngine(EngineSettings(shares_memory=each), client) for each in share_memory]
    for engine in engines:
        await engine.start()
    greedy = [generation(one, sampling=Sampling(0.0, 1.0)) for one in engines]
    questions = [f"A dial shows {start}. A up 5. What does it show now?" for start in range(8)]
    alone = [await think(engines[0], question, FULL_BUDGET, greedy[0]) for question in questions]
    together = await asyncio.gather(
        *(think(engines[n % 2], questions[n], FULL_BUDGET, greedy[n % 2]) for n in range(8)),
        *(think(engines[1 - n % 2], questions[n], FULL_BUDGET, greedy[0]) for n in range(8)),
    )
    for n, told in enumerate(together):
        expected = alone[n % 8].rollout
        assert told.rollout.tokens == expected.tokens
        for reading, other in zip(told.rollout.readings, expected.readings, strict=True):
            assert (reading.tokens, reading.is_final) == (other.tokens, other.is_final)
            assert reading.confidence == pytest.approx(other.confidence, abs=1e-4)
    for engine in engines:
        engine.stop()


@pytest.mark.parametrize("shares_memory", [True, False])
async def test_memory_is_shared_where_all_workers_see_it(
    client: AsyncLLM, shares_memory: bool
) -> None:
    engine = VllmEngine(EngineSettings(shares_memory=shares_memory), client)
    await engine.start()
    assert engine.running is not None
    assert engine.running.table.address.shared is shares_memory
    engine.stop()


async def test_readings_are_fetched_where_a_worker_has_no_such_file(
    client: AsyncLLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on another host: the front end's file is not there."""
    mark = ReadingsTable.mark

    def mark_and_remove(table: ReadingsTable, number: int) -> None:
        mark(table, number)
        table.unlink()

    monkeypatch.setattr(ReadingsTable, "mark", mark_and_remove)
    engine = VllmEngine(EngineSettings(), client)
    await engine.start()
    assert engine.running is not None
    assert not engine.running.table.address.shared
    brief = generation(engine, Budget(thinking=40, answer=8))
    told = await think(engine, QUESTION, FULL_BUDGET, brief)
    assert [reading.tokens for reading in told.checkpoints] == [32, 40]
    engine.stop()
