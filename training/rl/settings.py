"""Settings of a training run, in TOML: one table per part, every name checked.

rlcm train rl --method rlcm --config configs/embedded.toml
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Self, TypeVar, get_args, get_origin, get_type_hints

from training.errors import TrainingRefused
from training.rl.rewards.methods import Method, method_named

Table = TypeVar("Table")


@dataclass(frozen=True, slots=True)
class DataSettings:
    """Where problems come from.

    Attributes:
        source: `embedded` (generated, split TRAIN), a benchmark's name such as `grpo-lead`, the
            path of a JSONL, JSON, CSV or Parquet file, or a data set's id on the Hugging Face hub.
        columns: names of the columns for `problem`, `answer` and `id`, if they differ.
        split, config: of a data set on the hub.
        prompt: template of the user's message; `{problem}` stands for the problem's text.
        confidence_request: added to the problem if the method makes the model state its confidence.
        limit: maximum number of problems; for `embedded`, the number generated.
    """

    source: str = "embedded"
    columns: Mapping[str, str] = field(default_factory=dict)
    split: str = "train"
    config: str | None = None
    prompt: str = "{problem}"
    confidence_request: str = " Say how confident you are."
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class RolloutSettings:
    """The rollouts of a step: `prompts` groups of `per_prompt` rollouts each."""

    prompts: int = 32
    per_prompt: int = 6
    temperature: float = 0.8
    top_p: float = 1.0
    max_tokens: int = 8192


@dataclass(frozen=True, slots=True)
class BudgetSettings:
    """The budgets at which rollouts are cut, and the forced answers there (RLCM §3.2).

    Attributes:
        interval: N, tokens from one budget to the next.
        samples: K, forced answers at each budget.
        answer_tokens: maximum length of a forced answer, in tokens.
        thinking: name of the thinking format; None: as the model's files and prompts say.
    """

    interval: int = 500
    samples: int = 4
    answer_tokens: int = 32
    thinking: str | None = None


@dataclass(frozen=True, slots=True)
class PolicySettings:
    """Settings of the policy's AdamW, and of the passes of a step.

    Attributes:
        learning_rate: peak learning rate.
        schedule: of the learning rate, as transformers names it.
        warmup_steps: steps until the peak.
        max_grad_norm: gradients are clipped to this norm.
        clip: ε of the probability ratio (RLCM §2.1).
        micro_batch: rollouts in one forward and backward pass of one device.
        gradient_checkpointing: saves memory and costs time.
        bf16: compute in bfloat16 on a GPU. Weights stay float32 during training: bfloat16 is too
            coarse for an update of 1e-6.
    """

    learning_rate: float = 1e-6
    schedule: str = "constant"
    warmup_steps: int = 0
    max_grad_norm: float = 1.0
    clip: float = 0.2
    micro_batch: int = 4
    gradient_checkpointing: bool = True
    bf16: bool = True


@dataclass(frozen=True, slots=True)
class VllmSettings:
    """The engine that samples.

    Attributes:
        mode: `colocate` (in the trainer's processes), or `server` (`trl vllm-serve`).
        server: address of the server, for mode `server`.
        memory: share of a GPU's memory; on a CPU, `VLLM_CPU_KVCACHE_SPACE` sets the amount.
        tensor_parallel: GPUs of one colocated engine.
        sleeps: free a colocated engine's memory while the policy is updated.
        arguments: further arguments of `vllm.LLM`, for a colocated engine.
    """

    mode: str = "colocate"
    server: str = "http://127.0.0.1:8000"
    memory: float = 0.3
    tensor_parallel: int = 1
    sleeps: bool = False
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LoraSettings:
    """Trains low-rank adapters instead of all weights; they are merged at the end."""

    rank: int = 16
    alpha: int = 32
    dropout: float = 0.0
    targets: str = "all-linear"


@dataclass(frozen=True, slots=True)
class ProbeSettings:
    """Settings of the probe and of its AdamW optimizer.

    Attributes:
        width: hidden units.
        learning_rate, weight_decay: constant over the run.
        updates: the probe's optimizer steps for each step of the policy, all on its batch.
        always: train a probe even if no reward reads it.
    """

    width: int = 256
    learning_rate: float = 1e-3
    weight_decay: float = 0.05
    updates: int = 1
    always: bool = False


@dataclass(frozen=True, slots=True)
class RunSettings:
    """A whole training run.

    Attributes:
        model: `embedded`, a folder, or a hub id.
        method: name of the method, one of `METHODS`.
        strength: λ; None selects the method's default.
        steps: optimizer steps of the policy.
        seed: of prompts, rollouts and the probe.
        save_steps: steps between checkpoints; a killed run loses at most these.
        report_to: where curves are logged beside the terminal: `tensorboard`, `wandb`.
        data, rollouts, budgets, probe, policy, engine, lora: settings of these parts.
        trainer: further fields of TRL's `GRPOConfig`.
    """

    model: str = "embedded-sft"
    method: str = "rlcm"
    strength: float | None = None
    steps: int = 600
    seed: int = 0
    save_steps: int = 25
    report_to: tuple[str, ...] = ()
    data: DataSettings = field(default_factory=DataSettings)
    rollouts: RolloutSettings = field(default_factory=RolloutSettings)
    budgets: BudgetSettings = field(default_factory=BudgetSettings)
    probe: ProbeSettings = field(default_factory=ProbeSettings)
    policy: PolicySettings = field(default_factory=PolicySettings)
    engine: VllmSettings = field(default_factory=VllmSettings)
    lora: LoraSettings | None = None
    trainer: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path, **changes: Any) -> Self:
        """Reads a file; `changes` that are not None override it.

        Raises:
            TrainingRefused: the file is missing or malformed, or a name in it does not exist.
        """
        try:
            table = tomllib.loads(path.read_text())
        except FileNotFoundError as error:
            raise TrainingRefused(f"there is no file {path}: give an existing one") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise TrainingRefused(f"{path} is not valid TOML: {error}") from error
        settings = read_table(cls, table, str(path))
        given = {name: value for name, value in changes.items() if value is not None}
        return replace(settings, **given).checked()

    @property
    def chosen(self) -> Method:
        """The method."""
        return method_named(self.method)

    @property
    def weight(self) -> float:
        """λ."""
        return self.chosen.strength if self.strength is None else self.strength

    @property
    def forces(self) -> bool:
        """Whether answers are forced, which only the training of a probe needs."""
        return self.probe.always or self.chosen.needs_probe(self.weight)

    def checked(self) -> Self:
        """These settings, if they are valid.

        Raises:
            TrainingRefused: a setting is invalid. The message names it and says what to change.
        """
        _require(self.weight >= 0, f"strength is {self.weight}: λ has to be 0 or more")
        _require(self.rollouts.per_prompt > 1, "per_prompt is 1: a group has to have 2 or more")
        _require("{problem}" in self.data.prompt, "prompt in [data] does not name {problem}")
        _require(
            self.engine.mode in ("colocate", "server"),
            f"mode in [engine] is {self.engine.mode!r}: give 'colocate' or 'server'",
        )
        for part, name in _COUNTS:
            value = getattr(getattr(self, part) if part else self, name)
            where = f"in [{part}]" if part else ""
            _require(value >= 1, f"{name} {where} is {value}: give 1 or more")
        if self.forces:
            _require(
                self.budgets.samples >= 1,
                f"samples in [budgets] is {self.budgets.samples}: with no forced answers (K) there "
                "is no Y_b for the probe to learn; give 1 or more (the paper has 4)",
            )
            _require(
                self.budgets.interval <= self.rollouts.max_tokens,
                f"interval in [budgets] is {self.budgets.interval} tokens and a rollout has at "
                f"most {self.rollouts.max_tokens}: no rollout could have a budget; lower interval",
            )
        return self

    def to_json(self) -> dict[str, Any]:
        """All settings, for the model card and for resuming."""
        return asdict(self)


_COUNTS = (
    ("", "steps"),
    ("", "save_steps"),
    ("rollouts", "prompts"),
    ("rollouts", "max_tokens"),
    ("budgets", "interval"),
    ("budgets", "answer_tokens"),
    ("policy", "micro_batch"),
    ("probe", "width"),
    ("probe", "updates"),
)


def read_table(cls: type[Table], table: Mapping[str, Any], where: str) -> Table:
    """A dataclass from a TOML table; missing fields keep their defaults.

    Raises:
        TrainingRefused: a name is unknown, or a value has the wrong type.
    """
    hints = get_type_hints(cls)
    known = [each.name for each in fields(cls)]  # type: ignore[arg-type]  # dataclasses only
    for name in table:
        _require(name in known, f"{where}: there is no setting {name!r}, only {', '.join(known)}")
    return cls(**{name: _value(hints[name], table[name], f"{where}: {name}") for name in table})


def _value(hint: Any, value: Any, where: str) -> Any:
    kinds = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    for kind in kinds:
        plain = get_origin(kind) or kind
        if is_dataclass(kind) and isinstance(value, Mapping):
            return read_table(kind, value, where)  # type: ignore[arg-type]  # a class, as hints are
        if plain is tuple and isinstance(value, list):
            return tuple(value)
        if plain is float and isinstance(value, int) and not isinstance(value, bool):
            return float(value)
        if plain not in (tuple, NoneType) and isinstance(value, plain):
            if isinstance(value, bool) and plain is not bool:
                continue
            return value
    names = " or ".join(getattr(kind, "__name__", str(kind)) for kind in kinds)
    raise TrainingRefused(f"{where} is {value!r}: give a value of type {names}")


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise TrainingRefused(message)
