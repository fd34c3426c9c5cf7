"""The self-test: a run of ten tokens, whose readings and exits are held to what they should be.

`rlcm_serve.engine.worker.hooks` finds that vLLM has every name that is used of it. This finds that
vLLM does what the names promise: that it runs the model with the probe and calls the processor,
that the states are those of the rows that sample, and that a forced stop id ends a rollout.

Three questions of different lengths run together, so that their rows differ. Readings are compared
with a forward pass of transformers in this process. Where the model is too large for one, or
transformers cannot load it, states are compared with those that vLLM itself computes when it reads
the same tokens as a prompt: that finds wrong rows, but not a fault that both ways share.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from calibration import FULL_BUDGET, ExitPolicy, ExitReason
from rlcm_serve.core import (
    Budget,
    GenerationSettings,
    Message,
    Reading,
    Role,
    Rollout,
    Sampling,
    Signal,
    TokenIds,
)
from rlcm_serve.engine.diagnosis.forward import Expected, Forward
from rlcm_serve.engine.model_files import ModelFiles
from rlcm_serve.errors import UnsupportedVllm
from rlcm_serve.profiles.profile import DEFAULT_NAME

if TYPE_CHECKING:
    from rlcm_serve.engine.vllm_engine import VllmEngine
    from rlcm_serve.engine.vllm_reasoner import VllmReasoner

TOKENS, INTERVAL = 10, 6
"""One reading early and one at the end, for which every table of readings has room."""
QUESTIONS = ("1", "What is 2 + 2?", "How many days are there in three weeks and a day?")
AT_START = 2**28
"""Bytes of weights up to which `rlcm serve` tests itself when it starts."""
ON_REQUEST = 2**32
"""Bytes of weights up to which a model is loaded by transformers if a self-test is asked for."""

_EXACT, _ROUNDED = 1e-3, 0.1
"""Largest difference of a confidence in float32, and in shorter numbers."""
_STATE_EXACT, _STATE_ROUNDED = 1e-3, 0.25
"""Largest difference of a state, as a share of its norm. States of two rows differ by about 1."""


@dataclass(frozen=True, slots=True)
class SelfTest:
    """A self-test that was passed.

    Attributes:
        readings: that were compared.
        states: whether their states were compared, too.
        worst: the largest difference of a confidence; None if only states were compared.
        worst_state: the largest difference of a state as a share of its norm; None without states.
        reference: what they were compared with, "transformers" or "vLLM".
        seconds: it took.
    """

    readings: int
    worst: float | None
    worst_state: float | None
    reference: str
    seconds: float


_CANNOT_LOAD = (AttributeError, ImportError, LookupError, OSError, RuntimeError, ValueError)
"""What transformers, which knows fewer models than vLLM, raises for those it cannot load."""

Run = tuple[TokenIds, Rollout]
"""A prompt and its rollout."""


def weight_bytes(files: ModelFiles) -> int:
    """Size of the model's weights on disk."""
    weights = [*files.folder.glob("*.safetensors"), *files.folder.glob("*.bin")]
    return sum(file.stat().st_size for file in weights)


async def self_test(
    engine: VllmEngine, files: ModelFiles, limit: int = ON_REQUEST
) -> SelfTest | None:
    """Tests an engine that runs; None if there is nothing to compare its readings with.

    Args:
        engine: has started. If it records inputs, states are compared too.
        files: of its model.
        limit: bytes of weights up to which transformers loads the model.

    Raises:
        UnsupportedVllm: a reading or an exit is not what it should be; the message says how.
        EngineDead: vLLM died.
    """
    began = time.perf_counter()
    forward = await asyncio.to_thread(_forward, engine, files, limit)
    if forward is None and not engine.settings.record_inputs:
        return None
    tested = engine.under(DEFAULT_NAME).with_interval(INTERVAL)
    runs = await _runs(tested, [FULL_BUDGET] * len(QUESTIONS))
    _require_readings(runs, engine)
    if forward is not None:
        expected = await asyncio.to_thread(_expected, forward, runs)
    else:
        expected = await _reread(engine, runs)
    worst, worst_state = _compared(runs, expected, _is_exact(engine))
    await _require_exit(tested, runs)
    return SelfTest(
        readings=sum(len(rollout.readings) for _, rollout in runs),
        worst=worst,
        worst_state=worst_state,
        reference="vLLM" if forward is None else "transformers",
        seconds=time.perf_counter() - began,
    )


def _forward(engine: VllmEngine, files: ModelFiles, limit: int) -> Forward | None:
    """The model in transformers; None if it is too large, quantized or not known there."""
    quantized = engine.identity.facts.quantization or "quantization_config" in files.config
    if weight_bytes(files) > limit or quantized or engine.identity.facts.overrides:
        return None
    try:
        signal = Signal(engine.settings.confidence)
        return Forward(files, engine.stop_ids, signal, INTERVAL)
    except _CANNOT_LOAD:
        return None


async def _runs(engine: VllmReasoner, policies: Sequence[ExitPolicy]) -> list[Run]:
    """Greedy rollouts of all questions at once."""
    how = GenerationSettings(Budget(TOKENS, 1), Sampling(temperature=0.0, top_p=1.0))

    async def run(question: str, policy: ExitPolicy) -> Run:
        prompt = engine.prompt([Message(Role.USER, question)])
        async with aclosing(engine.think(prompt, policy, how)) as events:
            async for event in events:
                if isinstance(event, Rollout):
                    return prompt, event
        raise UnsupportedVllm(_failed("a request ended without a rollout"))

    return list(await asyncio.gather(*map(run, QUESTIONS, policies)))


def _require_readings(runs: Sequence[Run], engine: VllmEngine) -> None:
    """Raises `UnsupportedVllm` if a reading is missing or is no number."""
    reads = engine.probe_folder is not None or engine.settings.confidence != Signal.PROBE
    for _, rollout in runs:
        length = len(rollout.tokens)
        if length > TOKENS:
            raise UnsupportedVllm(
                _failed(f"a rollout of at most {TOKENS} tokens has {length}: no stop id was forced")
            )
        early = [*range(INTERVAL, length + 1, INTERVAL)]
        found = [reading.tokens for reading in rollout.readings]
        if found != [*early, length]:
            raise UnsupportedVllm(
                _failed(f"readings came after {found} tokens, and not after {[*early, length]}")
            )
        if reads and any(math.isnan(reading.confidence) for reading in rollout.readings):
            raise UnsupportedVllm(
                _failed(
                    "a reading is not a number: vLLM does not compute logits with the model that "
                    "keeps its states (see model_class_overrides in its log)"
                )
            )


def _expected(forward: Forward, runs: Sequence[Run]) -> list[list[Expected]]:
    return [
        forward.expected(prompt, rollout.tokens, [one.tokens for one in rollout.readings])
        for prompt, rollout in runs
    ]


async def _reread(engine: VllmEngine, runs: Sequence[Run]) -> list[list[Expected]]:
    """The states of the same tokens, as vLLM computes them alone and in a prompt."""
    found = []
    for prompt, rollout in runs:
        prefixes = [(*prompt, *rollout.tokens[: one.tokens]) for one in rollout.readings]
        states = [torch.from_numpy(await engine.prompt_state(prefix)) for prefix in prefixes]
        found.append([Expected(math.nan, state_H) for state_H in states])
    return found


def _compared(
    runs: Sequence[Run], expected: Sequence[Sequence[Expected]], exact: bool
) -> tuple[float | None, float | None]:
    """The largest differences of confidences and of states.

    Raises:
        UnsupportedVllm: one is too large.
    """
    most, most_state = (_EXACT, _STATE_EXACT) if exact else (_ROUNDED, _STATE_ROUNDED)
    differences, of_states = [], []
    for (_, rollout), should in zip(runs, expected, strict=True):
        for reading, one in zip(rollout.readings, should, strict=True):
            where = f"the reading after {reading.tokens} tokens of one of {len(runs)} rollouts"
            if reading.inputs is not None:
                off = _state_difference(reading, one)
                of_states.append(off)
                if not off <= most_state:
                    raise UnsupportedVllm(
                        _failed(
                            f"{where} has the state of another token: it differs by {off:.2g} of "
                            f"its norm from the state computed anew, and {most_state:g} is allowed"
                        )
                    )
            if not math.isnan(one.confidence):
                off = abs(reading.confidence - one.confidence)
                differences.append(off)
                if not off <= most:
                    raise UnsupportedVllm(
                        _failed(
                            f"{where} is {reading.confidence:.4f}, but a forward pass of the same "
                            f"tokens gives {one.confidence:.4f}"
                        )
                    )
    return max(differences, default=None), max(of_states, default=None)


def _state_difference(reading: Reading, expected: Expected) -> float:
    state_H = torch.from_numpy(reading.inputs)[: len(expected.state_H)]
    return float((state_H - expected.state_H).norm() / expected.state_H.norm())


async def _require_exit(engine: VllmReasoner, runs: Sequence[Run]) -> None:
    """Raises `UnsupportedVllm` if a rule that fires does not end a rollout at that reading."""
    readings = [[one for one in rollout.readings if not one.is_final] for _, rollout in runs]
    fires = [bool(early) and not math.isnan(early[0].confidence) for early in readings]
    policies = [ExitPolicy(lambda_high=0.0) if fire else FULL_BUDGET for fire in fires]
    if not any(fires):
        return
    for (_, rollout), fire in zip(await _runs(engine, policies), fires, strict=True):
        if fire and (rollout.exit, len(rollout.tokens)) != (ExitReason.HIGH, INTERVAL):
            raise UnsupportedVllm(
                _failed(
                    f"a rule that fires after {INTERVAL} tokens ended a rollout after "
                    f"{len(rollout.tokens)} ({rollout.exit}): the forced stop id has no effect"
                )
            )


def _is_exact(engine: VllmEngine) -> bool:
    return engine.identity.facts.dtype == "float32"


def _failed(why: str) -> str:
    """The message of a self-test that failed."""
    return (
        f"the self-test failed: {why}. Exits would be wrong, so nothing is served. Install a "
        "supported vLLM (`make install`) and remove other plugins of vLLM and engine arguments; "
        "`rlcm doctor --self-test` repeats the test"
    )
