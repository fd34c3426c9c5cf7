"""TRL's vLLM engine in the trainer's process: its arguments, and how it is kept awake."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch

from rlcm_serve.engine import launch
from rlcm_serve.engine.model_files import ModelFiles
from rlcm_serve.engine.worker.plain_weights import keep_weights_plain


def set_environment() -> None:
    """Sets the variables that vLLM reads on import, and a free port. Existing values stay.

    TRL's default is a fixed port if it is free, so two runs that start together would collide.
    """
    launch.set_environment()
    if "WORLD_SIZE" not in os.environ:
        os.environ.setdefault("MASTER_PORT", str(_free_port()))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def cpu_arguments(files: ModelFiles) -> dict[str, Any] | None:
    """vLLM's arguments for a machine without a GPU; None if there is a GPU.

    The engine starts in seconds, caches prefixes in small blocks and runs many forced answers
    at once. Weights stored as float32 stay float32; vLLM would round them to bfloat16.
    """
    if torch.cuda.is_available():
        return None
    precise = {"dtype": "float32"} if stored_dtype(files) is torch.float32 else {}
    return {"enforce_eager": True, "block_size": 32, "max_num_seqs": 256, **precise}


@contextmanager
def engine_arguments(on_cpu: dict[str, Any] | None, more: dict[str, Any]) -> Iterator[None]:
    """Passes vLLM arguments that TRL's configuration cannot express to TRL's engine.

    Args:
        on_cpu: result of `cpu_arguments`; unless it is None, weights are kept replaceable.
        more: further arguments of `vllm.LLM`; they override all others.
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
    """Keeps the engine awake across several generations, so that its prefix cache survives.

    Otherwise TRL puts it to sleep after each generation, which drops weights and cache.

    Args:
        generation: TRL's `VLLMGeneration` with up-to-date weights.
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


def stored_dtype(files: ModelFiles) -> torch.dtype:
    """The type in which the model's weights are stored."""
    dtype: torch.dtype = getattr(torch, files.dtype or "float32")
    return dtype


def send_weights_as(generation: Any, dtype: torch.dtype) -> None:
    """Lets the engine get weights in the model's own type; training keeps them in float32.

    Half as many bytes go to a server for a model of bfloat16, which rounds them in any case.

    Args:
        generation: TRL's `VLLMGeneration`.
    """
    named = generation._iter_named_params

    def in_type() -> Iterator[tuple[str, torch.Tensor]]:
        for name, parameter in named():
            yield name, parameter.to(dtype)

    generation._iter_named_params = in_type


@contextmanager
def brief(generation: Any, tokens: int) -> Iterator[Any]:
    """Limits generations to `tokens` tokens and to ids only, as the trainer decodes them.

    vLLM needs texts where a text ends a generation. A rollout's minimum is none of an answer's.
    """
    longest, arguments = generation.max_completion_length, generation.generation_kwargs
    generation.max_completion_length = tokens
    own: dict[str, Any] = {"min_tokens": 0} if "min_tokens" in arguments else {}
    if generation.mode == "colocate":
        own |= {"detokenize": bool(arguments.get("stop")), "logprobs": None}
    generation.generation_kwargs = {**arguments, **own}
    try:
        yield generation
    finally:
        generation.max_completion_length = longest
        generation.generation_kwargs = arguments
