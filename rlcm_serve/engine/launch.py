"""Starts vLLM under exit control: settings, arguments, model runner."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from rlcm_serve.core import MAX_TEMPERATURE, Signal
from rlcm_serve.engine.clients.arguments import (
    as_flags,
    exit_control,
    processor_for,
    require_probed,
    require_whole_batch,
)
from rlcm_serve.engine.clients.cause import last_words
from rlcm_serve.engine.model_files import ModelFiles
from rlcm_serve.engine.requests import STRUCTURED_OUTPUTS
from rlcm_serve.engine.weights.adapters import Adapter, enable_adapters
from rlcm_serve.engine.worker.hooks import check_hooks
from rlcm_serve.engine.worker.plugin import OWN
from rlcm_serve.errors import EngineDead, ModelRefused, UnsupportedVllm
from rlcm_serve.own_files import keep_last, own_log
from rlcm_serve.profiles.profile import DEFAULT_PROFILE, Profile
from rlcm_serve.terminal import output_to

if TYPE_CHECKING:
    from vllm.config import VllmConfig
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.v1.engine.async_llm import AsyncLLM

ENVIRONMENT = {
    # A forked engine hangs where this process has used torch's threads, and cannot use CUDA.
    "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
    # vLLM reads these at import and passes them on to its processes.
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
}
_IN_THE_CORE = "vllm.v1.executor.uniproc_executor.UniProcExecutor"
_WHOLE_PROMPT = 8192
"""The longest context, in tokens, for which a CPU does not split prefills into chunks."""
_CPU_BLOCK = "32"
"""Tokens of a block of the KV cache on a CPU: the fewest that vLLM allows; its default is 128.

A forced answer begins with its thinking so far, of which vLLM caches whole blocks alone.
"""
_DERIVED = ("enable_chunked_prefill", "distributed_executor_backend")
_LORA = ("enable_lora", "max_loras", "max_lora_rank")
_OURS = (
    *("--model", "--tokenizer", "--hf-overrides", "--additional-config", "--logits-processors"),
    *("--model-class-overrides", "--worker-extension-cls"),
)
"""Refused. `--hf-overrides` is, because the service reads config.json itself."""


def set_environment() -> None:
    """Sets the variables that vLLM reads on import. Existing values stay."""
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """What to serve, and how. For None, the value comes from the model's files.

    Attributes:
        model: `embedded`, a folder, or a Hugging Face Hub id.
        probe: folder of the probe; by default `probe/` in the model's folder.
        interval: N, the tokens between two readings.
        max_tokens: thinking budget of one sample, in tokens.
        answer_max_tokens: most tokens of a forced answer; the model's own may also use what is left
            of the thinking budget.
        temperature: sampling temperature.
        top_p: nucleus sampling threshold.
        thinking: the thinking format; None detects it (`rlcm_serve.engine.thinking`).
        profiles: of prompts, beside the default one.
        slots: samples that may think at the same time; further ones wait.
        confidence: the `Signal` in `Reading.confidence`, on which exits act. Any signal but the
            probe works on a model without a probe; readings then carry all token signals.
        record_signals: put all signals into every reading, whichever one exits act on.
        record_inputs: put what a probe can read into every reading, to train one.
        needs_probe: refuse a model without a probe. If false, such a model runs and its readings
            are NaN, which never fires an exit. The training data of a probe are made that way.
        self_test: at the start, compare a run of ten tokens with a forward pass, if the model is
            small (`rlcm_serve.engine.diagnosis.self_test`).
        log_stats: let vLLM record its own metrics, for Prometheus.
        served_name: the model's name in these metrics; None: as `model`.
        log: file for vLLM's output; None leaves it on the terminal. If another process writes it,
            a file beside it (`own_log`). The output of the start before is kept, with the suffix
            `.1`.
        shares_memory: let readings travel through shared memory if all of vLLM's workers run on
            this host. If false, they are fetched through vLLM, as from workers on other hosts.
        vllm_arguments: vLLM's own command line arguments, passed through unchanged.

    Raises:
        ModelRefused: `confidence` names no signal, or sampling like this is impossible.
    """

    model: str = "embedded"
    probe: Path | None = None
    interval: int | None = None
    max_tokens: int | None = None
    answer_max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    thinking: str | None = None
    profiles: tuple[Profile, ...] = ()
    slots: int = 1024
    confidence: str = Signal.PROBE.value
    record_signals: bool = False
    record_inputs: bool = False
    needs_probe: bool = True
    self_test: bool = False
    log_stats: bool = False
    served_name: str | None = None
    log: Path | None = None
    shares_memory: bool = True
    vllm_arguments: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.confidence not in list(Signal):
            raise ModelRefused(
                f"confidence is {self.confidence!r}: give one of {', '.join(Signal)}"
            )
        if self.temperature is not None and not 0 <= self.temperature <= MAX_TEMPERATURE:
            raise ModelRefused(
                f"temperature is {self.temperature}: give 0 (greedy) to {MAX_TEMPERATURE:g}"
            )
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise ModelRefused(f"top_p is {self.top_p}: give more than 0, at most 1")

    @property
    def profile(self) -> str:
        """Name of the profile under which a command records: the last one."""
        return (DEFAULT_PROFILE, *self.profiles)[-1].name

    @property
    def reads_probe(self) -> bool:
        """Whether the engine reads the probe, if the model has one."""
        return self.confidence == Signal.PROBE or self.record_signals

    @property
    def shows_signals(self) -> bool:
        """Whether readings hold all signals."""
        return self.confidence != Signal.PROBE or self.record_signals


def launch(
    settings: EngineSettings,
    files: ModelFiles,
    stop_ids: tuple[int, int],
    on_stage: Callable[[str], None],
    adapters: Sequence[Adapter] = (),
) -> AsyncLLM:
    """Starts vLLM with the probed model and the exit processor; blocks until it runs.

    Raises:
        UnsupportedVllm: this vLLM lacks a name that the service relies on.
        ModelRefused: an argument is invalid, or does not work under exit control.
        EngineDead: vLLM could not start.
    """
    log = None if settings.log is None else own_log(settings.log)
    if log is not None:
        keep_last(log)
    with output_to(settings.log):
        warning = check_hooks()
        from vllm.v1.engine.async_llm import AsyncLLM

        arguments = _arguments(settings, files, stop_ids, adapters)
    if warning:
        on_stage(warning)
    with output_to(settings.log):
        try:
            vllm_config = _configured(arguments)
            return AsyncLLM.from_vllm_config(vllm_config, disable_log_stats=not settings.log_stats)
        except (ModelRefused, UnsupportedVllm):
            raise
        except Exception as error:  # vLLM's start-up raises many kinds
            more = "" if log is None else f"; {last_words(log.path)}; {log.path} says more"
            raise EngineDead(f"vLLM could not start: {error}{more}") from error


def configure(
    settings: EngineSettings,
    files: ModelFiles,
    stop_ids: tuple[int, int],
    adapters: Sequence[Adapter] = (),
) -> VllmConfig:
    """The configuration that `launch` would start vLLM with; loads no weights.

    Raises:
        UnsupportedVllm, ModelRefused: as `launch`.
        Exception: whatever vLLM raises for arguments that do not fit together.
    """
    return _configured(_arguments(settings, files, stop_ids, adapters))


def _configured(arguments: AsyncEngineArgs) -> VllmConfig:
    vllm_config = arguments.create_engine_config()
    require_probed(vllm_config)
    vllm_config.model_config.logits_processors = [processor_for(vllm_config)]
    return vllm_config


def vllm_arguments(
    settings: EngineSettings,
    files: ModelFiles,
    stop_ids: tuple[int, int],
    adapters: Sequence[Adapter] = (),
) -> list[str]:
    """vLLM's command line, but for the model, for a server whose client can be adopted.

    It has all that `launch` would set.

    Raises:
        UnsupportedVllm, ModelRefused: as `launch`.
    """
    check_hooks()
    arguments = _arguments(settings, files, stop_ids, adapters)
    given = {name: getattr(arguments, name) for name in (*_DERIVED, *_LORA[: 3 * bool(adapters)])}
    given |= exit_control(settings, files, stop_ids)
    given["logits_processors"] = _configured(arguments).model_config.logits_processors
    return [*_defaults(files), *settings.vllm_arguments, *as_flags(given)]


def _arguments(
    settings: EngineSettings,
    files: ModelFiles,
    stop_ids: tuple[int, int],
    adapters: Sequence[Adapter] = (),
) -> AsyncEngineArgs:
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.platforms import current_platform
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    first = next(iter(settings.vllm_arguments), "-")
    if not first.startswith("-"):
        _refuse_arguments(f"{first!r} is no option; for a model use `rlcm ... --model {first}`")
    for argument in settings.vllm_arguments:
        name = re.split(r"[=.]", argument)[0].replace("_", "-")
        if name in ("-h", "--help"):
            _refuse_arguments(
                f"{argument} is given here: `vllm serve --help=all` lists what vLLM takes"
            )
        if name == "--config":
            _refuse_arguments(f"{argument} names a file of arguments: give them one by one")
        if name == "--served-model-name":
            _refuse_arguments(
                f"{argument} is an option of the service: give it before `--`, once for each name"
            )
        if name in _OURS:
            _refuse_arguments(
                f"{argument} is set by the service; for a model use `rlcm ... --model`"
            )
    parser = AsyncEngineArgs.add_cli_args(
        FlexibleArgumentParser(prog="rlcm serve --", allow_abbrev=False)
    )
    parser.error = _refuse_arguments
    model = ["--model", str(files.folder)]
    parsed = parser.parse_args([*model, *_defaults(files), *settings.vllm_arguments])
    arguments = AsyncEngineArgs.from_cli_args(parsed)
    arguments.served_model_name = settings.served_name or settings.model
    require_whole_batch(sharded=arguments.enable_batch_sharded_sampling)
    enable_adapters(arguments, adapters, spare=current_platform.is_cpu())
    control = exit_control(settings, files, stop_ids)
    if _takes_prompts_whole(arguments, files):
        arguments.enable_chunked_prefill = False
    elif arguments.enable_chunked_prefill is False and _needs_chunks(arguments, files):
        _refuse_arguments(
            f"--no-enable-chunked-prefill is given, but {files.architecture} keeps one state of "
            "its whole prefix (Mamba, linear attention), which vLLM caches only where a chunk of a "
            "prefill ends: remove it, or give --no-enable-prefix-caching too"
        )
    if _computes_in_the_core(arguments):
        arguments.distributed_executor_backend = _IN_THE_CORE
    for name, value in control.items():
        setattr(arguments, name, value)
    return arguments


def _defaults(files: ModelFiles) -> list[str]:
    """vLLM arguments that the caller may override."""
    from vllm.platforms import current_platform

    defaults = ["--generation-config", "vllm"]
    defaults += ["--enable-prefix-caching", "--scheduling-policy", "priority"]
    defaults += as_flags({"structured_outputs_config": STRUCTURED_OUTPUTS})
    if _has_two_forms(files.folder):
        defaults += ["--config-format", "hf", "--load-format", "hf"]
    if current_platform.is_cpu():
        defaults += ["--enforce-eager", "--max-num-seqs", "256", "--block-size", _CPU_BLOCK]
        if files.dtype == "float32":
            defaults += ["--dtype", "float32"]
    return defaults


def _has_two_forms(folder: Path) -> bool:
    """Whether there are weights in transformers' form and, beside them, in Mistral's own.

    Left to itself vLLM reads Mistral's, and its params.json in place of config.json.
    """
    weights = set(folder.glob("*.safetensors"))
    return bool(set() < set(folder.glob("consolidated*.safetensors")) < weights)


def _takes_prompts_whole(arguments: AsyncEngineArgs, files: ModelFiles) -> bool:
    """Whether to turn off chunked prefill, as seeds need on a CPU.

    Left alone if the caller sets the size of prefills, if the context is so long that a whole
    prefill would take gigabytes of memory, or if the model needs chunks.
    """
    from vllm.platforms import current_platform

    if not current_platform.is_cpu():
        return False
    if arguments.enable_chunked_prefill is not None or arguments.max_num_batched_tokens is not None:
        return False
    context = arguments.max_model_len or files.context
    is_short = context is not None and 0 < context <= _WHOLE_PROMPT
    return is_short and not _needs_chunks(arguments, files)


def _needs_chunks(arguments: AsyncEngineArgs, files: ModelFiles) -> bool:
    """Whether vLLM refuses to take prompts whole: it caches prefixes, and the model has layers
    with one state of the whole prefix.

    These layers are there alone (Mamba), or beside attention (Granite 4 H, Falcon H1, Qwen3-Next).
    """
    from vllm.model_executor.models.interfaces import is_attention_free, is_hybrid

    if not arguments.enable_prefix_caching:
        return False
    model = OWN[files.architecture].load_model_cls()
    if is_attention_free(model):
        return True
    # Granite 4 micro has a hybrid's class, and layers of attention alone.
    layers = set(files.layers or ("mamba",))
    return is_hybrid(model) and not layers <= {"attention", "full_attention"}


def _computes_in_the_core(arguments: AsyncEngineArgs) -> bool:
    """Whether the scheduling process should also run the model; vLLM does that on GPUs only.

    On a CPU vLLM starts a worker process, to bind threads. If no threads are bound, that process
    only costs a start, and the scheduler spins while it waits for it (vllm-project/vllm#52814).
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
