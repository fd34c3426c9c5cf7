"""Starting vLLM under exit control: its settings, its arguments, its model runner."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from rlcm_serve.core import Signal
from rlcm_serve.engine.model_files import ModelFiles
from rlcm_serve.engine.worker.hooks import check_hooks
from rlcm_serve.engine.worker.plugin import CONFIG_KEY, PROBED
from rlcm_serve.engine.worker.probe import PROBE_FOLDER
from rlcm_serve.errors import EngineDead, ModelRefused
from rlcm_serve.terminal import output_to

if TYPE_CHECKING:
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.v1.engine.async_llm import AsyncLLM

ENVIRONMENT = {
    # vLLM reads these when it is imported, and hands them on to its processes.
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
}
_PROCESSORS = {
    "v1": "rlcm_serve.engine.worker.processor_v1:ExitProcessor",
    "v2": "rlcm_serve.engine.worker.processor_v2:ExitProcessorV2",
}
_IN_THE_CORE = "vllm.v1.executor.uniproc_executor.UniProcExecutor"
_WHOLE_PROMPT = 8192
"""The longest context whose prompts are taken in whole on a CPU, tokens."""
_OURS = ("--model", "--tokenizer", "--hf-overrides", "--additional-config", "--logits-processors")


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """What to serve, and how. What is None comes from the model's own files.

    Attributes:
        model: `embedded`, a folder, or a hub id.
        interval: N, tokens between two readings.
        max_tokens: thinking budget of one sample, tokens.
        answer_max_tokens: the most an answer may cost, tokens.
        temperature: of the sampling.
        top_p: of the sampling.
        slots: samples that may think at a time; further ones wait.
        runner: vLLM's model runner, "v1" or "v2".
        confidence: the `Signal` that `Reading.confidence` is, and that exits act on. With any
            but the probe a model without one can be served, and readings carry all other signals.
        record_signals: have every reading carry all signals, whichever acts.
        needs_probe: refuse a model without a probe. Else it runs as it is, and every reading is
            NaN, which fires nothing; that is how a probe's training data are made.
        log_stats: have vLLM count what it does, for Prometheus.
        log: file for what vLLM prints; None leaves it on the terminal. What it printed when it was
            started the time before is kept beside, under `.1`.
        vllm_arguments: vLLM's own command line arguments, passed through as they are.

    Raises:
        ModelRefused: there is no such signal.
    """

    model: str = "embedded"
    interval: int | None = None
    max_tokens: int | None = None
    answer_max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    slots: int = 1024
    runner: str = "v1"
    confidence: str = Signal.PROBE.value
    record_signals: bool = False
    needs_probe: bool = True
    log_stats: bool = False
    log: Path | None = None
    vllm_arguments: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.confidence not in list(Signal):
            raise ModelRefused(
                f"confidence is {self.confidence!r}: give one of {', '.join(Signal)}"
            )

    @property
    def reads_probe(self) -> bool:
        """Whether a probe is read, if the model has one."""
        return self.confidence == Signal.PROBE or self.record_signals

    @property
    def tracks_tokens(self) -> bool:
        """Whether it is to be known of each token how likely it was."""
        return self.confidence != Signal.PROBE or self.record_signals


def launch(
    settings: EngineSettings,
    files: ModelFiles,
    stop_ids: tuple[int, int],
    on_stage: Callable[[str], None],
) -> AsyncLLM:
    """Starts vLLM with the probed model and the exit processor; blocks until it is up.

    Raises:
        UnsupportedVllm: this vLLM lacks a hook that the service relies on.
        ModelRefused: the arguments, or what they ask for, cannot be had under exit control.
        EngineDead: vLLM could not start.
    """
    _keep_last(settings.log)
    with output_to(settings.log):
        warning = check_hooks(settings.runner)
        from vllm.v1.engine.async_llm import AsyncLLM

        arguments = _arguments(settings, files, stop_ids)
    if warning:
        on_stage(warning)
    _choose_runner(settings.runner, on_stage)
    with output_to(settings.log):
        try:
            return AsyncLLM.from_engine_args(arguments)
        except Exception as error:  # vLLM's start-up raises many kinds
            log = f"; {settings.log} says more" if settings.log else ""
            raise EngineDead(f"vLLM could not start: {error}{log}") from error


def _keep_last(log: Path | None) -> None:
    """What vLLM wrote last time may say what it died of: it is put aside, under `.1`."""
    if log is not None and log.is_file():
        log.replace(log.with_name(f"{log.name}.1"))


def _choose_runner(runner: str, on_stage: Callable[[str], None]) -> None:
    """CUDA's default is the V2 model runner; our processor must be of the same kind."""
    from vllm.platforms import current_platform

    if current_platform.is_cuda():
        os.environ["VLLM_USE_V2_MODEL_RUNNER"] = "1" if runner == "v2" else "0"
        if runner == "v1":
            on_stage("using vLLM's V1 model runner: control of V2 is not proven on a GPU yet")


def _arguments(
    settings: EngineSettings, files: ModelFiles, stop_ids: tuple[int, int]
) -> AsyncEngineArgs:
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    for argument in settings.vllm_arguments:
        if argument.partition("=")[0].replace("_", "-") in _OURS:
            _refuse_arguments(
                f"{argument} is set by the service; for a model use `rlcm ... --model`"
            )
    parser = AsyncEngineArgs.add_cli_args(FlexibleArgumentParser(prog="rlcm serve --"))
    parser.error = _refuse_arguments
    parsed = parser.parse_args([*_defaults(files), *settings.vllm_arguments])
    arguments = AsyncEngineArgs.from_cli_args(parsed)
    if arguments.speculative_config or arguments.spec_method or arguments.spec_model:
        raise ModelRefused(
            "speculative decoding is on: the exit rule is not proven under it; drop "
            "--speculative-config and --spec-*"
        )
    if arguments.enable_batch_sharded_sampling:
        raise ModelRefused(
            "batch-sharded sampling is on: each rank would see the states of all requests and the "
            "logits of its own; drop --enable-batch-sharded-sampling"
        )
    if _takes_prompts_whole(arguments, files):
        arguments.enable_chunked_prefill = False
    if _computes_in_the_core(arguments):
        arguments.distributed_executor_backend = _IN_THE_CORE
    arguments.disable_log_stats = not settings.log_stats
    arguments.hf_overrides = {"architectures": [PROBED + files.architecture]}
    arguments.additional_config = {
        CONFIG_KEY: {
            "probe": str(files.folder / PROBE_FOLDER)
            if files.probe and settings.reads_probe
            else None,
            "reserved": [stop_ids[0], stop_ids[1] + 1],
        }
    }
    arguments.logits_processors = [_PROCESSORS[settings.runner]]
    return arguments


def _defaults(files: ModelFiles) -> list[str]:
    """vLLM arguments that hold unless the caller gives others."""
    from vllm.platforms import current_platform

    defaults = ["--model", str(files.folder), "--generation-config", "vllm"]
    defaults += ["--enable-prefix-caching", "--scheduling-policy", "priority"]
    if current_platform.is_cpu():
        defaults += ["--enforce-eager", "--max-num-seqs", "128"]
        if files.config.get("dtype", files.config.get("torch_dtype")) == "float32":
            defaults += ["--dtype", "float32"]
    return defaults


def _takes_prompts_whole(arguments: AsyncEngineArgs, files: ModelFiles) -> bool:
    """Whether prefills are to be left in one piece, which on a CPU is what seeds need.

    Not where the caller has a say on their size, nor where a context is so long that its states in
    one piece would take memory by gigabytes.
    """
    from vllm.platforms import current_platform

    if not current_platform.is_cpu():
        return False
    if arguments.enable_chunked_prefill is not None or arguments.max_num_batched_tokens is not None:
        return False
    context = arguments.max_model_len or files.context
    return context is not None and 0 < context <= _WHOLE_PROMPT


def _computes_in_the_core(arguments: AsyncEngineArgs) -> bool:
    """Whether the process that schedules is to run the model too, which vLLM allows on GPUs alone.

    On a CPU it wants a worker's process to bind threads in; where none are bound, that process only
    has to start, and the other spins while it waits for it (vllm-project/vllm#52814).
    """
    from vllm import envs
    from vllm.platforms import current_platform

    return (
        current_platform.is_cpu()
        and envs.VLLM_CPU_OMP_THREADS_BIND == "nobind"
        and arguments.distributed_executor_backend is None
        and arguments.tensor_parallel_size * arguments.pipeline_parallel_size == 1
    )


def _refuse_arguments(message: str) -> NoReturn:
    raise ModelRefused(f"vLLM's arguments (after `--`): {message}")
