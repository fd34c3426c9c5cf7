"""What the installed vLLM would do with a model: it makes its configuration, and loads nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlcm_serve.engine.diagnosis.findings import Findings, Refused
from rlcm_serve.engine.diagnosis.model import Examined, note_context
from rlcm_serve.engine.launch import EngineSettings, configure
from rlcm_serve.engine.worker.facts import EngineFacts, facts_of
from rlcm_serve.engine.worker.hooks import SUPPORTED, check_hooks
from rlcm_serve.errors import RlcmError
from rlcm_serve.terminal import output_to

if TYPE_CHECKING:
    from vllm.config import VllmConfig

_ARGUMENTS = "change the engine arguments, after `--`"
_TESTED = f"if anything fails, install vLLM {SUPPORTED[0]} (`make install`)"


def examine_vllm(settings: EngineSettings, examined: Examined, findings: Findings) -> None:
    """Lets vLLM make its configuration, and notes what follows from it.

    Raises:
        Refused: vLLM cannot be used, or refuses; the reason is noted.
    """
    with findings.refusing("vLLM", "install a supported version with `make install`"):
        with output_to(settings.log):
            warning = check_hooks()
        from vllm import __version__

        has = "has every name that the service uses"
        if warning is None:
            findings.fine("vLLM", f"{__version__} {has}")
        else:
            findings.note("vLLM", f"{__version__} {has}, but is not tested with it", _TESTED)
    _require_architecture(examined, findings)
    config = _configured(settings, examined, findings)
    _note_config(config, findings)
    context = config.model_config.max_model_len
    if context != examined.files.context:  # as the arguments say, not the model's files
        budget = examined.identity.budget
        note_context("context of vLLM", context, budget, examined.text, findings)
    with output_to(settings.log):
        _note_lora(examined, findings)


def _require_architecture(examined: Examined, findings: Findings) -> None:
    from vllm.model_executor.models.registry import ModelRegistry

    if examined.files.architecture not in ModelRegistry.models:
        findings.refuse(
            "architecture",
            f"vLLM has no model {examined.files.architecture}",
            "serve a model of vLLM's list of supported models, or install a plugin of vLLM that "
            "adds it",
        )
        raise Refused


def _configured(settings: EngineSettings, examined: Examined, findings: Findings) -> VllmConfig:
    text = examined.text
    try:
        with output_to(settings.log):
            return configure(
                settings, examined.files, (text.stop_high, text.stop_low), examined.adapters
            )
    except RlcmError as error:
        findings.refuse("engine arguments", str(error), _ARGUMENTS)
        raise Refused from error
    except Exception as error:  # vLLM's configuration raises many kinds
        findings.refuse("engine arguments", f"vLLM refuses them: {error}", _ARGUMENTS)
        raise Refused from error


def _note_config(config: VllmConfig, findings: Findings) -> None:
    facts = facts_of(config, [])
    findings.fine("model runner", f"{facts.model_runner.upper()} on {facts.device}")
    quantized = f", quantized ({facts.quantization})" if facts.quantization else ""
    findings.fine("data type", f"{facts.dtype}{quantized}; KV cache {facts.kv_cache_dtype}")
    _note_speculation(facts, config.use_v2_model_runner, findings)
    findings.fine(
        "structured output", f"JSON schemas, by {config.structured_outputs_config.backend}"
    )


def _note_speculation(facts: EngineFacts, on_v2: bool, findings: Findings) -> None:
    if facts.lossy_speculation:
        findings.note(
            "speculative decoding",
            f"{facts.lossy_speculation}: it changes what is sampled, so no certificate fitted "
            "without it is valid",
            "set rejection_sample_method to standard or block",
        )
    elif facts.speculation:
        findings.fine("speculative decoding", f"{facts.speculation}: certificates stay valid")
    elif on_v2:
        findings.fine("speculative decoding", "off; draft models, EAGLE and MTP can be used")
    else:
        findings.note(
            "speculative decoding",
            "not possible: vLLM's V1 model runner lets no exit rule act on drafts",
            "it needs the V2 model runner, which vLLM chooses with CUDA",
        )


def _note_lora(examined: Examined, findings: Findings) -> None:
    from vllm.model_executor.models.interfaces import supports_lora
    from vllm.model_executor.models.registry import ModelRegistry

    entry = ModelRegistry.models[examined.files.architecture]
    if supports_lora(entry.load_model_cls()):
        findings.fine("LoRA", "adapters can be served, chosen by prompt profiles")
    else:
        findings.note("LoRA", f"vLLM serves no adapters on {examined.files.architecture}")
