"""The engine in the trainer's process: its arguments, its sleep, its brief answers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from trl.generation import vllm_generation
from vllm import SamplingParams

from rlcm_serve.engine.model_files import EMBEDDED_MODEL, ModelFiles
from training.rl.trainer.colocated import (
    awake,
    brief,
    cpu_arguments,
    engine_arguments,
    send_weights_as,
    set_environment,
)


class Sleeper:
    """TRL's engine, as far as it sleeps."""

    def __init__(self, sleeps: bool = True, mode: str = "colocate") -> None:
        self.mode = mode
        self.enable_sleep_mode = sleeps
        self._llm_weights_sleeping = sleeps
        self.max_completion_length = 512
        self.generation_kwargs: dict[str, Any] = {"bad_words": ["no"]}
        self.llm = self
        self.done: list[str] = []

    def sync_weights(self) -> None:
        self.done.append("weights")
        self._llm_weights_sleeping = False

    def wake_up(self, tags: list[str]) -> None:
        self.done.append(f"wake {tags[0]}")

    def sleep(self, level: int) -> None:
        self.done.append(f"sleep {level}")


def test_every_run_has_a_port_of_its_own_unless_it_is_told_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    monkeypatch.setenv("MASTER_PORT", "")  # so that what it is now comes back
    ports = []
    for _ in range(4):
        monkeypatch.delenv("MASTER_PORT")
        set_environment()
        ports.append(os.environ["MASTER_PORT"])
    assert len(set(ports)) > 1
    set_environment()
    assert os.environ["MASTER_PORT"] == ports[-1]


def test_it_wakes_once_and_sleeps_after_the_last_generation() -> None:
    engine = Sleeper()
    with awake(engine):
        assert engine.done == ["weights", "wake kv_cache"]
        assert not engine.enable_sleep_mode  # so no generation in between sends it to sleep
    assert engine.done[2:] == ["sleep 2"]
    assert engine.enable_sleep_mode
    assert engine._llm_weights_sleeping


def test_weights_that_are_there_are_not_pushed_again() -> None:
    engine = Sleeper()
    engine.sync_weights()
    with awake(engine):
        assert engine.done == ["weights", "wake kv_cache"]


def test_it_sleeps_also_after_a_failure() -> None:
    engine = Sleeper()
    with pytest.raises(KeyError), awake(engine):
        raise KeyError
    assert engine.done[-1] == "sleep 2"


@pytest.mark.parametrize("engine", [Sleeper(sleeps=False), Sleeper(mode="server")])
def test_one_that_never_sleeps_is_left_alone(engine: Sleeper) -> None:
    with awake(engine):
        pass
    assert engine.done == []


def test_brief_answers_are_short_and_then_it_is_as_before() -> None:
    engine = Sleeper()
    with brief(engine, 8):
        assert engine.max_completion_length == 8
        assert engine.generation_kwargs == {
            "bad_words": ["no"],
            "detokenize": False,
            "logprobs": None,
        }
    assert engine.max_completion_length == 512
    assert engine.generation_kwargs == {"bad_words": ["no"]}


@pytest.mark.parametrize("mode", ["colocate", "server"])
def test_brief_answers_are_such_as_vllm_takes_whatever_rollouts_have(mode: str) -> None:
    engine = Sleeper(mode=mode)
    engine.generation_kwargs = {"stop": ["\n\n"], "min_tokens": 100}
    with brief(engine, 8):
        SamplingParams(max_tokens=engine.max_completion_length, **engine.generation_kwargs)


def test_a_server_is_asked_for_nothing_that_it_does_not_know() -> None:
    engine = Sleeper(mode="server")
    with brief(engine, 8):
        assert engine.generation_kwargs == {"bad_words": ["no"]}


def test_arguments_of_ours_win_over_trls_and_the_users_over_ours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(vllm_generation, "LLM", dict)
    with engine_arguments(None, {"max_num_seqs": 7, "seed": 1}):
        assert vllm_generation.LLM(model="m", max_num_seqs=3) == {
            **{"model": "m", "max_num_seqs": 7},
            "seed": 1,
        }
    assert vllm_generation.LLM is dict


def test_float32_weights_stay_float32_on_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    arguments = cpu_arguments(ModelFiles.read(EMBEDDED_MODEL))
    assert arguments is not None
    assert arguments["dtype"] == "float32"
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    assert cpu_arguments(ModelFiles.read(EMBEDDED_MODEL)) is None


def test_weights_are_sent_in_the_models_own_type() -> None:
    """As `sync_weights` of TRL does: once for names and types, then again for the values."""

    class Sending:
        def _iter_named_params(self) -> Iterator[tuple[str, torch.Tensor]]:
            yield "layer", torch.tensor([1.0, 1 + 2**-20])

    sending = Sending()
    send_weights_as(sending, torch.bfloat16)
    for _ in range(2):
        ((name, sent),) = sending._iter_named_params()
        assert name == "layer"
        assert sent.dtype is torch.bfloat16
        assert sent.tolist() == [1, 1]
