"""`rlcm train check-probe`: whether a probe works with a model, before anything is recorded."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from calibration import FULL_BUDGET
from rlcm_serve.core import GenerationSettings, Rollout, TokenIds
from rlcm_serve.engine.contract import Reasoner
from rlcm_serve.engine.launch import EngineSettings
from rlcm_serve.engine.model_files import ModelFiles, resolve_model
from rlcm_serve.engine.worker.probe import Probe
from rlcm_serve.recording.offline import running_engine
from training.errors import TrainingRefused
from training.probe.reference import reference_inputs, reference_readings

EXACT, ROUNDED = 1e-4, 0.05
"""Largest difference from the reference: of a float32 model, and of one with fewer digits."""
_SATURATED = 1e-6


@dataclass(frozen=True, slots=True)
class ProbeCheck:
    """What a check found.

    Attributes:
        cuts: tokens before each reading of the one rollout; the last is the final reading.
        readings: of the engine.
        expected: of a transformers forward; None if it was not asked for.
        tolerance: largest difference that counts as agreement.
    """

    cuts: tuple[int, ...]
    readings: tuple[float, ...]
    expected: tuple[float, ...] | None
    tolerance: float

    @property
    def difference(self) -> float:
        """The largest between engine and transformers; NaN where one reads NaN, 0 without them."""
        pairs = zip(self.readings, self.expected or self.readings, strict=True)
        gaps = [abs(reading - expected) for reading, expected in pairs]
        return math.nan if any(map(math.isnan, gaps)) else max(gaps)

    @property
    def faults(self) -> list[str]:
        """What is wrong, one sentence each."""
        found = []
        if odd := [one for one in self.readings if not 0 <= one <= 1]:
            found.append(f"a reading is {odd[0]}: every reading must be a number from 0 to 1")
        elif all(one < _SATURATED or one > 1 - _SATURATED for one in self.readings):
            found.append(
                f"every reading is 0 or 1 to {_SATURATED:g}, and no threshold tells such readings "
                "apart: standardise the inputs in the first layer's weights"
            )
        if not self.difference <= self.tolerance:
            found.append(
                f"the engine and transformers differ by {self.difference:.2g}, more than "
                f"{self.tolerance:g}: one of them runs this model differently"
            )
        return found


def check_probe(
    settings: EngineSettings, question: str, console: Console, *, compare: bool = True
) -> ProbeCheck:
    """Lets the model answer one question, and compares every reading with a transformers forward.

    Args:
        settings: names the model, the probe and the profile under which the question is asked.
        compare: whether to load the model into transformers, once vLLM has stopped.

    Raises:
        ModelRefused: the files of the probe are wrong, or it is for another model.
        EngineDead: vLLM could not start.
        TrainingRefused: transformers cannot load the model.
    """
    folder = resolve_model(settings.model)
    files = ModelFiles.read(folder, settings.probe)
    prompt, rollout, stop_ids = asyncio.run(_one_rollout(settings, question, console))
    cuts = [reading.tokens for reading in rollout.readings]
    expected = None
    if compare:
        probe = Probe.load(files.probe_folder)
        adapter = next((one.adapter for one in settings.profiles), None)
        expected = tuple(_expected(folder, adapter, probe, prompt, rollout.tokens, stop_ids, cuts))
    is_exact = files.dtype == "float32"
    return ProbeCheck(
        tuple(cuts),
        tuple(reading.confidence for reading in rollout.readings),
        expected,
        EXACT if is_exact else ROUNDED,
    )


def in_words(found: ProbeCheck, model: str) -> list[str]:
    """What a check found, in lines of text."""
    lines = []
    for number, cut in enumerate(found.cuts):
        beside = "" if found.expected is None else f"   transformers {found.expected[number]:.6f}"
        lines.append(f"after {cut:5d} tokens   engine {found.readings[number]:.6f}{beside}")
    lines += [f"wrong: {fault}" for fault in found.faults]
    if not found.faults:
        agree = "" if found.expected is None else f"; largest difference {found.difference:.1e}"
        lines.append(f"the probe works with {model}{agree}")
    return lines


async def _one_rollout(
    settings: EngineSettings, question: str, console: Console
) -> tuple[TokenIds, Rollout, tuple[int, int]]:
    async with running_engine(replace(settings, needs_probe=True), console) as engine:
        reasoner = engine.under(settings.profile)
        prompt = reasoner.prompt(reasoner.identity.profile.messages(question))
        return prompt, await _think(reasoner, prompt), engine.stop_ids


async def _think(engine: Reasoner, prompt: TokenIds) -> Rollout:
    generation = GenerationSettings(engine.identity.budget, engine.identity.sampling)
    events = [event async for event in engine.think(prompt, FULL_BUDGET, generation)]
    rollout = events[-1]
    if not isinstance(rollout, Rollout):
        raise RuntimeError("the engine's events ended without a rollout")
    return rollout


def _expected(
    folder: Path,
    adapter: Path | None,
    probe: Probe,
    prompt: TokenIds,
    tokens: TokenIds,
    stop_ids: Sequence[int],
    cuts: Sequence[int],
) -> list[float]:
    try:
        inputs = reference_inputs(folder, prompt, tokens, stop_ids, adapter)
    except (OSError, ValueError) as error:
        raise TrainingRefused(
            f"transformers cannot load {folder} ({error}): check without it, with --no-reference"
        ) from error
    return reference_readings(probe, inputs, cuts)
