"""The real engine: vLLM, with the probe in its model and the exit rule in its sampler."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from calibration import ExitPolicy, ExitReason
from rlcm_serve.core import Budget, Checkpoint, Completion, Sampling, Thought, TokenIds
from rlcm_serve.engine.base import EngineIdentity, ReasoningEngine
from rlcm_serve.engine.control import ControlSpec
from rlcm_serve.engine.model_files import (
    ModelFiles,
    chat_template_digest,
    resolve_model,
    spare_ids,
    think_end_id,
)
from rlcm_serve.engine.readings import ReadingsTable, Slot
from rlcm_serve.errors import EngineDead, ModelRefused, RequestRefused
from rlcm_serve.probe import PROBE_FOLDER
from rlcm_serve.prompts import FORCED_ANSWER, FORCED_SUFFIX
from rlcm_serve.terminal import output_to

if TYPE_CHECKING:
    from vllm import RequestOutput, SamplingParams
    from vllm.engine.arg_utils import AsyncEngineArgs

ENVIRONMENT = {
    # vLLM reads these when it is imported, and hands them on to its processes.
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
}
_PROCESSORS = {
    "v1": "rlcm_serve.engine.processor_v1:ExitProcessor",
    "v2": "rlcm_serve.engine.processor_v2:ExitProcessorV2",
}
_ANSWER_TOKENS = 256
_PLACEHOLDER = "RLCM-PROBLEM"
_INTERVAL = 500  # RLCM App. B


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """What to serve, and how. What is None comes from the model's own files.

    `interval`, `max_tokens` and `answer_max_tokens` are in tokens. `vllm_arguments` are vLLM's own
    command line arguments, passed through as they are. `slots` bounds the samples that think at a
    time; further ones wait. Without `needs_probe` a model that has none is run as it is: every
    reading is NaN, which fires nothing; that is how a probe's training data are made. What vLLM
    prints goes to the file `log`, if there is one.
    """

    model: str = "embedded"
    interval: int | None = None
    max_tokens: int | None = None
    answer_max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    slots: int = 1024
    runner: str = "v1"
    needs_probe: bool = True
    log_stats: bool = False
    log: Path | None = None
    vllm_arguments: tuple[str, ...] = ()


class VllmEngine(ReasoningEngine):
    """vLLM under exit control; see `ReasoningEngine` for the contract."""

    def __init__(self, settings: EngineSettings) -> None:
        for name, value in ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        self.settings = settings
        self.name = settings.model
        self.on_stage: Callable[[str], None] = lambda stage: None
        self._ids = itertools.count()
        self._table: ReadingsTable | None = None
        self.llm: Any = None  # vLLM's AsyncLLM, once started

    async def start(self) -> None:
        self._enter("reading the model's files")
        await asyncio.to_thread(self._prepare)
        self._enter("starting vLLM")
        await asyncio.to_thread(self._load)
        self._enter("warming up")  # maps the readings' table into the worker, too
        await self._read_state(self.prompt("1"))
        self._enter("ready")

    def _enter(self, stage: str) -> None:
        self.stage = stage
        self.on_stage(stage)

    def _prepare(self) -> None:
        folder = resolve_model(self.settings.model)
        if folder.is_dir():
            os.environ.setdefault("HF_HUB_OFFLINE", "1")
        from transformers import AutoTokenizer

        files = ModelFiles.read(folder)
        if files.probe is None and self.settings.needs_probe:
            raise ModelRefused(
                f"{folder} holds no {PROBE_FOLDER}/: train one with "
                f"`rlcm train probe --model {self.settings.model} --data problems.jsonl`"
            )
        self._files = files
        self._tokenizer = AutoTokenizer.from_pretrained(folder)
        self._think_end = think_end_id(self._tokenizer)
        self._stop_ids = spare_ids(self._tokenizer, int(files.config["vocab_size"]))
        suffix = FORCED_SUFFIX if self._think_end is not None else f"\n{FORCED_ANSWER}"
        self._suffix = self._encode(suffix)
        self.identity = self._identity(suffix)

    def _identity(self, suffix: str) -> EngineIdentity:
        settings, generation = self.settings, self._files.generation
        sampling = Sampling(
            temperature=_first(settings.temperature, generation.get("temperature"), 1.0),
            top_p=_first(settings.top_p, generation.get("top_p"), 1.0),
        )
        budget = Budget(
            thinking=_first(settings.max_tokens, generation.get("max_new_tokens"), 8192),
            answer=_first(
                settings.answer_max_tokens, generation.get("answer_max_tokens"), _ANSWER_TOKENS
            ),
        )
        trained_at = self._files.probe.checkpoint_interval if self._files.probe else None
        return EngineIdentity(
            model=self._files.model_digest(),
            probe=self._files.probe_digest(),
            tokenizer=self._files.tokenizer_digest(),
            chat_template=chat_template_digest(self._tokenizer),
            checkpoint_interval=_first(settings.interval, trained_at, _INTERVAL),
            sampling=sampling,
            budget=budget,
            forced_suffix=suffix,
        )

    def _load(self) -> None:
        with output_to(self.settings.log):
            from vllm.v1.engine.async_llm import AsyncLLM

            arguments = self._arguments()
            try:
                self.llm = AsyncLLM.from_engine_args(arguments)
            except Exception as error:  # noqa: BLE001 -- vLLM's start-up raises many kinds
                raise EngineDead(f"vLLM could not start: {error}") from error
        self._context = int(self.llm.model_config.max_model_len)
        capacity = self._context // self.identity.checkpoint_interval + 1
        self._table = ReadingsTable(self.settings.slots, capacity)

    def _arguments(self) -> AsyncEngineArgs:
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.utils.argparse_utils import FlexibleArgumentParser

        parser = AsyncEngineArgs.add_cli_args(FlexibleArgumentParser(prog="rlcm serve --"))
        parser.error = _refuse_arguments
        parsed = parser.parse_args([*self._defaults(), *self.settings.vllm_arguments])
        arguments = AsyncEngineArgs.from_cli_args(parsed)
        if arguments.speculative_config or arguments.spec_method or arguments.spec_model:
            raise ModelRefused(
                "speculative decoding is on: the exit rule is not proven under it; drop "
                "--speculative-config and --spec-*"
            )
        arguments.disable_log_stats = not self.settings.log_stats
        arguments.hf_overrides = {"architectures": [f"Probed{self._files.architecture}"]}
        arguments.additional_config = {
            "rlcm": {
                "probe": str(self._files.folder / PROBE_FOLDER) if self._files.probe else None,
                "reserved": [self._stop_ids[0], self._stop_ids[1] + 1],
            }
        }
        arguments.logits_processors = [_PROCESSORS[self.settings.runner]]
        return arguments

    def _defaults(self) -> list[str]:
        """vLLM arguments that hold unless the caller gives others."""
        from vllm.platforms import current_platform

        defaults = ["--model", str(self._files.folder), "--generation-config", "vllm"]
        defaults += ["--enable-prefix-caching"]
        if current_platform.is_cpu():
            defaults += ["--enforce-eager", "--max-num-seqs", "128"]
            if self._files.config.get("dtype", self._files.config.get("torch_dtype")) == "float32":
                defaults += ["--dtype", "float32"]
        return defaults

    def stop(self) -> None:
        if self.llm is not None:
            self.llm.shutdown()
            self.llm = None
        if self._table is not None:
            self._table.close()
            self._table = None

    async def check_health(self) -> None:
        if self.llm is None or self.llm.errored:
            raise EngineDead("the engine is not running; restart the service (its log says why)")

    def prompt(self, problem: str) -> TokenIds:
        added = self._tokenizer.get_added_vocab()
        if not any(token in problem for token in added):
            return self._encode(self._chat(problem))
        # Text that spells a special token stays text: it must not close the turn or the thinking.
        before, after = self._chat(_PLACEHOLDER).split(_PLACEHOLDER)
        content = self._tokenizer.encode(problem, add_special_tokens=False, split_special_tokens=True)
        return (*self._encode(before), *content, *self._encode(after))

    def _chat(self, content: str) -> str:
        text: str = self._tokenizer.apply_chat_template(
            [{"role": "user", "content": content}], tokenize=False, add_generation_prompt=True
        )
        return text

    def _encode(self, text: str) -> TokenIds:
        return tuple(self._tokenizer.encode(text, add_special_tokens=False))

    async def think(
        self, prompt: TokenIds, policy: ExitPolicy, budget: Budget
    ) -> AsyncGenerator[Checkpoint | Thought]:
        self._check_room(prompt, budget)
        # One token more than the budget: the stop id that ends it. After a natural end come the
        # closing token and the model's own answer.
        params = self._sampling_params(budget.thinking + budget.answer + 2, self._stop_ids)
        slot = await self._acquire()
        tokens: list[int] = []
        checkpoints: list[Checkpoint] = []
        stop_reason: int | str | None = None
        try:
            params.extra_args = self._control(slot, policy, budget.thinking).to_extra_args()
            async with aclosing(self._generate(prompt, params)) as outputs:
                async for output in outputs:
                    tokens += output.outputs[0].token_ids
                    stop_reason = output.outputs[0].stop_reason
                    for checkpoint in slot.new(len(tokens)):
                        checkpoints.append(checkpoint)
                        yield checkpoint
            final = slot.final()
        finally:
            self._release(slot)
        thought = self._thought(tokens, stop_reason, budget)
        if thought.exit in (ExitReason.NATURAL, ExitReason.BUDGET):
            if final is None:  # closed by an end of text, which leaves no later step to read it
                final = await self._read_state((*prompt, *thought.tokens), len(thought.tokens))
            checkpoints.append(final)
            yield final
        yield replace(thought, checkpoints=tuple(checkpoints))

    def _thought(self, tokens: list[int], stop_reason: int | str | None, budget: Budget) -> Thought:
        """Tells the kept reasoning from the stop id, the closing token and the model's answer."""
        answer: Sequence[int] = ()
        closed = self._think_end in tokens
        if stop_reason in self._stop_ids:
            thinking, discarded = tokens[:-1], 1
            high = stop_reason == self._stop_ids[0]
            exit_ = ExitReason.HIGH if high else ExitReason.LOW
            if len(thinking) >= budget.thinking:
                exit_ = ExitReason.BUDGET
        elif closed:
            end = tokens.index(self._think_end)  # type: ignore[arg-type]
            thinking, answer, discarded, exit_ = tokens[:end], tokens[end + 1 :], 1, ExitReason.NATURAL
        else:
            ended = bool(tokens) and tokens[-1] in self._end_ids
            thinking, discarded, exit_ = tokens[: len(tokens) - ended], int(ended), ExitReason.NATURAL
            if self._think_end is None:  # the whole completion is the thought and the answer
                answer = thinking
        return Thought(
            tokens=tuple(thinking),
            text=self._tokenizer.decode(thinking),
            exit=exit_,
            checkpoints=(),
            answer_text=(
                self._tokenizer.decode(answer, skip_special_tokens=True) if answer else None
            ),
            answer_tokens=len(answer) if closed else 0,
            discarded=discarded,
        )

    async def force_answers(
        self, prompt: TokenIds, thinking: TokenIds, budget: Budget, count: int = 1
    ) -> tuple[Completion, ...]:
        params = self._sampling_params(budget.answer, ())
        params.n = count
        forced = (*prompt, *thinking, *self._suffix)
        texts: dict[int, list[int]] = {index: [] for index in range(count)}
        async with aclosing(self._generate(forced, params)) as outputs:
            async for output in outputs:
                for part in output.outputs:
                    texts[part.index] += part.token_ids
        return tuple(
            Completion(self._tokenizer.decode(ids, skip_special_tokens=True), len(ids))
            for ids in texts.values()
        )

    @property
    def stop_ids(self) -> tuple[int, int]:
        """The two unused ids that stand for a high and a low exit."""
        return self._stop_ids

    @property
    def in_flight(self) -> int:
        """Requests that vLLM is working on for this service."""
        return 0 if self.llm is None else self.llm.output_processor.get_num_unfinished_requests()

    @property
    def _end_ids(self) -> set[int]:
        ends = self._files.generation.get("eos_token_id", self._tokenizer.eos_token_id)
        return set(ends) if isinstance(ends, list) else {ends}

    def _sampling_params(self, max_tokens: int, stop_ids: Sequence[int]) -> SamplingParams:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        return SamplingParams(
            temperature=self.identity.sampling.temperature,
            top_p=self.identity.sampling.top_p,
            max_tokens=max_tokens,
            stop_token_ids=[*stop_ids, *self._end_ids],
            detokenize=False,
            output_kind=RequestOutputKind.DELTA,
        )

    def _control(self, slot: Slot, policy: ExitPolicy, budget: int) -> ControlSpec:
        if self._table is None:
            raise EngineDead("the engine is not running")
        return ControlSpec(
            policy=policy,
            interval=self.identity.checkpoint_interval,
            budget=budget,
            stop_high=self._stop_ids[0],
            stop_low=self._stop_ids[1],
            think_end=self._think_end,
            table=self._table.address,
            slot=slot.number,
            ticket=slot.ticket,
        )

    async def _read_state(self, prefix: TokenIds, tokens: int = 0) -> Checkpoint:
        """The final reading at the last token of `prefix`, in a request of its own."""
        slot = await self._acquire()
        try:
            params = self._sampling_params(1, self._stop_ids)
            params.extra_args = self._control(slot, ExitPolicy(), 0).to_extra_args()
            async with aclosing(self._generate(prefix, params)) as outputs:
                async for _ in outputs:
                    pass
            final = slot.final()
        finally:
            self._release(slot)
        if final is None:
            raise EngineDead("the engine sent back no reading: its processor is not running")
        return replace(final, tokens=tokens)

    async def _generate(
        self, prompt: TokenIds, params: SamplingParams
    ) -> AsyncGenerator[RequestOutput]:
        from vllm.v1.engine.exceptions import EngineDeadError, EngineGenerateError

        await self.check_health()
        request_id = f"rlcm-{next(self._ids)}"
        inputs = {"prompt_token_ids": list(prompt)}
        try:
            async with aclosing(self.llm.generate(inputs, params, request_id)) as outputs:
                async for output in outputs:
                    yield output
        except (EngineDeadError, EngineGenerateError) as error:
            raise EngineDead(f"the engine died while answering: {error}") from error

    async def _acquire(self) -> Slot:
        if self._table is None:
            raise EngineDead("the engine is not running")
        return await self._table.acquire(self.identity.checkpoint_interval)

    def _release(self, slot: Slot) -> None:
        with suppress(AttributeError):  # the table may have gone with the engine
            self._table.release(slot)  # type: ignore[union-attr]

    def _check_room(self, prompt: TokenIds, budget: Budget) -> None:
        needed = len(prompt) + budget.thinking + len(self._suffix) + budget.answer + 2
        if needed > self._context:
            raise RequestRefused(
                "problem",
                f"the prompt has {len(prompt)} tokens; with {budget.thinking} to think and "
                f"{len(self._suffix) + budget.answer + 2} to answer that is {needed}, and the model's "
                f"context holds {self._context}: shorten the problem or lower max_tokens",
            )


def _refuse_arguments(message: str) -> NoReturn:
    raise ModelRefused(f"vLLM's arguments (after `--`): {message}")


def _first(*values: Any) -> Any:
    """The first value that is not None."""
    return next(value for value in values if value is not None)
