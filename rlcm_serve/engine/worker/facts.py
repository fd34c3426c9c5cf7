"""What decides the numbers that vLLM computes, as the running vLLM reports it.

The frontend's configuration says most of it, after vLLM has resolved every `auto`. Only a worker
knows which attention backend it chose.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from calibration.canonical import canonical_json
from rlcm_serve.engine.worker.plugin import override

if TYPE_CHECKING:
    from vllm.config import ModelConfig, VllmConfig

ATTENTION_BACKENDS = "rlcm_attention_backends"
"""Name of the method that the extension adds to vLLM's workers."""


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """Facts of a running vLLM, as `calibration.Fingerprint` describes them; "" if not known."""

    dtype: str = ""
    quantization: str = ""
    kv_cache_dtype: str = ""
    overrides: str = ""
    attention_backend: str = ""
    vllm: str = ""
    model_runner: str = ""
    device: str = ""
    speculation: str = ""
    lossy_speculation: str = ""

    def to_json(self) -> dict[str, str]:
        """The facts that are known."""
        return {name: fact for name, fact in asdict(self).items() if fact}


UNKNOWN = EngineFacts()
"""Before vLLM has started."""


class WorkerFacts:
    """A part of the worker extension; it reads attributes of vLLM's worker."""

    vllm_config: VllmConfig

    def rlcm_attention_backends(self) -> list[str]:
        """Names of the attention backends of this worker's layers."""
        layers = self.vllm_config.compilation_config.static_forward_context.values()
        found = {
            layer.get_attn_backend().get_name()
            for layer in layers
            if hasattr(layer, "get_attn_backend")
        }
        return sorted(found)


def facts_of(vllm_config: VllmConfig, attention_backends: list[str]) -> EngineFacts:
    """The facts of a vLLM that has started.

    Args:
        vllm_config: as vLLM resolved it.
        attention_backends: as a worker reports them.
    """
    from vllm import __version__
    from vllm.platforms import current_platform

    model_config, cache_config = vllm_config.model_config, vllm_config.cache_config
    dtype, cached = _name(model_config.dtype), str(cache_config.cache_dtype)
    device = current_platform.device_type
    if not current_platform.is_cpu():
        device += f" ({current_platform.get_device_name()})"
    overrides = _overrides(vllm_config)
    drafts = _speculation(vllm_config)
    keeps_law = not drafts or drafts.endswith(_LOSSLESS)
    return EngineFacts(
        dtype=dtype,
        quantization=str(model_config.quantization or ""),
        kv_cache_dtype=dtype if cached == "auto" else cached,
        overrides=canonical_json(overrides).decode() if overrides else "",
        attention_backend="+".join(attention_backends),
        vllm=".".join(__version__.split("+")[0].split(".")[:2]),
        model_runner="v2" if vllm_config.use_v2_model_runner else "v1",
        device=device,
        speculation=drafts if keeps_law else "",
        lossy_speculation="" if keeps_law else drafts,
    )


_LOSSLESS = (", standard", ", block")
"""Rejection methods under which tokens have the distribution that they have without drafts."""


def _speculation(vllm_config: VllmConfig) -> str:
    """How tokens are drafted: the method, how many of them, and how they are refused."""
    drafts = vllm_config.speculative_config
    if drafts is None:
        return ""
    count, refusal = drafts.num_speculative_tokens, drafts.rejection_sample_method
    return f"{drafts.method}, {count} tokens, {refusal}"


_CHANGING = {
    "model_config": (
        *("hf_config_path", "override_generation_config", "quantization_config"),
        "disable_sliding_window",
    ),
    "cache_config": ("kv_cache_dtype_skip_layers", "calculate_kv_scales"),
}
"""vLLM's settings that change what the model's files say; some releases lack some of them."""
_OURS = "rlcm_serve.engine.worker."
"""How the names of our logits processors begin."""
_OF_STATES = ("mamba_cache_dtype", "mamba_ssm_cache_dtype")
"""Data types of the states of hybrid models; vLLM sets them for other models too."""


def _overrides(vllm_config: VllmConfig) -> dict[str, Any]:
    """The settings that change what the model's files say, by vLLM's names for them."""
    model_config, lora_config = vllm_config.model_config, vllm_config.lora_config
    found = {
        name: getattr(getattr(vllm_config, part), name, None)
        for part, names in _CHANGING.items()
        for name in names
    }
    if model_config.is_hybrid:
        found |= {name: getattr(vllm_config.cache_config, name) for name in _OF_STATES}
    found["hf_overrides"] = model_config.hf_overrides
    found["logits_processors"] = _other_processors(model_config)
    found["model_class_overrides"] = _given(model_config.model_class_overrides)
    if lora_config is not None and lora_config.lora_dtype != model_config.dtype:
        found["lora_dtype"] = _name(lora_config.lora_dtype)
    if vllm_config.load_config.load_format == "dummy":
        found["load_format"] = "dummy"  # random weights
    known = {name: value for name, value in found.items() if value and value != "auto"}
    plain: dict[str, Any] = json.loads(json.dumps(known, default=str))
    return plain


def _other_processors(model_config: ModelConfig) -> list[str]:
    """The logits processors besides ours: those given, and those of installed packages."""
    given = (
        one if isinstance(one, str) else f"{one.__module__}:{one.__qualname__}"
        for one in model_config.logits_processors or ()
    )
    installed = (one.value for one in entry_points(group="vllm.logits_processors"))
    return sorted({one for one in (*given, *installed) if not one.startswith(_OURS)})


def _given(overrides: dict[str, str]) -> dict[str, str]:
    """The overrides of models' classes, but for ours, which puts a probe into the same model."""
    return {name: value for name, value in overrides.items() if override(name) != {name: value}}


def _name(dtype: object) -> str:
    """`bfloat16` for `torch.bfloat16`."""
    return str(dtype).removeprefix("torch.")
