"""The supported versions of vLLM, and every name of vLLM that this service uses.

vLLM may change any of these names in its next version. They are looked up before a model is loaded,
so that an upgrade that removed one fails at the start, by name, and not during a request. A test
keeps this list complete. Whether vLLM still does what the names promise is found out by the
self-test (`rlcm_serve.engine.diagnosis.self_test`).
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from rlcm_serve.errors import UnsupportedVllm

SUPPORTED = ("0.31", "0.32")
"""Minor versions under which this package's tests pass; `make install` installs the first."""

PLUGIN_GROUP, PLUGIN = "vllm.general_plugins", "rlcm"


@dataclass(frozen=True, slots=True)
class Hook:
    """A class, function or object of vLLM, with the attributes and parameters that we use.

    Attributes:
        where: "module:name", or "module:Class.method".
        has: the attributes that we use, of the object or of its instances.
        takes: the parameters that we pass, or that vLLM passes to our subclass.
    """

    where: str
    has: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()

    def missing(self) -> Iterator[str]:
        """What is missing, named so that it can be found in vLLM's source."""
        try:
            found = self.find()
        except (ImportError, AttributeError):
            yield self.where
            return
        yield from (f"{self.where}.{name}" for name in self.has if not _has(found, name))
        if self.takes:
            parameters = inspect.signature(found).parameters
            yield from (f"{self.where}({name}=)" for name in self.takes if name not in parameters)

    def find(self) -> Any:
        """The object itself.

        Raises:
            ImportError, AttributeError: it does not exist.
        """
        module, _, path = self.where.partition(":")
        found: Any = import_module(module)
        for name in path.split("."):
            found = getattr(found, name)
        return found


def _has(found: Any, name: str) -> bool:
    """Whether the object or its instances have an attribute, declared or set in `__init__`."""
    if hasattr(found, name):
        return True
    classes = inspect.getmro(found) if inspect.isclass(found) else ()
    return any(name in (*vars(each).get("__annotations__", ()), *_set_by(each)) for each in classes)


def _set_by(class_: type) -> tuple[str, ...]:
    """Names used by the class's own `__init__`, including the attributes that it sets."""
    code = getattr(vars(class_).get("__init__"), "__code__", None)
    return () if code is None else code.co_names


_ARGUMENTS = (
    *("add_cli_args", "from_cli_args"),
    *("additional_config", "create_engine_config", "model", "model_class_overrides"),
    *("dtype", "enable_prefix_caching", "enforce_eager", "generation_config", "max_num_seqs"),
    *("enable_chunked_prefill", "max_model_len", "max_num_batched_tokens", "scheduling_policy"),
    *("enable_batch_sharded_sampling", "served_model_name"),
    *("enable_lora", "max_lora_rank", "max_loras"),
    *("distributed_executor_backend", "pipeline_parallel_size", "tensor_parallel_size"),
    "worker_extension_cls",
)
_SAMPLING = (
    *("detokenize", "extra_args", "logprobs", "max_tokens", "min_p", "n", "output_kind", "seed"),
    *("stop_token_ids", "stream_interval", "structured_outputs", "temperature", "top_k", "top_p"),
)

FRONT_END = (
    Hook("vllm.engine.arg_utils:AsyncEngineArgs", has=_ARGUMENTS),
    Hook("vllm.utils.argparse_utils:FlexibleArgumentParser", has=("error", "parse_args")),
    Hook(
        "vllm:envs",
        has=(
            *("VLLM_CPU_KVCACHE_SPACE", "VLLM_CPU_OMP_THREADS_BIND", "VLLM_NO_USAGE_STATS"),
            *("VLLM_PLUGINS", "VLLM_RPC_BASE_PATH", "VLLM_USE_V2_MODEL_RUNNER"),
            "VLLM_WORKER_MULTIPROC_METHOD",
        ),
    ),
    Hook(
        "vllm.platforms:current_platform",
        has=("device_type", "get_device_name", "is_cpu", "is_cuda"),
    ),
    Hook(
        "vllm.v1.engine.async_llm:AsyncLLM",
        has=(
            *(
                "add_lora",
                "collective_rpc",
                "engine_core",
                "errored",
                "from_vllm_config",
                "get_supported_tasks",
            ),
            *(
                "input_processor",
                "model_config",
                "output_handler",
                "output_processor",
                "shutdown",
                "vllm_config",
            ),
        ),
    ),
    Hook(
        "vllm.v1.engine.async_llm:AsyncLLM.generate",
        takes=("prompt", "sampling_params", "request_id", "priority", "lora_request"),
    ),
    Hook("vllm.v1.engine.core_client:AsyncMPClient", has=("_call_utility_async", "core_engines")),
    Hook("vllm.v1.engine.core_client:AsyncMPClient._call_utility_async", takes=("engine",)),
    Hook("vllm.v1.engine.output_processor:OutputProcessor", has=("get_num_unfinished_requests",)),
    Hook("vllm.v1.engine.exceptions:EngineDeadError"),
    Hook("vllm.v1.engine.exceptions:EngineGenerateError"),
    Hook(
        "vllm.lora.request:LoRARequest",
        has=("lora_path",),
        takes=("lora_name", "lora_int_id", "lora_path"),
    ),
    Hook("vllm.inputs:tokens_input", takes=("prompt_token_ids", "cache_salt")),
    Hook("vllm:SamplingParams", has=(*_SAMPLING, "verify")),
    Hook("vllm:SamplingParams", takes=tuple(name for name in _SAMPLING if name != "extra_args")),
    Hook("vllm.sampling_params:StructuredOutputsParams", takes=("json",)),
    Hook("vllm.exceptions:VLLMClientError"),
    Hook("vllm.exceptions:GracefulHTTPError"),
    Hook("vllm.sampling_params:RequestOutputKind", has=("DELTA",)),
    Hook("vllm:RequestOutput", has=("num_cached_tokens", "outputs")),
    Hook(
        "vllm.outputs:CompletionOutput",
        has=("finish_reason", "index", "logprobs", "stop_reason", "token_ids"),
    ),
    Hook("vllm.logprobs:Logprob", has=("logprob",)),
    Hook(
        "vllm.config:VllmConfig",
        has=(
            *("additional_config", "cache_config", "compilation_config", "load_config"),
            *("lora_config", "model_config", "parallel_config", "scheduler_config"),
            *("structured_outputs_config", "speculative_config", "use_v2_model_runner"),
        ),
    ),
    Hook(
        "vllm.config:CacheConfig",
        has=("cache_dtype", "mamba_cache_dtype", "mamba_ssm_cache_dtype"),
    ),
    Hook("vllm.config:CompilationConfig", has=("static_forward_context",)),
    Hook("vllm.config:LoadConfig", has=("load_format",)),
    Hook("vllm.config:LoRAConfig", has=("lora_dtype", "max_lora_rank", "max_loras")),
    Hook(
        "vllm.config:ModelConfig",
        has=(
            *("architecture", "dtype", "hf_overrides", "is_hybrid", "logits_processors"),
            *("max_model_len", "model", "model_class_overrides", "quantization", "runner"),
        ),
    ),
    Hook(
        "vllm.config:ParallelConfig",
        has=("data_parallel_size", "enable_batch_sharded_sampling", "worker_extension_cls"),
    ),
    Hook(
        "vllm.config:SchedulerConfig",
        has=("enable_chunked_prefill", "long_prefill_token_threshold"),
    ),
    Hook("vllm.model_executor.models.registry:ModelRegistry", has=("models",)),
    Hook("vllm.model_executor.models.registry:_LazyRegisteredModel", has=("load_model_cls",)),
    Hook("vllm.model_executor.models.interfaces:is_attention_free", takes=("model",)),
    Hook("vllm.model_executor.models.interfaces:is_hybrid", takes=("model",)),
    Hook("vllm.model_executor.models.interfaces:supports_lora", takes=("model",)),
    Hook("vllm:__version__"),
    Hook("vllm.v1.executor.uniproc_executor:UniProcExecutor"),
)
"""Used in the service's own process, and by its plugin in all processes of vLLM."""

V1_RUNNER = (
    Hook(
        "vllm.v1.sample.logits_processor:LogitsProcessor",
        has=("apply", "is_argmax_invariant", "update_state", "validate_params"),
        takes=("vllm_config", "device", "is_pin_memory"),
    ),
    Hook("vllm.v1.sample.logits_processor:LogitsProcessor.apply", takes=("logits",)),
    Hook("vllm.v1.sample.logits_processor:LogitsProcessor.update_state", takes=("batch_update",)),
    Hook("vllm.v1.sample.logits_processor:BatchUpdate"),
    Hook(
        "vllm.v1.sample.logits_processor.builtin:process_dict_updates",
        takes=("req_entries", "batch_update", "new_state"),
    ),
)
V2_RUNNER = (
    Hook(
        "vllm.v1.worker.gpu.sample.logits_processor:LogitsProcessor",
        has=("add_request", "apply", "validate_params"),
        takes=("vllm_config", "req_states"),
    ),
    Hook(
        "vllm.v1.worker.gpu.sample.logits_processor:LogitsProcessor.add_request",
        takes=("req_idx", "sampling_params"),
    ),
    Hook(
        "vllm.v1.worker.gpu.sample.logits_processor:LogitsProcessor.apply",
        takes=("logits", "ctx"),
    ),
    Hook(
        "vllm.v1.worker.gpu.sample.logits_processor:LogitsContext",
        has=(
            *("expanded_idx_mapping", "expanded_local_pos", "idx_mapping_np", "input_ids", "pos"),
            "seq_lens_upper_bound_np",
        ),
    ),
    Hook(
        "vllm.v1.worker.gpu.sample.logits_processor:LogitsProcRequestState",
        has=("prefill_len", "prompt_len"),
    ),
)
RUNNERS = {"v1": V1_RUNNER, "v2": V2_RUNNER}


def check_hooks(
    runner: str | None = None,
    version: Callable[[], str] = lambda: import_module("vllm").__version__,
) -> str | None:
    """Checks that vLLM has every name we use; returns a warning for an untested version.

    Args:
        runner: vLLM's model runner, "v1" or "v2"; None if vLLM has not chosen it yet.
        version: returns vLLM's version.

    Raises:
        UnsupportedVllm: a name is missing. The message says which one, and what to install.
    """
    remedy = f"install vLLM {SUPPORTED[0]} (`make install`)"
    try:
        found = version()
    except ImportError as error:
        raise UnsupportedVllm(f"vLLM cannot be imported ({error}): {remedy}") from error
    hooks = (*FRONT_END, *(RUNNERS[runner] if runner else ()))
    missing = [name for hook in hooks for name in hook.missing()]
    if missing:
        raise UnsupportedVllm(
            f"vLLM {found} lacks {', '.join(missing)}, which this service relies on: {remedy}"
        )
    _require_plugin()
    if found.split("+")[0].rpartition(".")[0] not in SUPPORTED:
        return (
            f"vLLM {found} has every name that this service uses, but is not tested with it: if "
            f"anything fails, {remedy}"
        )
    return None


def _require_plugin() -> None:
    """Checks the entry point by which vLLM's processes find the probed models."""
    if not entry_points(group=PLUGIN_GROUP, name=PLUGIN):
        raise UnsupportedVllm(
            f"vLLM cannot find the entry point {PLUGIN!r} of {PLUGIN_GROUP}: install this package "
            "with `make install` or `pip install -e .`; running it from its folder is not enough"
        )
    chosen = os.environ.get("VLLM_PLUGINS")
    if chosen is not None and PLUGIN not in chosen.split(","):
        raise UnsupportedVllm(
            f"VLLM_PLUGINS is {chosen!r}, which keeps vLLM from loading {PLUGIN!r}: add it, or "
            "unset the variable"
        )
