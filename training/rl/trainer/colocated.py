"""TRL's vLLM in the trainer's own process: its arguments, and keeping it awake."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch

from rlcm_serve.engine.launch import ENVIRONMENT
from rlcm_serve.engine.model_files import ModelFiles
from rlcm_serve.engine.worker.plain_weights import keep_weights_plain


def set_environment() -> None:
    """What vLLM reads when it is imported, and a port of this run's own; what is set already stays.

    By itself TRL takes a fixed port while it is free: two runs that start together the same one.
    """
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    if "WORLD_SIZE" not in os.environ:
        os.environ.setdefault("MASTER_PORT", str(_free_port()))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def cpu_arguments(files: ModelFiles) -> dict[str, Any] | None:
    """vLLM's arguments where there is no GPU; None where there is one.

    A start in seconds, a prefix cache that is fine enough for short cuts, room for many forced
    answers, and float32 for weights that are float32, which vLLM would round to bfloat16.
    """
    if torch.cuda.is_available():
        return None
    stored = files.config.get("dtype", files.config.get("torch_dtype"))
    precise = {"dtype": "float32"} if stored == "float32" else {}
    return {"enforce_eager": True, "block_size": 32, "max_num_seqs": 256, **precise}


@contextmanager
def engine_arguments(on_cpu: dict[str, Any] | None, more: dict[str, Any]) -> Iterator[None]:
    """Has TRL start its engine with arguments that its own configuration has no names for.

    Args:
        on_cpu: what `cpu_arguments` gives; unless None, weights are kept replaceable.
        more: further arguments of `vllm.LLM`; they win over all others.
    """
    from trl.generation import vllm_generation

    if on_cpu is not None:
        keep_weights_plain()
    engine_class = vllm_generation.LLM
    vllm_generation.LLM = partial(_merged, engine_class, {**(on_cpu or {}), **more})
    try:
        yield
    finally:
        vllm_generation.LLM = engine_class


def _merged(engine_class: Callable[..., Any], ours: dict[str, Any], **theirs: Any) -> Any:
    return engine_class(**{**theirs, **ours})


@contextmanager
def awake(generation: Any) -> Iterator[None]:
    """Keeps a sleeping engine awake over several generations, and with it its prefix cache.

    TRL puts it to sleep after each one, which drops weights and cache.

    Args:
        generation: TRL's `VLLMGeneration`, its weights up to date.
    """
    if generation.mode != "colocate" or not generation.enable_sleep_mode:
        yield
        return
    if generation._llm_weights_sleeping:
        generation.sync_weights()
    generation.llm.wake_up(tags=["kv_cache"])
    generation.enable_sleep_mode = False
    try:
        yield
    finally:
        generation.enable_sleep_mode = True
        generation.llm.sleep(level=2)
        generation._llm_weights_sleeping = True


@contextmanager
def brief(generation: Any, tokens: int) -> Iterator[Any]:
    """Has the engine give at most so many tokens, ids alone: the trainer decodes them."""
    longest, arguments = generation.max_completion_length, generation.generation_kwargs
    generation.max_completion_length = tokens
    if generation.mode == "colocate":
        generation.generation_kwargs = {**arguments, "detokenize": False, "logprobs": None}
    try:
        yield generation
    finally:
        generation.max_completion_length = longest
        generation.generation_kwargs = arguments
