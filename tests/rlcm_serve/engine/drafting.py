"""What drafts for a model: a second model, an EAGLE head, an MTP layer; and how to tell vLLM."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel

from rlcm_serve.engine.model_files import EMBEDDED_MODEL
from training.tasks.problems import Split, sample_problems

LAYERS = 0.12
"""Of the weights of random layers: so much that they decide some tokens, and not all."""
NOISE = 0.3
"""Of each weight's own deviation: so much that about a third of the drafts is refused."""


def save_draft_model(folder: Path, noise: float = NOISE) -> Path:
    """The embedded model with noise on its weights, which often says what that one says."""
    folder.mkdir()
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        shutil.copy(EMBEDDED_MODEL / name, folder)
    rng = torch.Generator().manual_seed(3)
    weights = load_file(EMBEDDED_MODEL / "model.safetensors")
    for name, weight in weights.items():
        if weight.dim() == 2:
            step = torch.randn(weight.shape, generator=rng, dtype=weight.dtype)
            weights[name] = weight + noise * weight.std() * step
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    return folder


def save_eagle_head(folder: Path) -> Path:
    """An EAGLE head for the embedded model: a linear fit of the next state, then a random layer.

    A head without training, which predicts about half of the tokens. The layer's weights are
    small, so that its attention has an effect and does little harm.
    """
    folder.mkdir()
    model = AutoModelForCausalLM.from_pretrained(EMBEDDED_MODEL, dtype=torch.float32)
    states_TH, following_TH, embeddings_TH = _states(model)
    config = _sizes() | {"architectures": ["LlamaForCausalLM"], "model_type": "llama"}
    config |= {"num_hidden_layers": 1, "head_dim": 32}
    config |= {"num_attention_heads": 10, "num_key_value_heads": 2}
    (folder / "config.json").write_text(json.dumps(config))
    weights = _random_layer("layers.0.", config)
    del weights["layers.0.input_layernorm.weight"]  # EAGLE has none in its first layer
    weights["fc.weight"] = _linear_fit(torch.cat((embeddings_TH, states_TH), 1), following_TH)
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    return folder


def save_model_with_mtp(folder: Path) -> Path:
    """A model of random weights in the architecture MiMo, with a layer that drafts (MTP).

    It has the embedded model's tokenizer and sizes. Its layers are Qwen2's.
    """
    folder.mkdir()
    for path in EMBEDDED_MODEL.iterdir():
        if path.suffix in (".json", ".jinja"):
            shutil.copy(path, folder)
    shutil.copytree(EMBEDDED_MODEL / "probe", folder / "probe")
    config = _sizes() | {"architectures": ["MiMoForCausalLM"], "model_type": "qwen2"}
    config |= {"num_hidden_layers": 2, "num_attention_heads": 5, "num_key_value_heads": 5}
    config |= {"num_nextn_predict_layers": 1, "tie_word_embeddings": False}
    (folder / "config.json").write_text(json.dumps(config))
    rng = torch.Generator().manual_seed(7)
    width = config["hidden_size"]
    embeddings = torch.randn(config["vocab_size"], width, generator=rng)
    weights = {"model.embed_tokens.weight": embeddings, "model.norm.weight": torch.ones(width)}
    # Without its layers, the model would say one id after the other.
    weights["lm_head.weight"] = embeddings.roll(1, 0)
    for layer in range(config["num_hidden_layers"]):
        weights |= _random_layer(f"model.layers.{layer}.", config, bias=True, scale=LAYERS)
    own = "model.mtp_layers.0."
    weights |= _random_layer(own, config, bias=True)
    for norm in ("token", "hidden", "final"):
        weights[f"{own}{norm}_layernorm.weight"] = torch.ones(width)
    # It says the next id.
    weights[f"{own}input_proj.weight"] = torch.eye(width, 2 * width).roll(width, 1)
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    return folder


def _sizes() -> dict[str, Any]:
    """What other architectures take over from the embedded model's configuration."""
    config = json.loads((EMBEDDED_MODEL / "config.json").read_text())
    names = ("dtype", "eos_token_id", "hidden_act", "hidden_size", "intermediate_size")
    names += ("max_position_embeddings", "pad_token_id", "rms_norm_eps", "rope_parameters")
    names += ("tie_word_embeddings", "vocab_size")
    return {name: config[name] for name in names}


def _random_layer(
    prefix: str, config: dict[str, Any], *, bias: bool = False, scale: float = 0.02
) -> dict[str, Any]:
    """Weights of a decoder layer of Llama, or of Qwen2 with `bias`, under vLLM's names."""
    rng = torch.Generator().manual_seed(11)
    width, inner = config["hidden_size"], config["intermediate_size"]
    head = config.get("head_dim") or width // config["num_attention_heads"]
    heads = {"q": config["num_attention_heads"], "k": config["num_key_value_heads"]}
    heads["v"] = heads["k"]
    shapes = {f"self_attn.{one}_proj": (count * head, width) for one, count in heads.items()}
    shapes |= {"self_attn.o_proj": (width, heads["q"] * head), "mlp.down_proj": (width, inner)}
    shapes |= {"mlp.gate_proj": (inner, width), "mlp.up_proj": (inner, width)}
    weights = {
        f"{prefix}{name}.weight": scale * torch.randn(shape, generator=rng)
        for name, shape in shapes.items()
    }
    if bias:
        biases = {f"{prefix}self_attn.{one}_proj.bias": n * head for one, n in heads.items()}
        weights |= {name: torch.zeros(size) for name, size in biases.items()}
    for norm in ("input", "post_attention"):
        weights[f"{prefix}{norm}_layernorm.weight"] = torch.ones(width)
    return weights


def _states(model: PreTrainedModel) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Of sampled rollouts: states, the states after them, and embeddings of the tokens between."""
    tokenizer = AutoTokenizer.from_pretrained(EMBEDDED_MODEL)
    torch.manual_seed(5)
    found = []
    for problem in sample_problems(Split.TRAIN, 24, seed=6):
        chat = [{"role": "user", "content": problem.question}]
        prompt = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=False)
        ids = model.generate(torch.tensor([prompt]), do_sample=True, max_new_tokens=100)
        with torch.inference_mode():
            states_TH = model.model(ids).last_hidden_state[0]
            embeddings_TH = model.model.embed_tokens(ids)[0]
        found.append((states_TH[:-1], states_TH[1:], embeddings_TH[1:]))
    states_TH, following_TH, embeddings_TH = map(torch.cat, zip(*found, strict=True))
    return states_TH, following_TH, embeddings_TH


def _linear_fit(inputs_TI: torch.Tensor, outputs_TO: torch.Tensor) -> torch.Tensor:
    """The matrix (O, I) that maps inputs onto outputs with the least squared error."""
    fitted: torch.Tensor = torch.linalg.lstsq(inputs_TI.double(), outputs_TO.double()).solution
    return fitted.T.float().contiguous()


def with_drafts(model: Path | None, count: int = 3, **settings: Any) -> tuple[str, str]:
    """vLLM's arguments for `count` drafts in each step, of this model or with another `method`."""
    config: dict[str, Any] = {"method": "draft_model", "num_speculative_tokens": count}
    if model is not None:
        config["model"] = str(model)
    return "--speculative-config", json.dumps(config | settings)
