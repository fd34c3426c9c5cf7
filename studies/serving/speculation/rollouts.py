"""Rollouts of the study: generated in chunks, each kept in a file, so that a run goes on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Self
from unittest.mock import patch

import prometheus_client

from calibration import ExitPolicy
from calibration.files import write_text
from calibration.policy.exit_rule import NEVER
from rlcm_serve.core import Budget, GenerationSettings, Message, Role, Rollout, Sampling
from rlcm_serve.engine.clients import arguments
from rlcm_serve.engine.launch import EngineSettings
from rlcm_serve.engine.model_files import WARM_START
from rlcm_serve.engine.vllm_engine import VllmEngine
from training.tasks.problems import Split, sample_problems

INTERVAL = 16
DRAFTS = 3
LAMBDA_HIGH = (NEVER, 0.6, 0.8, 0.95)
"""Of one question after the other. The first never fires."""
COUNTERS = {
    "generated": "generation_tokens",
    "verifications": "spec_decode_num_drafts",
    "drafted": "spec_decode_num_draft_tokens",
    "accepted": "spec_decode_num_accepted_tokens",
}
"""Our names for vLLM's counters."""


class Arm(StrEnum):
    """An engine."""

    PLAIN = "plain"
    DRAFTS = "drafts"
    BROKEN = "broken"
    """With drafts, and with readings at rows of drafts that may be refused."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Rollouts to generate.

    Attributes:
        name: of the plan, and of its folder.
        prompts: number of questions.
        samples: rollouts of each question, which have seeds.
        thinking: budget of each rollout, in tokens.
        temperature: 0 for greedy.
        arms: the engines that generate them.
        chunk: questions in one file.
    """

    name: str
    prompts: int
    samples: int
    thinking: int
    temperature: float
    arms: tuple[Arm, ...]
    chunk: int = 25


@dataclass(frozen=True, slots=True)
class Seen:
    """One rollout: its question and sample, and what the comparison reads of it.

    `readings` are (tokens, confidence).
    """

    question: int
    sample: int
    tokens: tuple[int, ...]
    exit: str
    readings: tuple[tuple[int, float], ...]
    discarded: int

    @classmethod
    def of(cls, question: int, sample: int, rollout: Rollout) -> Self:
        readings = tuple((one.tokens, one.confidence) for one in rollout.readings)
        ended = str(rollout.exit)
        return cls(question, sample, rollout.tokens, ended, readings, rollout.discarded)

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> Self:
        pairs = tuple((int(tokens), float(read)) for tokens, read in stored["readings"])
        return cls(**stored | {"readings": pairs, "tokens": tuple(stored["tokens"])})


@dataclass
class Chunk:
    """The rollouts of some questions, and by how much vLLM's counters grew."""

    rollouts: list[Seen] = field(default_factory=list)
    counts: dict[str, float] = field(default_factory=dict)

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        plain = {"counts": self.counts, "rollouts": [asdict(one) for one in self.rollouts]}
        write_text(path, json.dumps(plain))

    @classmethod
    def load(cls, path: Path) -> Self:
        stored = json.loads(path.read_text())
        return cls([Seen.from_json(one) for one in stored["rollouts"]], stored["counts"])


def path_of(folder: Path, plan: Plan, arm: Arm, first: int) -> Path:
    """The file of the chunk that begins with question `first`."""
    return folder / plan.name / arm / f"{first:03d}.json"


def load(folder: Path, plan: Plan, arm: Arm) -> list[Chunk]:
    """The chunks that exist, in their order."""
    paths = (path_of(folder, plan, arm, first) for first in range(0, plan.prompts, plan.chunk))
    return [Chunk.load(path) for path in paths if path.exists()]


async def generate(folder: Path, arm: Arm, plans: list[Plan]) -> None:
    """Generates the chunks of one arm that are missing."""
    missing = [
        (plan, first)
        for plan in plans
        for first in range(0, plan.prompts if arm in plan.arms else 0, plan.chunk)
        if not path_of(folder, plan, arm, first).exists()
    ]
    if not missing:
        return
    with _processor_of(arm):
        engine = VllmEngine(_settings(folder, arm))
        await engine.start()
    try:
        if engine.running is None or not engine.running.llm.vllm_config.use_v2_model_runner:
            raise SystemExit(
                "this study needs vLLM's V2 model runner: use `make speculation-study`"
            )
        for plan, first in missing:
            path = path_of(folder, plan, arm, first)
            (await _chunk(engine, plan, arm, first)).save(path)
            print(path, flush=True)
    finally:
        engine.stop()


@contextmanager
def _processor_of(arm: Arm) -> Iterator[None]:
    broken = {"v2": "studies.serving.speculation.broken:ReadsRefusedRows"}
    with patch.dict(arguments._PROCESSORS, broken if arm is Arm.BROKEN else {}):
        yield


def _settings(folder: Path, arm: Arm) -> EngineSettings:
    drafts = {
        "method": "draft_model",
        "model": str(WARM_START),
        "num_speculative_tokens": DRAFTS,
    }
    speculation = ("--speculative-config", json.dumps(drafts)) if arm is not Arm.PLAIN else ()
    log = folder / f"{arm}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    started = ("--max-num-seqs", "64", *speculation)
    return EngineSettings(interval=INTERVAL, log_stats=True, log=log, vllm_arguments=started)


async def _chunk(engine: VllmEngine, plan: Plan, arm: Arm, first: int) -> Chunk:
    before = _counts()
    questions = [p.question for p in sample_problems(Split.VALIDATION, plan.prompts, seed=41)]
    own = range(first, min(first + plan.chunk, plan.prompts))
    rollouts = await asyncio.gather(
        *(
            _rollout(engine, plan, arm, number, questions[number], sample)
            for number in own
            for sample in range(plan.samples)
        )
    )
    grown = {name: count - before[name] for name, count in _counts().items()}
    return Chunk(list(rollouts), grown)


async def _rollout(
    engine: VllmEngine, plan: Plan, arm: Arm, number: int, question: str, sample: int
) -> Seen:
    # Arms must not share seeds: then their rollouts would not be independent.
    seed = (number * plan.samples + sample) * len(Arm) + list(Arm).index(arm)
    how = GenerationSettings(
        Budget(plan.thinking, 2), Sampling(plan.temperature, top_p=1.0), seed=seed
    )
    policy = ExitPolicy(lambda_high=LAMBDA_HIGH[number % len(LAMBDA_HIGH)])
    prompt = engine.prompt([Message(Role.USER, question)])
    async for event in engine.think(prompt, policy, how):
        if isinstance(event, Rollout):
            return Seen.of(number, sample, event)
    raise RuntimeError("no rollout came")


def _counts() -> dict[str, float]:
    labels = {"engine": "0", "model_name": "embedded"}
    get = prometheus_client.REGISTRY.get_sample_value
    return {name: get(f"vllm:{counter}_total", labels) or 0.0 for name, counter in COUNTERS.items()}
