"""Tiny models that know a few completions by heart, so that a real engine speaks a given format."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import torch
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

_STEPS = 600


def memorise(
    folder: Path, tokenizer: PreTrainedTokenizerFast, completions: Sequence[tuple[str, str]]
) -> Path:
    """Saves a model that answers each text with its completion, at temperature 0."""
    torch.manual_seed(0)
    model = Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=len(tokenizer) + 8,
            hidden_size=96,
            intermediate_size=192,
            num_hidden_layers=2,
            num_attention_heads=3,
            num_key_value_heads=3,
            head_dim=32,
            max_position_embeddings=1024,
            tie_word_embeddings=True,
            eos_token_id=tokenizer.eos_token_id,
        )
    )
    ids_BT, labels_BT = _batch(tokenizer, completions)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.0)
    for _ in range(_STEPS):
        output = model(input_ids=ids_BT, labels=labels_BT)
        guessed_BT = output.logits[:, :-1].argmax(dim=-1)
        learned_BT = labels_BT[:, 1:] >= 0
        if output.loss < 0.01 and bool((guessed_BT == labels_BT[:, 1:])[learned_BT].all()):
            break
        optimizer.zero_grad()
        output.loss.backward()
        optimizer.step()
    else:
        raise AssertionError(f"the model has not learned its completions in {_STEPS} steps")
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    settings = {"eos_token_id": tokenizer.eos_token_id, "temperature": 0.0}
    (folder / "generation_config.json").write_text(json.dumps(settings))
    return folder


def _batch(
    tokenizer: PreTrainedTokenizerFast, completions: Sequence[tuple[str, str]]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids, and the labels of the completions alone; -100 elsewhere."""
    rows = [(tokenizer.encode(text), tokenizer.encode(own)) for text, own in completions]
    longest = max(len(text) + len(own) for text, own in rows)
    ids_BT = torch.zeros(len(rows), longest, dtype=torch.long)
    labels_BT = torch.full((len(rows), longest), -100)
    for number, (text, own) in enumerate(rows):
        ids_BT[number, : len(text) + len(own)] = torch.tensor([*text, *own])
        labels_BT[number, len(text) : len(text) + len(own)] = torch.tensor(own)
    return ids_BT, labels_BT
