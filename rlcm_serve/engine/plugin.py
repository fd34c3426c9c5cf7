"""vLLM's entry point `vllm.general_plugins`: runs in every one of its processes."""

from __future__ import annotations


def register() -> None:
    """Registers `Probed<Arch>` for every text generation model that vLLM knows, without loading one."""
    from vllm.model_executor.models.registry import ModelRegistry

    known = list(ModelRegistry.models)
    for architecture in known:
        probed = f"Probed{architecture}"
        if architecture.startswith("Probed") or probed in known:
            continue
        ModelRegistry.register_model(probed, f"rlcm_serve.engine.probed_model:{probed}")
