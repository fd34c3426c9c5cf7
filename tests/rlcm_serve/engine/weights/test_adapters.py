"""Of LoRA adapters: what is wrong with one is said before vLLM starts."""

from __future__ import annotations

import json
import shutil
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from rlcm_serve.engine.model_files import EMBEDDED_MODEL
from rlcm_serve.engine.weights.adapters import Adapter, enable_adapters, require_match
from rlcm_serve.errors import ModelRefused

CONFIG = {
    "peft_type": "LORA",
    "r": 4,
    "lora_alpha": 8,
    "target_modules": ["q_proj"],
    "bias": "none",
}


def write(folder: Path, weights: bytes = b"w", **changes: Any) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "adapter_config.json").write_text(json.dumps(CONFIG | changes))
    (folder / "adapter_model.safetensors").write_bytes(weights)
    return folder


def test_a_digest_is_of_the_files_and_not_of_their_place(tmp_path: Path) -> None:
    adapter = Adapter.read(write(tmp_path / "a"))
    assert adapter.rank == 4
    assert Adapter.read(shutil.copytree(tmp_path / "a", tmp_path / "b")).digest == adapter.digest
    (tmp_path / "a" / "README.md").write_text("A card.")
    assert Adapter.read(tmp_path / "a").digest == adapter.digest
    others = [
        Adapter.read(write(tmp_path / "c", b"v")).digest,
        Adapter.read(write(tmp_path / "d", lora_alpha=16)).digest,
    ]
    assert len({adapter.digest, *others}) == 3


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"peft_type": "IA3"}, "peft_type 'IA3': vLLM serves 'LORA' alone"),
        ({"r": 0}, "rank r = 0"),
        ({"r": 1024}, "rank r = 1024: vLLM serves 1 to 512"),
        ({"use_dora": True}, r"DoRA \(use_dora\), which vLLM does not serve: merge it"),
        ({"modules_to_save": ["lm_head"]}, "whole modules .*lm_head"),
        ({"bias": "all"}, r"biases \(bias: all\)"),
        ({"alpha_pattern": {"v_proj": 64}}, r"alpha_pattern \(\{'v_proj': 64\}\), which vLLM"),
        ({"rank_pattern": {"v_proj": 2}}, "rank_pattern"),
        ({"lora_bias": True}, "lora_bias"),
        ({"trainable_token_indices": [1, 2]}, "trainable_token_indices"),
        ({"layer_replication": [[0, 2]]}, "layer_replication"),
    ],
)
def test_what_vllm_cannot_serve_is_refused(
    tmp_path: Path, changes: dict[str, Any], why: str
) -> None:
    with pytest.raises(ModelRefused, match=why):
        Adapter.read(write(tmp_path / "a", **changes))


def test_a_folder_without_an_adapter_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelRefused, match=r"no LoRA adapter in .*adapter_config\.json"):
        Adapter.read(tmp_path)
    write(tmp_path)
    (tmp_path / "adapter_model.safetensors").unlink()
    with pytest.raises(ModelRefused, match=r"has no weights: it needs adapter_model\.safetensors"):
        Adapter.read(tmp_path)
    (tmp_path / "adapter_config.json").write_text("{")
    with pytest.raises(ModelRefused, match=r"adapter_config\.json is not JSON"):
        Adapter.read(tmp_path)


@dataclass
class Arguments:
    """The arguments of vLLM that are about LoRA, with its defaults."""

    enable_lora: bool = False
    max_loras: int = 1
    max_lora_rank: int = 16


@pytest.mark.parametrize(
    ("ranks", "given", "expected"),
    [
        ((4,), Arguments(), Arguments(True, 1, 16)),
        ((4, 17, 8), Arguments(), Arguments(True, 3, 32)),
        ((4,), Arguments(True, 5, 64), Arguments(True, 5, 64)),
        ((), Arguments(), Arguments()),
    ],
)
def test_there_is_room_for_every_adapter(
    ranks: tuple[int, ...], given: Arguments, expected: Arguments
) -> None:
    adapters = [Adapter(Path("/a"), f"digest {rank}", rank) for rank in ranks]
    enable_adapters(given, adapters, spare=False)  # type: ignore[arg-type]
    assert given == expected


def test_one_place_may_stay_empty() -> None:
    given = Arguments()
    enable_adapters(given, [Adapter(Path("/a"), "d", 4)], spare=True)  # type: ignore[arg-type]
    assert given == Arguments(True, 2, 16)


def test_lora_without_an_adapter_is_refused() -> None:
    with pytest.raises(ModelRefused, match="--enable-lora is on, but no profile names an adapter"):
        enable_adapters(Arguments(enable_lora=True), [], spare=True)  # type: ignore[arg-type]


def matrices(rank: int, rows: int, columns: int) -> dict[str, torch.Tensor]:
    module = "base_model.model.model.layers.0.self_attn.q_proj"
    return {
        f"{module}.lora_A.weight": torch.ones(rank, columns),
        f"{module}.lora_B.weight": torch.ones(rows, rank),
        "base_model.model.elsewhere.lora_A.weight": torch.ones(rank, 3),
    }


@pytest.mark.parametrize(
    ("rows", "columns", "why"),
    [
        (192, 160, None),
        (192, 128, r"lora_A\.weight is for size 128, but this model's .*q_proj has size 160"),
        (384, 160, r"lora_B\.weight is for size 384, but this model's .*q_proj has size 192"),
    ],
)
def test_an_adapter_of_another_model_is_refused(
    tmp_path: Path, rows: int, columns: int, why: str | None
) -> None:
    folder = write(tmp_path)
    save_file(matrices(4, rows, columns), folder / "adapter_model.safetensors")
    adapter = Adapter.read(folder)
    if why is None:
        require_match(adapter, EMBEDDED_MODEL)
    else:
        with pytest.raises(ModelRefused, match=why):
            require_match(adapter, EMBEDDED_MODEL)


@pytest.mark.parametrize(
    ("tokens", "states", "why"),
    [
        (512, 160, None),
        (
            500,
            160,
            r"lora_embedding_A is for size 500, but this model's .*embed_tokens has size 512",
        ),
        (
            512,
            128,
            r"lora_embedding_B is for size 128, but this model's .*embed_tokens has size 160",
        ),
    ],
)
def test_matrices_of_the_embeddings_have_the_sizes_of_the_other_axes(
    tmp_path: Path, tokens: int, states: int, why: str | None
) -> None:
    folder = write(tmp_path)
    module = "base_model.model.model.embed_tokens"
    saved = {
        f"{module}.lora_embedding_A": torch.ones(4, tokens),
        f"{module}.lora_embedding_B": torch.ones(states, 4),
    }
    save_file(saved, folder / "adapter_model.safetensors")
    with nullcontext() if why is None else pytest.raises(ModelRefused, match=why):
        require_match(Adapter.read(folder), EMBEDDED_MODEL)


def test_a_weight_that_vllm_would_pass_over_is_refused(tmp_path: Path) -> None:
    """PEFT saves the whole embeddings after their number has changed."""
    folder = write(tmp_path)
    saved = {"base_model.model.model.embed_tokens.base_layer.weight": torch.ones(32, 160)}
    save_file(matrices(4, 192, 160) | saved, folder / "adapter_model.safetensors")
    with pytest.raises(ModelRefused, match=r"holds .*embed_tokens\.base_layer\.weight, a whole"):
        require_match(Adapter.read(folder), EMBEDDED_MODEL)


def test_cut_weights_are_refused_by_name(tmp_path: Path) -> None:
    folder = write(tmp_path)
    (folder / "adapter_model.safetensors").write_bytes(bytes(40))
    with pytest.raises(ModelRefused, match=r"adapter_model\.safetensors cannot be read"):
        require_match(Adapter.read(folder), EMBEDDED_MODEL)
