"""The folder for the service, from a checkpoint of veRL whose weights have been merged."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from training.errors import TrainingRefused
from training.folders import require_writable
from training.rl.checkpoint import copy_weights, write_checkpoint
from training.rl.folder import remembered
from training.rl.trainer.joint_probe import PROBE_STATE
from training.verl.overrides import CHECKPOINTS


def export_weights(run: Path, weights: Path, step: int, out: Path) -> None:
    """Writes merged weights, and the probe of the same checkpoint, for `rlcm serve --model`.

    Args:
        run: `--out` of the training.
        weights: what `python -m verl.model_merger merge` wrote.
        step: of the checkpoint.
        out: the new folder.

    Raises:
        TrainingRefused: there is no such run or checkpoint, no whole weights, or `out` is not
            empty or cannot be written.
    """
    require_writable(out)
    settings = remembered(run)
    checkpoint = run / CHECKPOINTS / f"global_step_{step}"
    if settings.forces and not (checkpoint / PROBE_STATE).exists():
        raise TrainingRefused(f"{checkpoint} has no {PROBE_STATE}: give the step of a checkpoint")
    if not any(weights.glob("*.safetensors")):
        raise TrainingRefused(
            f"{weights} holds no weights: merge those of the checkpoint first (python -m "
            f"verl.model_merger merge --backend fsdp --local_dir {checkpoint / 'actor'} "
            f"--target_dir {weights})"
        )
    if out.exists() and any(out.iterdir()):
        raise TrainingRefused(f"{out} is not empty: give a new folder")
    out.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=out.parent) as folder:
        copied = Path(folder)
        copy_weights(weights, copied)
        trained = replace(settings, steps=step)
        write_checkpoint(run, trained, copied, checkpoint, out, log=[], is_last=False)
