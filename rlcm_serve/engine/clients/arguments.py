"""The arguments under which vLLM has exit control: for a launch, or to be found in an adopted one.

vLLM must load the model with the probe in it, the processor that acts on readings, and the methods
by which the front end talks to the workers.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlcm_serve.engine.model_files import ModelFiles
from rlcm_serve.engine.weights.adapters import Adapter, room_for
from rlcm_serve.engine.worker.extension import EXTENSION
from rlcm_serve.engine.worker.hooks import check_hooks
from rlcm_serve.engine.worker.plugin import CONFIG_KEY, OWN, override
from rlcm_serve.errors import ModelRefused

if TYPE_CHECKING:
    from vllm.config import VllmConfig

    from rlcm_serve.engine.launch import EngineSettings

_PROCESSORS = {
    "v1": "rlcm_serve.engine.worker.processor_v1:ExitProcessor",
    "v2": "rlcm_serve.engine.worker.processor_v2:ExitProcessorV2",
}
_DRAFTS_OF_V1 = ("custom_class", "medusa", "mlp_speculator", "ngram", "ngram_gpu", "suffix")
"""Methods of speculative decoding that vLLM's V2 model runner lacks."""


def tracks_tokens(settings: EngineSettings, files: ModelFiles) -> bool:
    """Whether the engine keeps the figures of each token, which takes some time per token."""
    probe = files.probe if settings.reads_probe else None
    reads = probe is not None and probe.reads_tokens
    return reads or settings.shows_signals or settings.record_inputs


def exit_control(
    settings: EngineSettings, files: ModelFiles, stop_ids: tuple[int, int]
) -> dict[str, Any]:
    """vLLM's arguments, by their names in `AsyncEngineArgs`, except for the logits processor.

    The processor depends on the model runner, which vLLM chooses when it has all its arguments.
    The architecture keeps its name, because vLLM looks up by it what else it has to set.

    Raises:
        ModelRefused: vLLM has no such model.
    """
    if files.architecture not in OWN:
        raise ModelRefused(
            f"vLLM has no model {files.architecture}: serve a model of vLLM's list of supported "
            "models, or install a plugin of vLLM that adds it"
        )
    return {
        "model_class_overrides": override(files.architecture),
        "additional_config": {
            CONFIG_KEY: {
                "probe": str(files.probe_folder) if files.probe and settings.reads_probe else None,
                "reserved": [stop_ids[0], stop_ids[1] + 1],
                "tokens": tracks_tokens(settings, files),
            }
        },
        "worker_extension_cls": EXTENSION,
    }


def processor_for(vllm_config: VllmConfig) -> str:
    """Our logits processor for the model runner that vLLM has chosen.

    Raises:
        ModelRefused: this runner lets no processor act on drafts.
        UnsupportedVllm: this runner lacks a name that the processor relies on.
    """
    runner = "v2" if vllm_config.use_v2_model_runner else "v1"
    drafts = vllm_config.speculative_config
    if drafts is not None and (runner == "v1" or drafts.method in _DRAFTS_OF_V1):
        raise ModelRefused(
            f"speculative decoding ({drafts.method}) is on, but here vLLM can run it under its V1 "
            "model runner alone, which lets no exit rule act on drafts: use a draft model, EAGLE "
            "or MTP where vLLM's V2 model runner runs, or remove --speculative-config and --spec-*"
        )
    check_hooks(runner)
    return _PROCESSORS[runner]


def require_probed(vllm_config: VllmConfig) -> None:
    """Raises `ModelRefused` if vLLM has chosen another class than the one with a probe in it."""
    model_config = vllm_config.model_config
    if model_config.architecture not in model_config.model_class_overrides:
        raise ModelRefused(
            f"vLLM would load {model_config.architecture}, which the exit control cannot read, and "
            f"not {'+'.join(model_config.model_class_overrides)} as config.json says: remove "
            "--model-impl; if params.json says otherwise, give --config-format hf --load-format hf"
        )


def require_whole_batch(*, sharded: bool) -> None:
    """Raises `ModelRefused` if each rank samples a part of the batch only."""
    if sharded:
        raise ModelRefused(
            "batch-sharded sampling is on, but each rank would then see all states and only "
            "its own logits: remove --enable-batch-sharded-sampling"
        )


def require_exit_control(
    vllm_config: VllmConfig,
    settings: EngineSettings,
    files: ModelFiles,
    stop_ids: tuple[int, int],
    adapters: Sequence[Adapter] = (),
) -> None:
    """Returns if a vLLM that somebody else started has what a launch would have given it.

    Args:
        vllm_config: of that vLLM.
        settings, files, stop_ids: as for a launch.
        adapters: of all profiles.

    Raises:
        ModelRefused: it lacks some arguments, which the message gives as vLLM takes them; or it
            serves another model, or with a class without a probe in it.
        UnsupportedVllm: as `processor_for`.
    """
    from vllm.platforms import current_platform

    model_config, parallel_config = vllm_config.model_config, vllm_config.parallel_config
    served = Path(model_config.model).resolve()
    if model_config.model != settings.model and served != files.folder.resolve():
        raise ModelRefused(
            f"vLLM serves {model_config.model}, but the settings name {settings.model}, which is "
            f"in {files.folder}: start vLLM with that folder, or name the model that it serves"
        )
    require_whole_batch(sharded=parallel_config.enable_batch_sharded_sampling)
    wanted = exit_control(settings, files, stop_ids)
    wanted["logits_processors"] = [processor_for(vllm_config)]
    found = {
        "model_class_overrides": model_config.model_class_overrides,
        "additional_config": vllm_config.additional_config,
        "worker_extension_cls": parallel_config.worker_extension_cls,
        "logits_processors": [str(one) for one in model_config.logits_processors or ()],
    }
    lacking = {name: value for name, value in wanted.items() if not _has(found[name], value)}
    room = room_for(adapters, spare=current_platform.is_cpu())
    if any(getattr(vllm_config.lora_config, name, 0) < least for name, least in room.items()):
        lacking |= {"enable_lora": True, **room}
    if lacking:
        raise ModelRefused(
            "vLLM runs without exit control, because it was started without these arguments, or "
            f"with others in their place: {shlex.join(as_flags(lacking))}. All arguments that it "
            f"needs are what `rlcm vllm-args {settings.model}` prints: start it with `vllm serve "
            f"{settings.model} $(rlcm vllm-args {settings.model})`"
        )
    require_probed(vllm_config)


def as_flags(values: Mapping[str, Any]) -> list[str]:
    """Arguments as vLLM's command line takes them; those that are None are left out."""
    flags = []
    for name, value in values.items():
        flag = "--" + name.replace("_", "-")
        if isinstance(value, bool):
            flags += [flag if value else flag.replace("--", "--no-", 1)]
        elif value is None:
            continue
        elif isinstance(value, list):
            flags += [flag, *map(str, value)]
        else:
            flags += [flag, _compact(value) if isinstance(value, dict) else str(value)]
    return flags


def _compact(value: dict[str, Any]) -> str:
    """JSON without blanks, at which a shell would split it."""
    return json.dumps(value, separators=(",", ":"))


def _has(found: Any, wanted: Any) -> bool:
    """Whether an argument has the value, maybe beside others."""
    if isinstance(wanted, dict):
        return isinstance(found, dict) and found | wanted == found
    return set(wanted) <= set(found) if isinstance(wanted, list) else bool(found == wanted)
