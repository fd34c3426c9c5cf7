"""Of starting vLLM, what comes before it starts: the arguments."""

from __future__ import annotations

import inspect
import json
import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rlcm_serve.engine.clients.arguments import _DRAFTS_OF_V1, processor_for, tracks_tokens
from rlcm_serve.engine.launch import (
    _IN_THE_CORE,
    ENVIRONMENT,
    EngineSettings,
    _arguments,
    configure,
)
from rlcm_serve.engine.model_files import EMBEDDED_MODEL, ModelFiles
from rlcm_serve.engine.vllm_engine import VllmEngine
from rlcm_serve.engine.worker.plugin import override
from rlcm_serve.engine.worker.probe import STATE_ALONE
from rlcm_serve.errors import ModelRefused

STOP_IDS = (94, 95)


@pytest.fixture
def files(tmp_path: Path) -> ModelFiles:
    config = {"architectures": ["Qwen3ForCausalLM"], "vocab_size": 96, "dtype": "float32"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    return ModelFiles.read(tmp_path)


def test_the_engine_is_spawned_not_forked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fork of a process in which torch has threads hangs, and it cannot use CUDA."""
    from vllm.utils.system_utils import get_mp_context

    monkeypatch.delenv("VLLM_WORKER_MULTIPROC_METHOD", raising=False)
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    assert get_mp_context().get_start_method() == "spawn"


def test_callers_arguments_pass_through_and_outrank_ours(files: ModelFiles) -> None:
    wanted = ("--tensor-parallel-size", "2", "--max-num-seqs=7", "--no-enable-prefix-caching")
    wanted += ("--block-size", "64")
    arguments = _arguments(EngineSettings(vllm_arguments=wanted), files, STOP_IDS)
    assert arguments.tensor_parallel_size == 2
    assert arguments.max_num_seqs == 7
    assert arguments.block_size == 64
    assert arguments.enable_prefix_caching is False


def test_the_probed_model_and_the_processor_are_always_ours(files: ModelFiles) -> None:
    arguments = _arguments(EngineSettings(), files, STOP_IDS)
    assert arguments.model == str(files.folder)
    assert arguments.model_class_overrides == override("Qwen3ForCausalLM")
    assert arguments.additional_config == {
        "rlcm": {"probe": None, "reserved": [94, 96], "tokens": False}
    }


def test_of_two_forms_of_a_model_vllm_reads_the_one_that_the_service_reads(
    files: ModelFiles,
) -> None:
    """Mistral's repositories have both, and vLLM prefers Mistral's own."""

    def formats(*given: str) -> tuple[str, str]:
        arguments = _arguments(EngineSettings(vllm_arguments=given), files, STOP_IDS)
        return str(arguments.config_format), str(arguments.load_format)

    (files.folder / "consolidated.safetensors").touch()
    assert formats() == ("auto", "auto"), "there are no other weights"
    (files.folder / "model-00001-of-00002.safetensors").touch()
    assert formats() == ("hf", "hf")
    assert formats("--load-format", "mistral") == ("hf", "mistral")


def config_with(*, v2: bool, drafts: str | None = None) -> Any:
    """What `processor_for` reads of vLLM's configuration."""
    speculative = None if drafts is None else SimpleNamespace(method=drafts)
    return SimpleNamespace(use_v2_model_runner=v2, speculative_config=speculative)


def test_the_processor_is_that_of_the_runner_that_vllm_chooses() -> None:
    assert processor_for(config_with(v2=False)).endswith("processor_v1:ExitProcessor")
    assert processor_for(config_with(v2=True)).endswith("processor_v2:ExitProcessorV2")
    assert "v2" in processor_for(config_with(v2=True, drafts="eagle"))


@pytest.mark.parametrize("method", ["ngram", "suffix", "medusa"])
@pytest.mark.parametrize("v2", [False, True])
def test_drafts_that_vllm_leaves_to_v1_are_refused(method: str, v2: bool) -> None:
    """vLLM takes V1 for them, or fails if VLLM_USE_V2_MODEL_RUNNER says V2."""
    with pytest.raises(ModelRefused, match=rf"speculative decoding \({method}\).* V1 model runner"):
        processor_for(config_with(v2=v2, drafts=method))


def test_methods_that_v2_lacks_are_those_that_vllm_names() -> None:
    from vllm.config import VllmConfig

    found = inspect.getsource(VllmConfig._get_v2_model_runner_unsupported_features)
    assert all(f'"{method}"' in found for method in _DRAFTS_OF_V1)


def test_drafts_under_v1_are_refused_whatever_their_method() -> None:
    with pytest.raises(ModelRefused, match=r"\(draft_model\).* V1 model runner alone"):
        processor_for(config_with(v2=False, drafts="draft_model"))


async def test_an_engine_with_drafts_that_vllm_leaves_to_v1_does_not_start() -> None:
    ngram = {"method": "ngram", "num_speculative_tokens": 2, "prompt_lookup_max": 3}
    arguments = ("--speculative-config", json.dumps(ngram))
    engine = VllmEngine(EngineSettings(vllm_arguments=arguments))
    with pytest.raises(ModelRefused, match=r"\(ngram\)"):
        await engine.start()


def test_a_probe_is_loaded_only_where_it_is_read() -> None:
    embedded = ModelFiles.read(EMBEDDED_MODEL)

    def loads_probe(**settings: Any) -> bool:
        arguments = _arguments(EngineSettings(**settings), embedded, STOP_IDS)
        return arguments.additional_config["rlcm"]["probe"] is not None

    assert loads_probe()
    assert loads_probe(confidence="tail", record_signals=True)
    assert not loads_probe(confidence="tail")


def test_tokens_are_tracked_only_where_something_reads_them() -> None:
    embedded = ModelFiles.read(EMBEDDED_MODEL)
    assert embedded.probe is not None
    of_states = replace(embedded, probe=replace(embedded.probe, inputs=STATE_ALONE))

    def tracks(files: ModelFiles, **settings: Any) -> bool:
        chosen = EngineSettings(**settings)
        kept = _arguments(chosen, files, STOP_IDS).additional_config["rlcm"]["tokens"]
        assert kept == tracks_tokens(chosen, files)
        return tracks_tokens(chosen, files)

    assert not tracks(of_states)
    assert tracks(of_states, record_signals=True)
    assert tracks(of_states, confidence="lowest-group")
    assert tracks(of_states, record_inputs=True)
    assert tracks(embedded)


def test_an_unknown_confidence_is_refused() -> None:
    with pytest.raises(ModelRefused, match="'tea': give one of probe, sequence-probability, "):
        EngineSettings(confidence="tea")


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"temperature": -0.1}, r"temperature is -0\.1: give 0 \(greedy\) to 2"),
        ({"temperature": math.nan}, "temperature is nan"),
        ({"top_p": 0.0}, r"top_p is 0\.0: give more than 0, at most 1"),
        ({"top_p": 1.1}, r"top_p is 1\.1"),
    ],
)
def test_impossible_sampling_is_refused(settings: dict[str, float], why: str) -> None:
    with pytest.raises(ModelRefused, match=why):
        EngineSettings(**settings)  # type: ignore[arg-type]


def test_questions_go_before_what_may_wait(files: ModelFiles) -> None:
    assert _arguments(EngineSettings(), files, STOP_IDS).scheduling_policy == "priority"
    first_come = EngineSettings(vllm_arguments=("--scheduling-policy", "fcfs"))
    assert _arguments(first_come, files, STOP_IDS).scheduling_policy == "fcfs"


@pytest.mark.parametrize(
    ("arguments", "context", "chunked"),
    [
        ((), 8192, False),
        ((), 8193, None),
        ((), None, None),
        (("--max-model-len", "4096"), 40960, False),
        (("--max-model-len", "auto"), 40960, None),
        (("--max-num-batched-tokens", "64"), 2048, None),
        (("--enable-chunked-prefill",), 2048, True),
        (("--no-enable-chunked-prefill",), 40960, False),
    ],
)
def test_prompts_are_taken_in_whole_where_that_costs_little(
    files: ModelFiles, arguments: tuple[str, ...], context: int | None, chunked: bool | None
) -> None:
    if context is not None:
        files.config["max_position_embeddings"] = context
    settings = EngineSettings(vllm_arguments=arguments)
    assert _arguments(settings, files, STOP_IDS).enable_chunked_prefill is chunked


@pytest.mark.parametrize(
    ("architecture", "layers", "arguments", "chunked"),
    [
        ("GraniteMoeHybridForCausalLM", ["mamba", "attention"], (), None),
        ("GraniteMoeHybridForCausalLM", ["attention", "attention"], (), False),
        ("FalconH1ForCausalLM", None, (), None),
        ("FalconH1ForCausalLM", None, ("--no-enable-prefix-caching",), False),
        ("MambaForCausalLM", None, (), None),
    ],
)
def test_a_state_of_the_whole_prefix_is_cached_where_a_chunk_ends(
    files: ModelFiles,
    architecture: str,
    layers: list[str] | None,
    arguments: tuple[str, ...],
    chunked: bool | None,
) -> None:
    """vLLM: "Chunked prefill is required for mamba cache mode 'align'"."""
    files.config.update(architectures=[architecture], max_position_embeddings=2048)
    files.config.update({} if layers is None else {"layer_types": layers})
    settings = EngineSettings(vllm_arguments=arguments)
    assert _arguments(settings, files, STOP_IDS).enable_chunked_prefill is chunked


def test_whole_prompts_are_refused_for_such_a_state(files: ModelFiles) -> None:
    files.config["architectures"] = ["FalconH1ForCausalLM"]
    settings = EngineSettings(vllm_arguments=("--no-enable-chunked-prefill",))
    with pytest.raises(ModelRefused, match=r"FalconH1.*: remove it, or .*no-enable-prefix-caching"):
        _arguments(settings, files, STOP_IDS)


@pytest.mark.parametrize(
    ("binding", "arguments", "executor"),
    [
        ("nobind", (), _IN_THE_CORE),
        ("0-1", (), None),
        ("nobind", ("--tensor-parallel-size", "2"), None),
        ("nobind", ("--pipeline-parallel-size", "2"), None),
        ("nobind", ("--distributed-executor-backend", "mp"), "mp"),
    ],
)
def test_one_process_schedules_and_computes_where_no_threads_are_bound(
    files: ModelFiles,
    monkeypatch: pytest.MonkeyPatch,
    binding: str,
    arguments: tuple[str, ...],
    executor: str | None,
) -> None:
    monkeypatch.setenv("VLLM_CPU_OMP_THREADS_BIND", binding)
    given = _arguments(EngineSettings(vllm_arguments=arguments), files, STOP_IDS)
    assert given.distributed_executor_backend == executor


@pytest.mark.parametrize(
    ("argument", "why"),
    [
        ("--enable-batch-sharded-sampling", "batch-sharded"),
        ("--model=other", "set by the service"),
        ("--logits_processors=other", "set by the service"),
        ("--model-class-overrides.X=a:b", "set by the service"),
        ("--hf-overrides={}", "set by the service"),
        ("--served-model-name=other", "an option of the service"),
        ("--served=other", "unrecognized arguments: --served=other"),
        ("--hf-over={}", "unrecognized arguments: --hf-over={}"),
        ("--config=some.yaml", "names a file of arguments: give them one by one"),
        ("--help", "`vllm serve --help=all` lists"),
        ("-h", "`vllm serve --help=all` lists"),
        ("--enable-lora", "no profile names an adapter"),
        ("--no-such-argument", "no-such-argument"),
        ("--max-num-seqs=many", "many"),
    ],
)
def test_settings_that_exit_control_cannot_support_are_refused(
    files: ModelFiles, argument: str, why: str
) -> None:
    with pytest.raises(ModelRefused, match=why):
        _arguments(EngineSettings(vllm_arguments=(argument,)), files, STOP_IDS)


def test_a_model_that_vllm_lacks_is_refused(files: ModelFiles) -> None:
    files.config["architectures"] = ["NoSuchModel"]
    with pytest.raises(ModelRefused, match="vLLM has no model NoSuchModel"):
        _arguments(EngineSettings(), files, STOP_IDS)


def test_a_class_without_the_probe_is_refused() -> None:
    """transformers' class, where vLLM's is the one that was overridden."""
    settings = EngineSettings(vllm_arguments=("--model-impl", "transformers"))
    with pytest.raises(ModelRefused, match="vLLM would load TransformersForCausalLM"):
        configure(settings, ModelFiles.read(EMBEDDED_MODEL), STOP_IDS)
