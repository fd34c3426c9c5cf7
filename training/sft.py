"""Warm start: trains the embedded reasoner from scratch on generated reasoning.

The model has the Qwen3 architecture and 1.3 M parameters. Muon trains the matrices, AdamW the rest.
The learning rate warms up, stays constant, and falls linearly over the second half. A stopped run
continues from its last checkpoint, with the batches that an uninterrupted run would see.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from pickle import UnpicklingError
from typing import NamedTuple, Self

import torch
from rich.console import Console
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy
from transformers import GenerationConfig, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from rlcm_serve.terminal import progress_bar
from training.errors import TrainingRefused
from training.folders import alone, require_no_other_model, require_writable
from training.rl.tables import require, require_seed
from training.sft_data import IGNORED, Batch, DrillSchedule, WarmStartBatches
from training.tasks.tokenizer import build_tokenizer

TEMPERATURE = 0.8
THINKING_TOKENS = 960
ANSWER_TOKENS = 32
VOCABULARY = 512  # the tokenizer's ids, and a few unused ids that the exit control needs

_HAS_BFLOAT16 = torch.ops.mkldnn._is_mkldnn_bf16_supported()
"""Whether the processor computes in bfloat16 itself; elsewhere float32 is nine times as fast."""
CHECKPOINT = "checkpoint.pt"
_STATEFUL = ("model", "confidence_head", "muon", "adamw")
_PROGRESS = ("step", "chunk_start", "seconds")
"""Attributes of a `WarmStart` that a checkpoint keeps."""


_COUNTS = (
    *("steps", "batch_tokens", "hidden_size", "intermediate_size", "layers", "heads", "kv_heads"),
    *("head_dim", "warmup_steps", "threads", "save_every"),
)
_NOT_NEGATIVE = ("confidence_steps", "confidence_weight", "confidence_lr", "muon_lr", "adamw_lr")
"""Names of settings, by what they may be."""


@dataclass(frozen=True, slots=True)
class SftConfig:
    """One warm start. `batch_tokens` counts padding; learning rates are the peaks.

    `thinking` says whether the model marks its thinking with `<think>` and `</think>`.
    """

    steps: int = 9000
    confidence_steps: int = 1500
    confidence_weight: float = 0.1
    confidence_lr: float = 0.3  # share of the peak
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
    thinking: bool = True
    seed: int = 0
    threads: int = field(default=1, compare=False)  # more threads change the order of summation
    save_every: int = field(default=250, compare=False)

    @property
    def all_steps(self) -> int:
        """Both phases."""
        return self.steps + self.confidence_steps

    def checked(self) -> Self:
        """These settings, if a model can be built and trained with them.

        Raises:
            TrainingRefused: one is out of range; the message names it.
        """
        for name in _COUNTS:
            require(getattr(self, name) >= 1, f"{name} is {getattr(self, name)}: give 1 or more")
        for name in _NOT_NEGATIVE:
            value = getattr(self, name)
            require(0 <= value < inf, f"{name} is {value}: give 0 or more")
        for name in ("drills", "drills_end"):
            value = getattr(self, name)
            require(0 <= value <= 1, f"{name} is {value}: give a share from 0 to 1")
        require(
            self.heads % self.kv_heads == 0,
            f"heads is {self.heads} and kv_heads {self.kv_heads}: give a multiple of kv_heads",
        )
        require_seed(self.seed)
        require(self.head_dim % 2 == 0, f"head_dim is {self.head_dim}: give an even number")
        return self

    def lr_factor(self, step: int) -> float:
        """Share of the peak learning rate: warm-up, plateau, decay; then a lower decay."""
        if step >= self.steps:
            return self.confidence_lr * (self.all_steps - step) / self.confidence_steps
        decay = min(1.0, 2 * (self.steps - step) / self.steps)
        return min(1.0, (step + 1) / self.warmup_steps) * decay


class Losses(NamedTuple):
    """Losses of a step, or averaged: nats per predicted token, nats per token of reasoning."""

    language: float
    confidence: float

    def towards(self, new: Self) -> Losses:
        """The running average after a further step."""
        return Losses(*(0.98 * old + 0.02 * own for old, own in zip(self, new, strict=True)))

    def __str__(self) -> str:
        return f"loss {self.language:.4f}, of confidence {self.confidence:.4f}"


class WarmStart:
    """A model with its optimizers and its progress."""

    def __init__(self, config: SftConfig, tokenizer: PreTrainedTokenizerFast) -> None:
        torch.manual_seed(config.seed)
        self.config = config
        self.model = build_model(config, tokenizer)
        matrices = [p for n, p in self.model.named_parameters() if _is_matrix(n, p)]
        others = [p for n, p in self.model.named_parameters() if not _is_matrix(n, p)]
        self.confidence_head = torch.nn.Linear(config.hidden_size, 1)
        torch.nn.init.zeros_(self.confidence_head.weight)
        self.muon = torch.optim.Muon(matrices, lr=config.muon_lr, momentum=0.95, weight_decay=0.01)
        self.adamw = torch.optim.AdamW(
            [*others, *self.confidence_head.parameters()],
            lr=config.adamw_lr,
            betas=(0.9, 0.98),
            weight_decay=0.0,
        )
        self.others = others
        self.step = 0
        self.chunk_start = 0
        self.seconds = 0.0

    def update(self, batch: Batch) -> Losses:
        """One optimizer step. The confidence loss is part of the second phase only."""
        factor = self.config.lr_factor(self.step)
        for optimizer, peak in (
            (self.muon, self.config.muon_lr),
            (self.adamw, self.config.adamw_lr),
        ):
            for group in optimizer.param_groups:
                group["lr"] = peak * factor
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=_HAS_BFLOAT16):
            hidden_BTH = self.model.model(input_ids=batch.ids_BT, use_cache=False).last_hidden_state
            targets_BT = batch.labels_BT[:, 1:]
            predicted_BT = targets_BT != IGNORED
            logits_NV = self.model.lm_head(hidden_BTH[:, :-1][predicted_BT])
        loss = cross_entropy(logits_NV.float(), targets_BT[predicted_BT])
        confidence_loss = torch.zeros(())
        if self.step >= self.config.steps and (batch.right_BT != IGNORED).any():
            confidence_loss = self._confidence_loss(hidden_BTH, batch)
        total = loss + self.config.confidence_weight * confidence_loss
        total.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.others, 1.0)
        self.muon.step()  # type: ignore[no-untyped-call]
        self.adamw.step()
        self.model.zero_grad(set_to_none=True)
        self.confidence_head.zero_grad(set_to_none=True)
        self.step += 1
        return Losses(loss.item(), confidence_loss.item())

    def _confidence_loss(self, hidden_BTH: torch.Tensor, batch: Batch) -> torch.Tensor:
        """Binary cross-entropy, in nats: is the candidate answer at each token right?"""
        known_BT = batch.right_BT != IGNORED
        logits_N = self.confidence_head(hidden_BTH[known_BT].float())[:, 0]
        return binary_cross_entropy_with_logits(logits_N, batch.right_BT[known_BT].float())

    def save(self, path: Path) -> None:
        """Writes the whole state. If writing fails, the older file stays intact."""
        state = {name: getattr(self, name) for name in ("config", *_PROGRESS)}
        state |= {name: getattr(self, name).state_dict() for name in _STATEFUL}
        unfinished = path.with_suffix(".part")
        torch.save(state, unfinished)
        unfinished.replace(path)

    def load(self, path: Path) -> None:
        """Loads a saved state.

        Raises:
            TrainingRefused: the file is damaged, or belongs to a run with another configuration.
        """
        try:
            state = torch.load(path, weights_only=False)
            config = state["config"]
        except (OSError, RuntimeError, UnpicklingError, EOFError, KeyError, TypeError) as error:
            raise TrainingRefused(
                f"{path} is damaged ({error}): delete it to start again"
            ) from error
        if config != self.config:
            raise TrainingRefused(
                f"{path} was written with {config}, not {self.config}; "
                "use the same settings to continue, or another --out to start again"
            )
        for name in _STATEFUL:
            getattr(self, name).load_state_dict(state[name])
        for name in _PROGRESS:
            setattr(self, name, state[name])


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
    """Trains, or continues an earlier run, and writes model and tokenizer to `out` as float32.

    Returns:
        Wall time of the training steps in seconds, summed over all sessions.

    Raises:
        TrainingRefused: a setting is out of range, or `out` cannot be written, holds another model
            or a damaged checkpoint, or another process trains there.
    """
    config.checked()
    require_writable(out)
    require_no_other_model(out, CHECKPOINT)
    with alone(out):
        return _train(config, out)


def _train(config: SftConfig, out: Path) -> float:
    torch.set_num_threads(config.threads)
    tokenizer = build_tokenizer(config.seed, config.thinking)
    run = WarmStart(config, tokenizer)
    checkpoint = out / CHECKPOINT
    if checkpoint.exists():
        run.load(checkpoint)
    drills = DrillSchedule(config.drills, config.drills_end, config.steps)
    batches = WarmStartBatches(
        tokenizer,
        drills,
        config.batch_tokens,
        config.seed,
        run.chunk_start,
        first=run.step,
        thinking=config.thinking,
    )
    with progress_bar(Console()) as progress:
        bar = progress.add_task("warm start", total=config.all_steps, completed=run.step)
        began = time.monotonic() - run.seconds
        average: Losses | None = None
        for batch in batches:
            if run.step >= config.all_steps:
                break
            run.chunk_start = batch.chunk_start
            losses = run.update(batch)
            average = losses if average is None else average.towards(losses)
            loss = f"warm start, loss {average.language:.3f}"
            progress.update(bar, completed=run.step, description=loss)
            if run.step % config.save_every == 0:
                run.seconds = time.monotonic() - began
                run.save(checkpoint)
                progress.console.print(f"step {run.step}: {average}, {run.seconds:.0f} s")
        run.seconds = time.monotonic() - began
    export(run.model, tokenizer, out)
    return run.seconds


def export(model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast, out: Path) -> None:
    """Writes a folder that vLLM and transformers load, with the service's sampling defaults."""
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
    for weights in out.glob("*.safetensors"):
        weights.chmod(0o644)  # the service may run as a different user
    tokenizer.save_pretrained(out)
