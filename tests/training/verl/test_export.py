"""Merged weights of a checkpoint of veRL as a folder for the service."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from rlcm_serve.engine.model_files import ModelFiles
from rlcm_serve.engine.worker.probe import PROBE_FOLDER, Probe
from training.errors import TrainingRefused
from training.rl.inputs import RunInputs
from training.rl.trainer.joint_probe import PROBE_STATE, JointProbe
from training.verl.export import export_weights
from training.verl.folder import write_folder
from training.verl.overrides import CHECKPOINTS

pytestmark = pytest.mark.training


def test_merged_weights_and_the_probe_become_a_folder_for_the_service(
    inputs: RunInputs, tmp_path: Path
) -> None:
    run, out, merged = tmp_path / "run", tmp_path / "out", inputs.files.folder
    write_folder(inputs, run)
    with pytest.raises(TrainingRefused, match=r"has no probe.pt: give the step of a checkpoint"):
        export_weights(run, merged, 2, out)
    checkpoint = run / CHECKPOINTS / "global_step_2"
    checkpoint.mkdir(parents=True)
    probe = JointProbe(inputs.files.hidden_size, inputs.settings.probe, seed=5)
    probe.scale_to(torch.randn(9, inputs.files.hidden_size), lambda values: values)
    torch.save(probe.whole_state(), checkpoint / PROBE_STATE)
    with pytest.raises(TrainingRefused, match="merge those of the checkpoint first"):
        export_weights(run, checkpoint, 2, out)

    (tmp_path / "file").write_text("")
    with pytest.raises(TrainingRefused, match="file is a file: give a folder"):
        export_weights(run, merged, 2, tmp_path / "file")

    export_weights(run, merged, 2, out)
    assert ModelFiles.read(out).model_digest() == inputs.files.model_digest()
    hidden = torch.randn(4, inputs.files.hidden_size)
    torch.testing.assert_close(
        Probe.load(out / PROBE_FOLDER).confidence(hidden), probe.confidence(hidden)
    )
    assert "2 steps of 2 prompts x 2 rollouts." in (out / "README.md").read_text()
    with pytest.raises(TrainingRefused, match="is not empty"):
        export_weights(run, merged, 2, out)
