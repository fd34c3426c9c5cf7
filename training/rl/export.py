"""The folder for `rlcm serve --model`: model, tokenizer, probe, and the record of the training."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file

from calibration.files import write_text
from calibration.traces.probe_readings import (
    POLICY_FILE,
    READINGS_FILE,
    SeenProblems,
    read_seen_problems,
    write_seen_problems,
)
from rlcm_serve.engine.model_files import (
    TOKENIZER_FILES,
    ModelFiles,
    digest_files,
    is_on_hub,
)
from rlcm_serve.engine.worker.probe import PROBE_FOLDER, Probe
from rlcm_serve.familiarity.familiarity import FAMILIARITY_FOLDER
from rlcm_serve.recording.trained import seen_problems
from training.json_values import finite_or_null
from training.provenance import Session
from training.rl.arguments import FINAL
from training.rl.card import model_card
from training.rl.folder import FACTS
from training.rl.problems import TrainingProblems
from training.rl.progress import EVALUATED
from training.rl.settings import RunSettings
from training.rl.trainer.colocated import stored_dtype
from training.rl.trainer.trainer import RLCMTrainer

_TEMPLATE = "chat_template*"


@dataclass(frozen=True, slots=True)
class TrainingRecord:
    """How a policy was trained. It is stored with the policy.

    Attributes:
        settings: of the run.
        problems: the training problems.
        chosen_on: the held-out problems that the checkpoint was chosen on; None: it is the last.
        base: the model that training started from.
        log: TRL's log: an entry for each step, and one for each evaluation.
        has_probe: whether a probe that the service can read was trained beside it.
        session: the last one.
    """

    settings: RunSettings
    problems: TrainingProblems
    chosen_on: TrainingProblems | None
    base: ModelFiles
    log: list[dict[str, Any]]
    has_probe: bool
    session: Session

    @property
    def seen(self) -> SeenProblems:
        """The problems whose labels made this policy what it is."""
        chosen_on = () if self.chosen_on is None else self.chosen_on.problems
        return seen_problems((*self.problems.problems, *chosen_on))

    @property
    def curves(self) -> list[dict[str, Any]]:
        """The entries of the steps."""
        return [entry for entry in self.log if "reward" in entry]

    @property
    def seconds(self) -> float:
        """Training time of all steps and sessions, in seconds."""
        return sum(float(entry.get("step_time") or 0.0) for entry in self.curves)

    def facts(self) -> dict[str, Any]:
        """The content of `training.json`."""
        return {
            "command": self.session.command,
            "commit": self.session.commit,
            "settings": self.settings.to_json(),
            "base": {
                "name": self.settings.model,
                "digest": self.base.model_digest(),
                "is_on_hub": is_on_hub(self.settings.model),
            },
            "data": {
                "source": self.problems.source,
                "problems": len(self.problems.problems),
                "digest": self.problems.digest,
            },
            "versions": self.session.versions,
            "has_probe": self.has_probe,
            "seconds": round(self.seconds, 1),
            "curves": finite_or_null(self.curves),
            "evaluations": finite_or_null([entry for entry in self.log if EVALUATED in entry]),
        }


def export(trainer: RLCMTrainer, record: TrainingRecord, out: Path) -> None:
    """Writes the folder at the end of a training. Every rank must call this function."""
    weights = out / FINAL
    trainer.save_model(str(weights))
    if not trainer.accelerator.is_main_process:
        return
    own = trainer.probe if record.has_probe else None
    write_policy(weights, None if own is None else own.as_probe(), record, out)
    shutil.rmtree(weights)


def write_policy(weights: Path, probe: Probe | None, record: TrainingRecord, out: Path) -> None:
    """Writes the folder from saved weights, or from adapters. Both are changed in place.

    The tokenizer's files are copied from the base model, so that both tokenize the same way.
    `training.json` says that the folder is complete: it is absent until everything else is there.
    A probe or a familiarity reading that was made for other weights, before a run was extended, is
    put aside as `NAME.former`: the service would take it for one of these weights.
    """
    out.mkdir(parents=True, exist_ok=True)
    if record.settings.lora is not None:
        _merge(record.base.folder, weights)
    _as_stored(weights, record.base)
    # A folder without facts was left half written: nobody knows what its probe was made for.
    before = _digest_weights(out) if (out / FACTS).exists() else None
    (out / FACTS).unlink(missing_ok=True)  # of a run that was extended
    if before != _digest_weights(weights):
        for name in (PROBE_FOLDER, FAMILIARITY_FOLDER):
            _put_aside(out / name)
    for path in (*weights.glob("*.safetensors*"), weights / "config.json"):
        shutil.copy(path, out / path.name)
    for pattern in (*TOKENIZER_FILES, _TEMPLATE, "generation_config.json"):
        for path in record.base.folder.glob(pattern):
            shutil.copy(path, out / path.name)
    _name_the_format(out / "generation_config.json", record.settings.budgets.thinking)
    earlier = read_seen_problems(record.base.folder / POLICY_FILE)
    write_seen_problems(out / POLICY_FILE, earlier.with_later(record.seen))
    if probe is not None:
        probe.save(out / PROBE_FOLDER, record.settings.budgets.interval)
        write_seen_problems(out / PROBE_FOLDER / READINGS_FILE, record.seen)
    facts = record.facts()
    (out / "README.md").write_text(model_card(facts))
    for path in out.glob("*.*"):
        if path.is_file():
            path.chmod(0o644)  # the service may run as a different user
    write_text(out / FACTS, json.dumps(facts, indent=1, default=list, allow_nan=False) + "\n")
    (out / FACTS).chmod(0o644)


def _digest_weights(folder: Path) -> str:
    return digest_files(folder.glob("*.safetensors"), folder)


def _put_aside(folder: Path) -> None:
    former = folder.with_name(f"{folder.name}.former")
    if folder.exists():
        if former.exists():
            shutil.rmtree(former)
        folder.rename(former)


def _name_the_format(path: Path, thinking: str | None) -> None:
    """Stores the thinking format for the service, if the run names one."""
    if thinking is not None:
        settings = json.loads(path.read_text()) if path.exists() else {}
        path.write_text(json.dumps({**settings, "thinking": thinking}, indent=2) + "\n")


def _merge(base: Path, adapter: Path) -> None:
    """Merges an adapter into its base model, in place."""
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    PeftModel.from_pretrained(model, adapter).merge_and_unload().save_pretrained(adapter)
    (adapter / "adapter_model.safetensors").unlink()


def _as_stored(folder: Path, base: ModelFiles) -> None:
    """Restores the base model's data type and cache setting; training uses float32, no cache."""
    dtype = stored_dtype(base)
    name = str(dtype).removeprefix("torch.")
    if dtype is not torch.float32:
        for path in folder.glob("*.safetensors"):
            with safe_open(path, "pt") as stored:
                tensors = {key: stored.get_tensor(key).to(dtype) for key in stored.keys()}  # noqa: SIM118  # no mapping
            save_file(tensors, path, metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    config |= {"dtype": name, "use_cache": base.config.get("use_cache", True)}
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
