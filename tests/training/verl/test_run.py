"""A run's settings as veRL reads them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rlcm_serve.evaluation.grading import grader_named
from tests.training.verl.conftest import SMALL, config_of, inputs_of
from training.errors import TrainingRefused
from training.folders import alone
from training.rl.inputs import RunInputs
from training.rl.settings import EvaluationSettings
from training.verl.overrides import Cluster, hydra_overrides
from training.verl.run import configuration, train

pytestmark = pytest.mark.verl


def test_verl_takes_the_configuration_and_it_says_what_the_settings_say(
    config: Any, inputs: RunInputs
) -> None:
    rollout, actor = config.actor_rollout_ref.rollout, config.actor_rollout_ref.actor
    assert (config.data.train_batch_size, rollout.n, rollout.temperature) == (2, 2, 0.8)
    assert rollout.prompt_length == inputs.prompt
    assert rollout.max_model_len == inputs.sequence > inputs.prompt + 64
    assert (actor.optim.lr, actor.optim.weight_decay) == (1e-6, 0.0)
    assert (actor.loss_agg_mode, actor.use_kl_loss, actor.entropy_coeff) == (
        "seq-mean-token-mean",
        False,
        0,
    )
    assert actor.ppo_mini_batch_size == config.data.train_batch_size
    assert config.algorithm.adv_estimator == "grpo"
    assert config.trainer.v1.trainer_mode == "sync"


def test_held_out_problems_are_verls_validation(tmp_path: Path) -> None:
    held_out = tmp_path / "held-out.jsonl"
    held_out.write_text('{"problem": "What is 1?", "answer": "1"}\n')
    evaluation = EvaluationSettings(str(held_out), every=1, rollouts=4, temperature=0.5)
    rollouts = replace(SMALL.rollouts, top_p=0.9)
    inputs = inputs_of(tmp_path, evaluation=evaluation, rollouts=rollouts)
    config = config_of(inputs, tmp_path / "run")
    val = config.actor_rollout_ref.rollout.val_kwargs
    assert (config.trainer.test_freq, val.n, val.do_sample) == (1, 4, True)
    assert (val.temperature, val.top_p) == (0.5, 0.9)
    assert Path(config.data.val_files).name == "held-out.parquet"


def test_a_second_start_of_a_run_is_refused(
    inputs: RunInputs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[object] = []
    monkeypatch.setattr("training.verl.run.run_ppo", lambda config, **_: started.append(config))
    out, cluster = tmp_path / "run", Cluster(nodes=1, gpus=1)
    with alone(out), pytest.raises(TrainingRefused, match=r"another process trains in .*run: wait"):
        train(inputs.settings, out, cluster, [], only_check=False)
    assert not started
    assert not (out / "settings.json").exists()
    train(inputs.settings, out, cluster, [], only_check=False)
    assert len(started) == 1


@pytest.mark.parametrize(
    ("override", "message"),
    [("trainer.nnode=2", "nnode"), ("data.train_batch_size=0", "veRL refuses its configuration")],
)
def test_what_verl_does_not_know_or_refuses_is_refused(override: str, message: str) -> None:
    with pytest.raises(TrainingRefused, match=message):
        configuration([override])


def test_what_verl_cannot_log_to_is_refused(inputs: RunInputs, tmp_path: Path) -> None:
    with pytest.raises(TrainingRefused, match=r"veRL cannot log to 'comet_ml': .* wandb, mlflow"):
        config_of(inputs_of(tmp_path, report_to=("wandb", "comet_ml")), tmp_path / "run")
    own = hydra_overrides(inputs, tmp_path, Cluster(nodes=1, gpus=1))
    for logger in ("console", "[console,wandb]"):
        configuration([*own, f"trainer.logger={logger}"])


def test_the_grader_reads_latex_with_verls_version_of_antlr() -> None:
    pairs = [("\\frac{1}{2}", "0.5"), ("x^2+2x+1", "(x+1)^2"), ("\\sqrt{2}+1", "1+\\sqrt2")]
    with grader_named("math") as grader:
        assert grader.grade([*pairs, ("\\frac{1}{3}", "0.5")]) == [True, True, True, False]


def test_problems_are_rows_that_verls_data_set_reads(
    config: Any, inputs: RunInputs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from verl.utils.dataset.rl_dataset import RLHFDataset

    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path)
    found = RLHFDataset(config.data.train_files, inputs.tokenizer, config.data)
    first = inputs.problems.problems[0]
    assert len(found) == len(inputs.problems.problems)
    assert found[0]["raw_prompt"] == [{"role": "user", "content": first.problem}]
    assert found[0]["reward_model"]["ground_truth"] == first.answer
    assert found[0]["extra_info"]["held_out"] is False
