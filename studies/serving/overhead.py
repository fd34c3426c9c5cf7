"""The cost of the probe: tokens per second of plain vLLM against vLLM under exit control.

    python -m studies.serving.overhead [--model embedded] [--runner v1] [--rounds 21] [--smoke]

Three engines of the same model run in turn, so that other work on the machine slows all:
plain vLLM, one with a probe of the state, and one with a probe of the state and the tokens. The
order changes from round to round, and the medians of the ratios to plain vLLM are reported: of
tokens per second, and of the processor time of vLLM's own processes, which other work on the
machine disturbs less. All engines use the same executor, scheduler and limits, and generate the
same number of tokens for the same prompts (the end of the text is ignored). The controlled ones
read the probe every 32 tokens under a rule that never fires, and return each reading. The embedded
model is the worst case: its forward pass takes hardly longer than the control. Models of other
shapes have random weights (`studies.serving.made_models`). Without `--runner`, vLLM chooses its
model runner; V2 without a GPU runs in Triton's interpreter, whose times mean nothing.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import statistics
import tempfile
import time
from collections.abc import Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import psutil
from vllm import SamplingParams
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.sampling_params import RequestOutputKind
from vllm.v1.engine.async_llm import AsyncLLM

from calibration import FULL_BUDGET
from rlcm_serve.core import Message, Role, TokenIds
from rlcm_serve.engine.clients.cleanup import children
from rlcm_serve.engine.launch import EngineSettings
from rlcm_serve.engine.model_files import EMBEDDED_MODEL
from rlcm_serve.engine.vllm_engine import VllmEngine
from rlcm_serve.engine.worker.exit_control import ControlSpec
from rlcm_serve.engine.worker.probe import PROBE_FOLDER, STATE_ALONE, Probe
from rlcm_serve.engine.worker.readings.slots import ReadingsTable
from rlcm_serve.engine.worker.statistics import STATISTICS
from rlcm_serve.terminal import output_to
from studies.serving.made_models import SHAPES, make_model
from studies.smoke import study_parser
from training.tasks.problems import Split, sample_problems

TOKENS = 512
INTERVAL = 32


@dataclass(frozen=True, slots=True)
class Task:
    """What is measured.

    Attributes:
        model: "embedded", or a shape of `studies.serving.made_models`.
        rounds: interleaved rounds per batch size, after one that warms up.
        batches: prompts at a time.
        tokens: generated per prompt.
        log: file for vLLM's output.
    """

    model: str
    rounds: int
    batches: tuple[int, ...]
    tokens: int
    log: Path


async def main() -> None:
    """Prints a table of ratios; writes them as JSON if asked to."""
    parser = study_parser(__doc__)
    parser.add_argument("--model", choices=("embedded", *SHAPES), default="embedded")
    parser.add_argument("--runner", choices=("v1", "v2"), help="default: vLLM's choice")
    parser.add_argument("--rounds", type=int, default=21, help="interleaved rounds per batch size")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8, 64, 256])
    parser.add_argument("--tokens", type=int, default=TOKENS, help="generated per prompt")
    parser.add_argument("--json", type=Path, help="also write the results into this file")
    parser.add_argument("--log", type=Path, default=Path("runs/overhead.log"))
    options = parser.parse_args()
    if options.runner:
        os.environ["VLLM_USE_V2_MODEL_RUNNER"] = str(int(options.runner == "v2"))
    with tempfile.TemporaryDirectory() as folder:
        task = Task(
            options.model, options.rounds, tuple(options.batches), options.tokens, options.log
        )
        if options.smoke:
            log = Path(folder) / "overhead.log"
            task = replace(task, rounds=1, batches=(1, 4), tokens=2 * INTERVAL, log=log)
        found = await compare(task, Path(folder))
    if options.json:
        options.json.write_text(json.dumps(found, indent=2))


def probe_of_state(model: Path) -> Probe:
    """The model's probe without its weights for the tokens."""
    shipped = Probe.load(model / PROBE_FOLDER)
    weight_WH = shipped.hidden_weight[:, : -len(STATISTICS)]
    return replace(shipped, hidden_weight=weight_WH, inputs=STATE_ALONE)


async def compare(task: Task, folder: Path) -> dict[str, Any]:
    """Prints the rows of each batch size, and returns them with what they were measured on.

    Args:
        task: what to measure.
        folder: for a model and a probe.
    """
    is_made = task.model in SHAPES
    model = make_model(folder / "model", task.model) if is_made else EMBEDDED_MODEL
    probe = folder / "probe-of-state"
    probe_of_state(model).save(probe, INTERVAL)
    arguments = _arguments(task, is_made)
    settings = EngineSettings(model=str(model), log=task.log, vllm_arguments=arguments)
    before = children()
    state = VllmEngine(replace(settings, probe=probe))
    await state.start()
    of_state = children() - before
    both = VllmEngine(replace(settings, log=task.log.with_suffix(".tokens.log")))
    await both.start()
    of_both = children() - before - of_state
    if state.running is None or both.running is None:
        raise RuntimeError(f"the engine did not start: see {task.log}")
    with output_to(task.log.with_suffix(".plain.log")):
        plain = plain_engine(state.running.llm)
    most, of_plain = max(task.batches), children() - before - of_state - of_both
    sides = (
        Side("plain vLLM", plain, of_plain, None, task.tokens, most),
        Side("state", state.running.llm, of_state, state, task.tokens, most),
        Side("state and tokens", both.running.llm, of_both, both, task.tokens, most),
    )
    prompts = [
        state.prompt([Message(Role.USER, problem.question)])
        for problem in sample_problems(Split.VALIDATION, most, seed=9)
    ]
    print("| batch | probe of | tokens/s | ratio to plain vLLM, median (min to max) | CPU time |")
    print("|---|---|---|---|---|")
    rows: list[dict[str, Any]] = []
    try:
        for batch in task.batches:
            runs = [
                await one_round(sides, prompts[:batch], turn) for turn in range(task.rounds + 1)
            ]
            rows += report(batch, sides, runs[1:])  # the first round warms up
    finally:
        for side in sides:
            side.close()
        for engine in (state, both):
            engine.stop()
        plain.shutdown()
    return {
        "model": task.model,
        "tokens": task.tokens,
        "rounds": task.rounds,
        "engine": state.identity.facts.to_json(),
        "rows": rows,
    }


def _arguments(task: Task, is_made: bool) -> tuple[str, ...]:
    """Engine arguments of all sides: room for every batch, and for three engines on one GPU."""
    from vllm.platforms import current_platform

    found = ["--max-num-seqs", str(max(128, *task.batches))]
    if is_made:
        found += ["--load-format", "dummy", "--max-model-len", "2048"]
    if not current_platform.is_cpu():
        found += ["--gpu-memory-utilization", "0.3"]
    return tuple(found)


def report(batch: int, sides: tuple[Side, ...], runs: list[list[Run]]) -> list[dict[str, Any]]:
    """Prints a row per engine, and returns the rows."""
    rows = []
    for at, side in enumerate(sides):
        ratios = [own[at].speed / own[0].speed for own in runs]
        times = [own[at].cpu / own[0].cpu for own in runs if own[0].cpu]
        row = {
            "batch": batch,
            "probe": side.name,
            "tokens_per_s": statistics.median(own[at].speed for own in runs),
            "ratio": statistics.median(ratios),
            "ratio_min": min(ratios),
            "ratio_max": max(ratios),
            "cpu_time": statistics.median(times) if times else None,
        }
        rows.append(row)
        cpu = f"{row['cpu_time']:.3f}" if times else ""
        print(
            f"| {batch} | {side.name} | {row['tokens_per_s']:.0f} | "
            f"{row['ratio']:.3f} ({row['ratio_min']:.3f} to {row['ratio_max']:.3f}) | {cpu} |",
            flush=True,
        )
    return rows


def plain_engine(controlled: AsyncLLM) -> AsyncLLM:
    """The same model, executor and scheduler in vLLM alone, without our classes."""
    config = controlled.vllm_config
    return AsyncLLM.from_engine_args(
        AsyncEngineArgs(
            model=config.model_config.model,
            dtype=config.model_config.dtype,
            max_model_len=config.model_config.max_model_len,
            enforce_eager=config.model_config.enforce_eager,
            load_format=config.load_config.load_format,
            gpu_memory_utilization=config.cache_config.gpu_memory_utilization,
            max_num_seqs=config.scheduler_config.max_num_seqs,
            scheduling_policy=config.scheduler_config.policy,
            enable_chunked_prefill=config.scheduler_config.enable_chunked_prefill,
            distributed_executor_backend=config.parallel_config.distributed_executor_backend,
            enable_prefix_caching=True,
            disable_log_stats=True,
            generation_config="vllm",
        )
    )


class Run(NamedTuple):
    """Tokens per second of one batch, and the seconds of processor time that vLLM took for it."""

    speed: float
    cpu: float


async def one_round(sides: tuple[Side, ...], prompts: list[TokenIds], turn: int) -> list[Run]:
    """One run of each engine, in the order of `sides`; `turn` sets which runs first."""
    runs = {at: await sides[at].run(prompts) for at in _rotated(len(sides), turn)}
    return [runs[at] for at in range(len(sides))]


def _rotated(count: int, turn: int) -> list[int]:
    order = [(at + turn) % count for at in range(count)]
    return order[::-1] if turn % 2 else order


class Side:
    """One of the engines, with its processes and the arguments of its requests."""

    def __init__(
        self,
        name: str,
        llm: AsyncLLM,
        processes: Set[int],
        controlled: VllmEngine | None,
        tokens: int,
        slots: int,
    ) -> None:
        self.name, self.llm, self.controlled, self.tokens = name, llm, controlled, tokens
        self.processes = [psutil.Process(number) for number in processes]
        self.table = None
        if controlled is not None:
            followed = tokens + 1 if "tokens" in name else 0
            self.table = ReadingsTable(slots, tokens // INTERVAL, tokens=followed)
        self.names = itertools.count()

    def close(self) -> None:
        """Removes the table of readings."""
        if self.table is not None:
            self.table.close()

    async def run(self, prompts: list[TokenIds]) -> Run:
        """Generates one batch."""
        began, cpu = time.perf_counter(), self._cpu()
        await asyncio.gather(*map(self._generate, prompts))
        seconds = time.perf_counter() - began
        return Run(len(prompts) * self.tokens / seconds, self._cpu() - cpu)

    def _cpu(self) -> float:
        return sum(sum(process.cpu_times()[:2]) for process in self.processes)

    async def _generate(self, prompt: TokenIds) -> None:
        params = SamplingParams(
            temperature=0.8,
            max_tokens=self.tokens,
            ignore_eos=True,
            detokenize=False,
            output_kind=RequestOutputKind.DELTA,
        )
        slot = None
        if self.table is not None and self.controlled is not None:
            slot = await self.table.acquire(INTERVAL)
            high, low = self.controlled.stop_ids
            params.extra_args = ControlSpec(
                policy=FULL_BUDGET,
                interval=INTERVAL,
                budget=self.tokens + 1,
                stop_high=high,
                stop_low=low,
                think_end=None,  # reads on to the last token
                table=self.table.address,
                slot=slot.number,
                ticket=slot.ticket,
            ).to_extra_args()
        received, readings = 0, 0
        inputs = {"prompt_token_ids": list(prompt)}
        async for output in self.llm.generate(inputs, params, f"overhead-{next(self.names)}"):
            received += len(output.outputs[0].token_ids)
            readings += len(slot.new(received)) if slot else 0
        expected = (self.tokens - 1) // INTERVAL if slot else 0
        if received != self.tokens or readings != expected:
            raise RuntimeError(f"{received} tokens and {readings} readings: nothing comparable ran")
        if self.table is not None and slot is not None:
            self.table.release(slot)


if __name__ == "__main__":
    asyncio.run(main())
