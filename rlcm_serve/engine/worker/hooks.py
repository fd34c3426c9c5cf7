"""Which vLLM this service runs on, and everything of it that the service holds on to.

vLLM promises none of these names from one version to the next. They are looked up before a model is
loaded, so that an upgrade that took one away says so at once, instead of failing on a request.
What another module of this package uses of vLLM is listed here; a test holds it.
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
"""Minor versions under which the tests of this package pass; the first is the one installed."""

PLUGIN_GROUP, PLUGIN = "vllm.general_plugins", "rlcm"


@dataclass(frozen=True, slots=True)
class Hook:
    """Something of vLLM: a class, function or object, what it has, and what it takes.

    Attributes:
        where: "module:name", or "module:Class.method".
        has: attributes that are used of it, or of its instances.
        takes: parameters it is called with, or that we take when vLLM calls ours in its place.
    """

    where: str
    has: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()

    def missing(self) -> Iterator[str]:
        """What of it is not there, as someone who looks for it in vLLM's source would name it."""
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
        """The thing itself.

        Raises:
            ImportError, AttributeError: there is no such thing.
        """
        module, _, path = self.where.partition(":")
        found: Any = import_module(module)
        for name in path.split("."):
            found = getattr(found, name)
        return found


def _has(found: Any, name: str) -> bool:
    """Whether it, or its instances, have an attribute: declared, or set when one is made."""
    if hasattr(found, name):
        return True
    classes = inspect.getmro(found) if inspect.isclass(found) else ()
    return any(name in (*vars(each).get("__annotations__", ()), *_set_by(each)) for each in classes)


def _set_by(made: type) -> tuple[str, ...]:
    """Names that the class's own `__init__` uses, those that it sets among them."""
    code = getattr(vars(made).get("__init__"), "__code__", None)
    return () if code is None else code.co_names


_ARGUMENTS = (
    *("add_cli_args", "from_cli_args"),
    *("additional_config", "disable_log_stats", "hf_overrides", "logits_processors", "model"),
    *("dtype", "enable_prefix_caching", "enforce_eager", "generation_config", "max_num_seqs"),
    *("enable_chunked_prefill", "max_model_len", "max_num_batched_tokens", "scheduling_policy"),
    *("enable_batch_sharded_sampling", "spec_method", "spec_model", "speculative_config"),
    *("distributed_executor_backend", "pipeline_parallel_size", "tensor_parallel_size"),
)
_SAMPLING = (
    *("detokenize", "extra_args", "logprobs", "max_tokens", "n", "output_kind", "seed"),
    *("stop_token_ids", "stream_interval", "temperature", "top_p"),
)

FRONT_END = (
    Hook("vllm.engine.arg_utils:AsyncEngineArgs", has=_ARGUMENTS),
    Hook("vllm.utils.argparse_utils:FlexibleArgumentParser", has=("error", "parse_args")),
    Hook(
        "vllm:envs",
        has=(
            *("VLLM_CPU_KVCACHE_SPACE", "VLLM_CPU_OMP_THREADS_BIND", "VLLM_NO_USAGE_STATS"),
            *("VLLM_PLUGINS", "VLLM_RPC_BASE_PATH", "VLLM_USE_V2_MODEL_RUNNER"),
        ),
    ),
    Hook("vllm.platforms:current_platform", has=("is_cpu", "is_cuda")),
    Hook(
        "vllm.v1.engine.async_llm:AsyncLLM",
        has=(
            *("errored", "from_engine_args", "get_supported_tasks", "model_config"),
            *("output_handler", "output_processor", "shutdown", "vllm_config"),
        ),
    ),
    Hook(
        "vllm.v1.engine.async_llm:AsyncLLM.generate",
        takes=("prompt", "sampling_params", "request_id", "priority"),
    ),
    Hook("vllm.v1.engine.output_processor:OutputProcessor", has=("get_num_unfinished_requests",)),
    Hook("vllm.v1.engine.exceptions:EngineDeadError"),
    Hook("vllm.v1.engine.exceptions:EngineGenerateError"),
    Hook("vllm.inputs:tokens_input", takes=("prompt_token_ids",)),
    Hook("vllm:SamplingParams", has=_SAMPLING),
    Hook("vllm:SamplingParams", takes=tuple(name for name in _SAMPLING if name != "extra_args")),
    Hook("vllm.sampling_params:RequestOutputKind", has=("DELTA",)),
    Hook("vllm:RequestOutput", has=("num_cached_tokens", "outputs")),
    Hook("vllm.outputs:CompletionOutput", has=("index", "logprobs", "stop_reason", "token_ids")),
    Hook("vllm.logprobs:Logprob", has=("logprob",)),
    Hook(
        "vllm.config:VllmConfig",
        has=("additional_config", "parallel_config", "scheduler_config", "use_v2_model_runner"),
    ),
    Hook("vllm.config:ModelConfig", has=("max_model_len",)),
    Hook("vllm.config:ParallelConfig", has=("data_parallel_size",)),
    Hook(
        "vllm.config:SchedulerConfig",
        has=("enable_chunked_prefill", "long_prefill_token_threshold"),
    ),
    Hook("vllm.model_executor.models.registry:ModelRegistry", has=("models", "register_model")),
    Hook("vllm.model_executor.models.registry:_LazyRegisteredModel", has=("load_model_cls",)),
    Hook("vllm.v1.executor.uniproc_executor:UniProcExecutor"),
)
"""What is used in the service's own process, and what its plugin uses in all of vLLM's."""

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
        has=("idx_mapping_np", "input_ids", "seq_lens_upper_bound_np"),
    ),
    Hook(
        "vllm.v1.worker.gpu.sample.logits_processor:LogitsProcRequestState",
        has=("prefill_len", "prompt_len"),
    ),
)
RUNNERS = {"v1": V1_RUNNER, "v2": V2_RUNNER}


def check_hooks(
    runner: str = "v1", version: Callable[[], str] = lambda: import_module("vllm").__version__
) -> str | None:
    """Returns if vLLM has everything that is used of it; a warning, if nobody has tried this one.

    Args:
        runner: whose processor is used, "v1" or "v2".
        version: vLLM's own word.

    Raises:
        UnsupportedVllm: something is missing; the message says what, and what to install.
    """
    remedy = f"install vLLM {SUPPORTED[0]} (`make install`)"
    try:
        found = version()
    except ImportError as error:
        raise UnsupportedVllm(f"vLLM cannot be imported ({error}): {remedy}") from error
    missing = [name for hook in (*FRONT_END, *RUNNERS[runner]) for name in hook.missing()]
    if missing:
        raise UnsupportedVllm(
            f"vLLM {found} lacks {', '.join(missing)}, which this service relies on: {remedy}"
        )
    _require_plugin()
    if found.split("+")[0].rpartition(".")[0] not in SUPPORTED:
        return (
            f"vLLM {found} has all that is needed, but was never tried with this service: if "
            f"anything is odd, {remedy}"
        )
    return None


def _require_plugin() -> None:
    """vLLM's processes find the probed models by an entry point of this package."""
    if not entry_points(group=PLUGIN_GROUP, name=PLUGIN):
        raise UnsupportedVllm(
            f"vLLM will not find the entry point {PLUGIN!r} of {PLUGIN_GROUP}: install this "
            "package (`make install`, or `pip install -e .`), do not merely run it from its folder"
        )
    chosen = os.environ.get("VLLM_PLUGINS")
    if chosen is not None and PLUGIN not in chosen.split(","):
        raise UnsupportedVllm(
            f"VLLM_PLUGINS is {chosen!r}, which keeps vLLM from loading {PLUGIN!r}: add it, or "
            "unset the variable"
        )
