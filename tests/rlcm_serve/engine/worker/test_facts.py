"""What a vLLM computes with is read from its resolved configuration."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from rlcm_serve.engine.launch import EngineSettings, configure
from rlcm_serve.engine.model_files import EMBEDDED_MODEL, ModelFiles
from rlcm_serve.engine.worker.facts import EngineFacts, facts_of
from rlcm_serve.engine.worker.plugin import override

QWEN = "Qwen3ForCausalLM"
EXIT_PROCESSOR = "rlcm_serve.engine.worker.processor_v1:ExitProcessor"
NEMOTRON = {
    "architectures": ["NemotronHForCausalLM"],
    "model_type": "nemotron_h",
    "dtype": "bfloat16",
    "mamba_ssm_cache_dtype": "float32",
    "vocab_size": 96,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "hybrid_override_pattern": "M*",
}
"""The configuration of a small hybrid model that asks for states in float32."""


def facts(**arguments: Any) -> EngineFacts:
    from vllm.engine.arg_utils import AsyncEngineArgs

    given = {"model_class_overrides": override(QWEN), "enforce_eager": True, **arguments}
    config = AsyncEngineArgs(model=str(EMBEDDED_MODEL), **given).create_engine_config()
    return facts_of(config, ["CPU_ATTN"])


def drafts(refusal: str = "standard", **settings: float) -> dict[str, Any]:
    config = {"method": "draft_model", "model": str(EMBEDDED_MODEL), "num_speculative_tokens": 2}
    return {"speculative_config": config | {"rejection_sample_method": refusal} | settings}


@pytest.mark.parametrize(
    ("arguments", "changed"),
    [
        ({"dtype": "bfloat16"}, {"dtype": "bfloat16", "kv_cache_dtype": "bfloat16"}),
        ({"load_format": "dummy"}, {"overrides": '{"load_format":"dummy"}'}),
        (
            {"hf_overrides": {"rms_norm_eps": 0.1}},
            {"overrides": '{"hf_overrides":{"rms_norm_eps":0.1}}'},
        ),
        (
            {"model_class_overrides": override(QWEN) | {"Other": "some.where:Else"}},
            {"overrides": '{"model_class_overrides":{"Other":"some.where:Else"}}'},
        ),
        (
            {"logits_processors": [EXIT_PROCESSOR, "some.where:Else"]},
            {"overrides": '{"logits_processors":["some.where:Else"]}'},
        ),
        (
            {"enable_lora": True, "lora_dtype": "bfloat16"},
            {"overrides": '{"lora_dtype":"bfloat16"}'},
        ),
        ({"max_num_seqs": 7, "enable_prefix_caching": False}, {}),
        (drafts(), {"speculation": "draft_model, 2 tokens, standard"}),
        (drafts("block"), {"speculation": "draft_model, 2 tokens, block"}),
        (
            drafts("synthetic", synthetic_acceptance_length=1.5),
            {"lossy_speculation": "draft_model, 2 tokens, synthetic"},
        ),
    ],
)
def test_what_changes_numbers_is_in_the_facts_and_what_does_not_is_not(
    arguments: dict[str, Any], changed: dict[str, str]
) -> None:
    before, after = (
        asdict(facts(dtype="float32")),
        asdict(facts(**{"dtype": "float32"} | arguments)),
    )
    assert {name: after[name] for name in after if after[name] != before[name]} == changed
    assert before["overrides"] == before["quantization"] == ""


def test_what_vllm_sets_for_an_architecture_is_set(tmp_path: Path) -> None:
    """vLLM looks it up by the architecture's name, which must therefore stay."""
    (tmp_path / "config.json").write_text(json.dumps(NEMOTRON))
    settings = EngineSettings(vllm_arguments=("--enable-chunked-prefill",))
    config = configure(settings, ModelFiles.read(tmp_path), (94, 95))
    assert config.model_config.architecture == "NemotronHForCausalLM"
    assert config.cache_config.mamba_ssm_cache_dtype == "float32"
    assert '"mamba_ssm_cache_dtype":"float32"' in facts_of(config, []).overrides
