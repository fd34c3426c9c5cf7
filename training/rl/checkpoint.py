"""`rlcm train export`: the folder for the service from a checkpoint of a run."""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from rlcm_serve.engine.model_files import ModelFiles, resolve_model
from rlcm_serve.engine.worker.probe import Probe
from rlcm_serve.evaluation.grading import grader_named
from training.errors import TrainingRefused
from training.folders import require_writable
from training.rl.arguments import CHECKPOINTS
from training.rl.export import TrainingRecord, write_policy
from training.rl.folder import (
    check_inputs,
    checkpoints,
    chosen_checkpoint,
    last_session,
    remembered,
)
from training.rl.problems import load_held_out, load_problems
from training.rl.settings import RunSettings
from training.rl.trainer.joint_probe import PROBE_STATE, JointProbe

_READ = ("*.safetensors*", "config.json", "adapter_config.json", PROBE_STATE)
"""Files of a checkpoint that an export reads; the optimizer's state is larger than the weights."""


def export_checkpoint(run: Path, step: str, out: Path) -> int:
    """Writes a checkpoint of a run as a folder for `rlcm serve --model`; returns its step.

    Args:
        run: `--out` of the training; it may still be under way.
        step: a number of steps, `last` or `best`.
        out: the new folder.

    Raises:
        TrainingRefused: there is no such run or checkpoint, the run deletes it meanwhile, its
            weights are in shards that only the training can read, or `out` is not empty or cannot
            be written.
    """
    require_writable(out)
    if out.exists() and any(out.iterdir()):
        raise TrainingRefused(f"{out} is not empty: give a new folder")
    settings = remembered(run)
    return export_to(run, settings, step, out)


def export_to(run: Path, settings: RunSettings, step: str, out: Path) -> int:
    """As `export_checkpoint`, to a folder that may be that of the run.

    Raises:
        TrainingRefused: as `export_checkpoint`, except for `out`.
    """
    checkpoint, state = chosen_checkpoint(run, step)
    beside = run / CHECKPOINTS if out == run else out.parent  # on the disk of the result
    beside.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=beside) as folder:
        copied = Path(folder)
        _copy_checkpoint(checkpoint, copied)
        if not any(copied.glob("*.safetensors")):
            raise TrainingRefused(
                f"{checkpoint} holds no whole weights: train with fsdp_state_dict_type: "
                "FULL_STATE_DICT"
            )
        log = state.get("log_history", [])
        write_checkpoint(run, settings, copied, copied, out, log, is_last=step == "last")
    return int(state["global_step"])


def _copy_checkpoint(checkpoint: Path, folder: Path) -> None:
    """Copies what an export reads, which a run that is under way may delete at any time.

    Raises:
        TrainingRefused: it has deleted the checkpoint, or part of it.
    """
    try:
        copy_weights(checkpoint, folder)
        is_whole = checkpoint in checkpoints(checkpoint.parent).values()
    except FileNotFoundError:
        is_whole = False
    if not is_whole:
        raise TrainingRefused(
            f"the run has deleted {checkpoint} meanwhile, as it has newer ones: export again"
        )


def copy_weights(weights: Path, folder: Path) -> None:
    """Copies the files of a checkpoint, or of a model, that an export reads."""
    for path in [path for pattern in _READ for path in weights.glob(pattern)]:
        shutil.copy(path, folder / path.name)


def write_checkpoint(
    run: Path,
    settings: RunSettings,
    weights: Path,
    probe: Path,
    out: Path,
    log: list[dict[str, Any]],
    *,
    is_last: bool,
) -> None:
    """Writes weights and a probe of a run as a folder for the service.

    Args:
        run: its folder.
        settings: of the run.
        weights: folder of a whole model or of adapters; it is changed in place.
        probe: folder of the probe's state, if the run trains one.
        out: the new folder.
        log: of the training.
        is_last: otherwise somebody chose the checkpoint, and may have done so by how it does on the
            held-out problems: they count as seen.

    Raises:
        TrainingRefused: the problems or the base model cannot be read, or have changed since the
            run began.
    """
    with grader_named("math") as grader:
        problems = load_problems(settings.data, grader, settings.seed)
        chosen_on = None if is_last else load_held_out(settings, grader)
    base = ModelFiles.read(resolve_model(settings.model))
    digests = {
        "problems": problems.digest,
        "held_out_problems": None if chosen_on is None else chosen_on.digest,
        "base_model": base.model_digest(),
    }
    check_inputs(digests, run)
    own = _probe(probe, settings)
    record = TrainingRecord(
        settings, problems, chosen_on, base, log, own is not None, last_session(run)
    )
    write_policy(weights, own, record, out)


def _probe(checkpoint: Path, settings: RunSettings) -> Probe | None:
    """The probe that the service can read; None if the run trains none."""
    if not settings.forces or not settings.probe.is_servable:
        return None
    state = torch.load(checkpoint / PROBE_STATE, map_location="cpu")
    hidden_size = len(state["weights"]["mean_H"])
    probe = JointProbe(hidden_size, settings.probe, settings.seed)
    probe.load_state_dict(state["weights"])
    return probe.as_probe()
