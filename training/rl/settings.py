"""Settings of a training run, in TOML: one table per part, every name checked.

rlcm train rl --method rlcm --config configs/embedded.toml
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from math import inf
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from training.rl.rewards.methods import Method, method_named
from training.rl.tables import read_file, read_table, require, require_seed


@dataclass(frozen=True, slots=True)
class DataSettings:
    """Where problems come from.

    Attributes:
        source: `embedded` (generated, split TRAIN), a benchmark's name such as `grpo-lead`, the
            path of a JSONL, JSON, CSV or Parquet file, or a data set's id on the Hugging Face hub.
        columns: names of the columns for `problem`, `answer` and `id`, if they differ.
        split, config: of a data set on the hub, also of a benchmark's.
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
        interval: N, tokens from one budget to the next, and from one of the service's readings of
            the trained probe to the next.
        fractions: of each rollout's own reasoning, as budgets instead of every `interval` tokens.
            No service could know them in advance: it reads the probe every `interval` tokens.
        samples: K, forced answers at each budget.
        answer_tokens: maximum length of a forced answer, in tokens.
        at_once: most forced answers in one request to the engine.
        thinking: name of the thinking format; None: as the model's files and prompts say.
    """

    interval: int = 500
    fractions: tuple[float, ...] = ()
    samples: int = 4
    answer_tokens: int = 32
    at_once: int = 2048
    thinking: str | None = None


@dataclass(frozen=True, slots=True)
class PolicySettings:
    """Settings of the policy's AdamW, and of the passes of a step.

    Attributes:
        learning_rate: peak learning rate.
        schedule: of the learning rate, as transformers names it. `constant` has no warm-up;
            `constant_with_warmup` has.
        warmup_steps: steps until the peak.
        max_grad_norm: gradients are clipped to this norm.
        loss: `grpo`, the mean over a rollout's tokens, then over rollouts; or `dapo`, the mean over
            all tokens of a step.
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
    loss: str = "grpo"
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

    def sharing(self, ranks: int) -> int:
        """How many of the training processes share one engine."""
        return ranks if self.mode == "server" else self.tensor_parallel


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
        width: hidden units; None: a quarter of the length of the model's states.
        activation: `gelu`, which the service has, or `relu`.
        states: how many of the last states before a cut are averaged; the service reads one.
        is_standardised: whether states are standardised by those of the first step.
        learns_first: whether the probe learns from a step's rollouts before rewards read it there.
        updates: the probe's passes over the cuts of each step.
        minibatch: about how many cuts there are in one of its optimizer steps; None: all.
        learning_rate, weight_decay: constant over the run.
        dropout: of the hidden units, while it learns.
        always: train a probe even if no reward reads it.
    """

    width: int | None = 256
    activation: str = "gelu"
    states: int = 1
    is_standardised: bool = True
    learns_first: bool = False
    updates: int = 1
    minibatch: int | None = None
    learning_rate: float = 1e-3
    weight_decay: float = 0.05
    dropout: float = 0.0
    always: bool = False

    @property
    def is_servable(self) -> bool:
        """Whether the service can read the trained probe."""
        return self.states == 1 and self.activation == "gelu"


@dataclass(frozen=True, slots=True)
class EvaluationSettings:
    """Evaluation on held-out problems while the policy trains.

    The checkpoint with the highest accuracy is kept beside the last one.

    Attributes:
        source: of the problems, as in `[data]`, whose prompt they share. Those of a file also share
            the request of the benchmark that `[data]` names.
        limit: maximum number of problems.
        every: steps between two evaluations, a multiple of `save_steps`.
        rollouts: of each problem.
        temperature: of their sampling.
        columns: as in `[data]`; None: those of `[data]`, or the benchmark's own if `source` names
            a benchmark.
        split, config: of a data set on the hub; None: those of `[data]`, or the benchmark's own if
            `source` names one.
    """

    source: str
    limit: int = 64
    every: int = 20
    rollouts: int = 4
    temperature: float = 0.6
    columns: Mapping[str, str] | None = None
    split: str | None = None
    config: str | None = None


@dataclass(frozen=True, slots=True)
class RunSettings:
    """A whole training run.

    Attributes:
        model: `embedded`, a folder, or a hub id.
        method: name of the method, one of `METHODS`.
        strength: λ; None selects the method's default.
        steps: optimizer steps of the policy.
        seed: of prompts, a colocated engine's rollouts, the probe and adapters; 0 or more, below
            2^32. A server has a seed of its own.
        save_steps: steps between checkpoints; a killed run loses at most these.
        report_to: where curves are logged beside the terminal: `tensorboard`, `wandb`, or another
            reporter of transformers (with veRL, one of veRL's), whose package is installed.
        data, rollouts, budgets, probe, policy, engine, lora, evaluation: settings of these parts.
        trainer: further fields of TRL's `GRPOConfig`.
    """

    model: str = "embedded-sft"
    method: str = "rlcm"
    strength: float | None = None
    steps: int = 600
    seed: int = 0
    save_steps: int = 20
    report_to: tuple[str, ...] = ()
    data: DataSettings = field(default_factory=DataSettings)
    rollouts: RolloutSettings = field(default_factory=RolloutSettings)
    budgets: BudgetSettings = field(default_factory=BudgetSettings)
    probe: ProbeSettings = field(default_factory=ProbeSettings)
    policy: PolicySettings = field(default_factory=PolicySettings)
    engine: VllmSettings = field(default_factory=VllmSettings)
    lora: LoraSettings | None = None
    evaluation: EvaluationSettings | None = None
    trainer: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path, **changes: Any) -> Self:
        """Reads a file; `changes` that are not None override it.

        Raises:
            TrainingRefused: the file is missing or malformed, or a name in it does not exist.
        """
        settings = read_table(cls, read_file(path), str(path))
        given = {name: value for name, value in changes.items() if value is not None}
        return replace(settings, **given).completed().checked()

    @classmethod
    def from_json(cls, table: Mapping[str, Any], where: str) -> Self:
        """The settings that `to_json` returned, after a way through JSON.

        Raises:
            TrainingRefused: a name is unknown, or a value has the wrong type.
        """
        return read_table(cls, table, where)

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

    def completed(self) -> Self:
        """These settings with those that the method brings."""
        tables = self.chosen.brings
        changed = {name: replace(getattr(self, name), **own) for name, own in tables.items()}
        return replace(self, **changed)

    def checked(self) -> Self:
        """These settings, if they are valid.

        Raises:
            TrainingRefused: a setting is invalid. The message names it and says what to change.
        """
        require(0 <= self.weight < inf, f"strength is {self.weight}: λ has to be 0 or more")
        require(
            self.strength is None or self.chosen.uses_strength,
            f"strength is {self.strength}, but {self.method} has no term that it weighs: leave it "
            "out, or choose another method",
        )
        require_seed(self.seed)
        require(
            self.rollouts.per_prompt > 1,
            f"per_prompt is {self.rollouts.per_prompt}: a group has to have 2 or more",
        )
        require(bool(self.model), "model is '': give 'embedded', a folder or a hub id")
        require("{problem}" in self.data.prompt, "prompt in [data] does not name {problem}")
        require(
            self.engine.mode in ("colocate", "server"),
            f"mode in [engine] is {self.engine.mode!r}: give 'colocate' or 'server'",
        )
        require(
            self.engine.mode != "server" or _is_address(self.engine.server),
            f"server in [engine] is {self.engine.server!r}: give an address such as "
            f"{VllmSettings().server!r}",
        )
        require(
            self.policy.loss in ("grpo", "dapo"),
            f"loss in [policy] is {self.policy.loss!r}: give 'grpo' or 'dapo'",
        )
        require(
            not (self.policy.warmup_steps and self.policy.schedule == "constant"),
            f"warmup_steps in [policy] is {self.policy.warmup_steps}, and the schedule 'constant' "
            "has no warm-up: give schedule = 'constant_with_warmup'",
        )
        for part, names in _COUNTS.items():
            self._check_all(part, names, lambda value: value >= 1, "1 or more")
        for part, names in _POSITIVE.items():
            self._check_all(part, names, lambda value: value > 0, "more than 0")
        for part, names in _NOT_NEGATIVE.items():
            self._check_all(part, names, lambda value: value >= 0, "0 or more")
        for part, names in _SHARES.items():
            self._check_all(part, names, lambda value: 0 < value <= 1, "more than 0 and at most 1")
        for part in ("probe", "lora"):
            wanted = "0 or more, and less than 1"
            self._check_all(part, ("dropout",), lambda value: 0 <= value < 1, wanted)
        self._check_probe()
        self._check_evaluation()
        if self.forces:
            require(
                self.budgets.samples >= 1,
                f"samples in [budgets] is {self.budgets.samples}: with no forced answers (K) there "
                "is no Y_b for the probe to learn; give 1 or more (the paper has 4)",
            )
            is_interval_used = self.probe.is_servable or not self.budgets.fractions
            require(
                not is_interval_used or self.budgets.interval <= self.rollouts.max_tokens,
                f"interval in [budgets] is {self.budgets.interval} tokens and a rollout has at "
                f"most {self.rollouts.max_tokens}: neither budgets nor the service's readings can "
                "be so far apart; lower interval",
            )
        return self

    def _check_all(
        self, part: str, names: tuple[str, ...], holds: Callable[[Any], bool], wanted: str
    ) -> None:
        """Checks settings of a part, "" for the run's own; a part or a value of None passes."""
        table = getattr(self, part) if part else self
        for name in names if table is not None else ():
            value = getattr(table, name)
            where = f"{name} in [{part}]" if part else name
            require(value is None or holds(value), f"{where} is {value}: give {wanted}")

    def _check_evaluation(self) -> None:
        """Raises `TrainingRefused` unless every evaluation has its checkpoint."""
        if self.evaluation is not None:
            every = self.evaluation.every
            require(
                every <= self.steps,
                f"[evaluation] has every = {every}, and the run {self.steps} steps, so none would "
                "be made: lower it, or leave the table out",
            )
            require(
                every % self.save_steps == 0,
                f"save_steps is {self.save_steps}, and [evaluation] has every = {every}: give "
                "save_steps that divide it, so that every evaluation has its checkpoint",
            )

    def _check_probe(self) -> None:
        """Raises `TrainingRefused` unless budgets and probe are possible."""
        fractions, longest = self.budgets.fractions, self.rollouts.max_tokens
        require(
            all(0 < own < 1 and own * longest >= 1 for own in fractions),
            f"fractions in [budgets] are {fractions}: give numbers between 0 and 1 that are at "
            f"least one of the {longest} tokens of a rollout (max_tokens)",
        )
        require(
            self.probe.activation in ("gelu", "relu"),
            f"activation in [probe] is {self.probe.activation!r}: give 'gelu' or 'relu'",
        )

    def to_json(self) -> dict[str, Any]:
        """All settings, for the model card and for resuming."""
        return asdict(self)


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        is_complete = parts.scheme in ("http", "https") and bool(parts.hostname)
        return is_complete and parts.port != 0
    except ValueError:  # also of a port that is none
        return False


_COUNTS = {
    "": ("steps", "save_steps"),
    "data": ("limit",),
    "rollouts": ("prompts", "max_tokens"),
    "budgets": ("interval", "answer_tokens", "at_once"),
    "policy": ("micro_batch",),
    "probe": ("width", "updates", "states", "minibatch"),
    "engine": ("tensor_parallel",),
    "lora": ("rank", "alpha"),
    "evaluation": ("limit", "every", "rollouts"),
}
_POSITIVE = {
    "rollouts": ("temperature",),
    "policy": ("learning_rate", "max_grad_norm"),
    "probe": ("learning_rate",),
    "evaluation": ("temperature",),
}
_NOT_NEGATIVE = {"policy": ("warmup_steps",), "probe": ("weight_decay",)}
_SHARES = {"rollouts": ("top_p",), "policy": ("clip",), "engine": ("memory",)}
