"""Warm start: trains the embedded reasoner from scratch on program-made reasoning.

A Qwen3-architecture model of 1.3 M parameters. Muon on the matrices, AdamW on the rest; the learning
rate warms up, stays, and falls linearly over the second half. The run can be stopped and started
again: it goes on from its last checkpoint and sees the batches it would have seen.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from torch.nn.functional import cross_entropy
from transformers import GenerationConfig, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from training.sft_data import IGNORED, DrillSchedule, WarmStartBatches
from training.tasks.tokenizer import build_tokenizer

TEMPERATURE = 0.8
THINKING_TOKENS = 960
ANSWER_TOKENS = 32
VOCABULARY = 512  # the tokenizer's ids, and a few unused ones that the exit control needs


@dataclass(frozen=True, slots=True)
class SftConfig:
    """One warm start. `batch_tokens` counts padding; learning rates are the peaks."""

    steps: int = 9000
    batch_tokens: int = 2048
    hidden_size: int = 160
    intermediate_size: int = 448
    layers: int = 4
    heads: int = 6
    kv_heads: int = 2
    head_dim: int = 32
    muon_lr: float = 0.015
    adamw_lr: float = 0.00225
    warmup_steps: int = 100
    drills: float = 0.3
    drills_end: float = 0.02
    seed: int = 0
    threads: int = 2
    save_every: int = 250

    def lr_factor(self, step: int) -> float:
        """Share of the peak learning rate at `step`: warm-up, plateau, linear decay to zero."""
        decay = min(1.0, 2 * (self.steps - step) / self.steps)
        return min(1.0, (step + 1) / self.warmup_steps) * decay


class WarmStart:
    """A model, its optimisers, and how far they have come."""

    def __init__(self, config: SftConfig, tokenizer: PreTrainedTokenizerFast) -> None:
        torch.manual_seed(config.seed)
        self.config = config
        self.model = build_model(config, tokenizer)
        matrices = [p for n, p in self.model.named_parameters() if _is_matrix(n, p)]
        others = [p for n, p in self.model.named_parameters() if not _is_matrix(n, p)]
        self.muon = torch.optim.Muon(
            matrices, lr=config.muon_lr, momentum=0.95, weight_decay=0.01
        )
        self.adamw = torch.optim.AdamW(
            others, lr=config.adamw_lr, betas=(0.9, 0.98), weight_decay=0.0
        )
        self.others = others
        self.step = 0
        self.chunk_start = 0
        self.seconds = 0.0

    def update(self, ids_BT: torch.Tensor, labels_BT: torch.Tensor) -> float:
        """One optimiser step; returns the mean loss in nats per predicted token."""
        factor = self.config.lr_factor(self.step)
        for optimizer, peak in ((self.muon, self.config.muon_lr), (self.adamw, self.config.adamw_lr)):
            for group in optimizer.param_groups:
                group["lr"] = peak * factor
        with torch.autocast("cpu", dtype=torch.bfloat16):
            hidden_BTH = self.model.model(input_ids=ids_BT, use_cache=False).last_hidden_state
            targets_BT = labels_BT[:, 1:]
            predicted_BT = targets_BT != IGNORED
            logits_NV = self.model.lm_head(hidden_BTH[:, :-1][predicted_BT])
        loss = cross_entropy(logits_NV.float(), targets_BT[predicted_BT])
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.others, 1.0)
        self.muon.step()
        self.adamw.step()
        self.model.zero_grad(set_to_none=True)
        self.step += 1
        return loss.item()

    def save(self, path: Path) -> None:
        """Writes the whole state, or leaves the older one as it was."""
        state = {
            "config": self.config,
            "model": self.model.state_dict(),
            "muon": self.muon.state_dict(),
            "adamw": self.adamw.state_dict(),
            "step": self.step,
            "chunk_start": self.chunk_start,
            "seconds": self.seconds,
        }
        unfinished = path.with_suffix(".part")
        torch.save(state, unfinished)
        os.replace(unfinished, path)

    def load(self, path: Path) -> None:
        """Takes up a saved state.

        Raises:
            ValueError: it was saved by a run of another configuration.
        """
        state = torch.load(path, weights_only=False)
        if state["config"] != self.config:
            raise ValueError(
                f"{path} was written with {state['config']}, not {self.config}; "
                "use the same settings to go on, or another --out to begin anew"
            )
        self.model.load_state_dict(state["model"])
        self.muon.load_state_dict(state["muon"])
        self.adamw.load_state_dict(state["adamw"])
        self.step, self.chunk_start = state["step"], state["chunk_start"]
        self.seconds = state["seconds"]


def build_model(config: SftConfig, tokenizer: PreTrainedTokenizerFast) -> Qwen3ForCausalLM:
    """A Qwen3 with random weights, float32."""
    return Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=VOCABULARY,
            hidden_size=config.hidden_size,
            intermediate_size=config.intermediate_size,
            num_hidden_layers=config.layers,
            num_attention_heads=config.heads,
            num_key_value_heads=config.kv_heads,
            head_dim=config.head_dim,
            max_position_embeddings=2048,
            tie_word_embeddings=True,
            rope_theta=10000.0,
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )


def _is_matrix(name: str, parameter: torch.nn.Parameter) -> bool:
    return parameter.ndim == 2 and "embed" not in name


def train(config: SftConfig, out: Path) -> float:
    """Trains, or goes on training, and writes model and tokenizer to `out` as float32.

    Returns:
        Wall time of the training steps in seconds, over all the sessions it took.
    """
    out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(config.threads)
    tokenizer = build_tokenizer(config.seed)
    run = WarmStart(config, tokenizer)
    checkpoint = out / "checkpoint.pt"
    if checkpoint.exists():
        run.load(checkpoint)
    drills = DrillSchedule(config.drills, config.drills_end, config.steps)
    batches = WarmStartBatches(
        tokenizer, drills, config.batch_tokens, config.seed, run.chunk_start, first=run.step
    )
    columns = ("{task.description}", BarColumn(), "{task.completed}/{task.total} steps")
    with Progress(
        *columns, TextColumn("loss {task.fields[loss]:.3f}"), TimeElapsedColumn(),
        TimeRemainingColumn(),
    ) as progress:
        bar = progress.add_task("warm start", total=config.steps, completed=run.step, loss=0.0)
        began, average = time.monotonic() - run.seconds, None
        for ids_BT, labels_BT, run.chunk_start in batches:
            if run.step >= config.steps:
                break
            loss = run.update(ids_BT, labels_BT)
            average = loss if average is None else 0.98 * average + 0.02 * loss
            progress.update(bar, completed=run.step, loss=average)
            if run.step % config.save_every == 0:
                run.seconds = time.monotonic() - began
                run.save(checkpoint)
                progress.console.print(f"step {run.step}: loss {average:.4f}, {run.seconds:.0f} s")
    export(run.model, tokenizer, out)
    return run.seconds


def export(model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast, out: Path) -> None:
    """Writes a folder that vLLM and transformers load, with the sampling it is served under."""
    model.generation_config = GenerationConfig(
        do_sample=True,
        temperature=TEMPERATURE,
        top_p=1.0,
        max_new_tokens=THINKING_TOKENS,
        answer_max_tokens=ANSWER_TOKENS,  # ours: the service's budget for an answer
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)
