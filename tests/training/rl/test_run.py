"""Before and after training: what is refused, what is gone on with, what is passed to TRL."""

from __future__ import annotations

import io
import json
import shutil
import threading
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import pytest
import torch
from accelerate.data_loader import BatchSamplerShard
from rich.console import Console
from torch.utils.data import BatchSampler

from rlcm_serve.engine.model_files import resolve_model
from rlcm_serve.errors import RequestRefused
from rlcm_serve.evaluation.grading import grader_named
from rlcm_serve.recording.problems import BOXED, read_problems
from rlcm_serve.recording.trained import require_untrained
from tests.training.rl.small import SMALL, small_run
from training.errors import TrainingRefused
from training.folders import alone
from training.rl.arguments import trl_arguments
from training.rl.check import check_continuation, check_engine
from training.rl.checkpoint import export_checkpoint
from training.rl.export import write_policy
from training.rl.folder import (
    check_folder,
    check_inputs,
    chosen_checkpoint,
    last_checkpoint,
    remember,
    remembered,
)
from training.rl.inputs import read_inputs
from training.rl.rewards.methods import METHODS
from training.rl.run import check, checked_run, train
from training.rl.settings import (
    DataSettings,
    EvaluationSettings,
    LoraSettings,
    PolicySettings,
    ProbeSettings,
    RolloutSettings,
    RunSettings,
    VllmSettings,
)
from training.rl.tables import is_plain
from training.rl.trainer.joint_probe import JointProbe

MISSING_REPORTER = "swanlab"
"""No requirement of this project installs it."""


def test_the_policy_loss_is_grpos_without_kl(tmp_path: Path) -> None:
    chosen = trl_arguments(RunSettings(steps=3), tmp_path, ranks=4, sequence=9000, held_out=0)
    assert (chosen["loss_type"], chosen["beta"], chosen["scale_rewards"]) == ("grpo", 0.0, "group")
    assert chosen["vllm_importance_sampling_mode"] == "token_truncate"
    assert chosen["per_device_train_batch_size"] * chosen["gradient_accumulation_steps"] == 192 / 4
    assert chosen["vllm_max_model_length"] == 9000


def test_rollouts_that_cannot_be_shared_out_are_refused(tmp_path: Path) -> None:
    settings = replace(SMALL, policy=PolicySettings(micro_batch=3))
    with pytest.raises(TrainingRefused, match="2 prompts x 4 rollouts are 8, which 1 processes"):
        trl_arguments(settings, tmp_path, ranks=1, sequence=100, held_out=0)


def test_ranks_share_out_every_held_out_rollout_once(tmp_path: Path) -> None:
    evaluation = EvaluationSettings("embedded", limit=64, every=1, rollouts=2)
    settings = replace(SMALL, evaluation=evaluation)
    chosen = trl_arguments(settings, tmp_path, ranks=2, sequence=100, held_out=3)
    batches = BatchSampler(range(6), chosen["per_device_eval_batch_size"], drop_last=False)
    ranks = [BatchSamplerShard(batches, num_processes=2, process_index=rank) for rank in (0, 1)]
    assert [list(own) for own in ranks] == [[[0, 1, 2]], [[3, 4, 5]]]
    settings = replace(settings, evaluation=replace(evaluation, rollouts=3))
    with pytest.raises(TrainingRefused, match="3 held-out problems x 3 rollouts are 9, which 2 pr"):
        trl_arguments(settings, tmp_path, ranks=2, sequence=100, held_out=3)


def test_what_has_a_place_of_its_own_is_not_set_twice(tmp_path: Path) -> None:
    settings = replace(SMALL, trainer={"beta": 0.1, "top_k": 5, "reward_weights": [1]})
    with pytest.raises(TrainingRefused, match="sets beta, reward_weights, which"):
        trl_arguments(settings, tmp_path, ranks=1, sequence=100, held_out=0)


def test_what_the_model_has_no_room_for_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TrainingRefused, match="do not fit into the model's 2048 tokens"):
        small_run(tmp_path, rollouts=RolloutSettings(prompts=2, per_prompt=4, max_tokens=2000))


def test_the_engine_has_room_for_a_forced_answer_at_the_end(tmp_path: Path) -> None:
    forced, plain = small_run(tmp_path), small_run(tmp_path, method="grpo")
    suffix = len(forced.recipe.thinking.suffix) + SMALL.budgets.answer_tokens
    assert forced.sequence - plain.sequence == suffix > SMALL.budgets.answer_tokens


@pytest.fixture
def checkpoints(tmp_path: Path) -> Path:
    for step in (2, 4, 10):
        folder = tmp_path / f"checkpoint-{step}"
        folder.mkdir()
        (folder / "trainer_state.json").write_text(json.dumps({"global_step": step}))
    return tmp_path


def test_the_newest_checkpoint_is_the_one_of_the_last_step(checkpoints: Path) -> None:
    assert last_checkpoint(checkpoints) == checkpoints / "checkpoint-10"


@pytest.mark.parametrize("left", [None, "", '{"global_step": 1', "[]", "{}"])
def test_one_that_was_half_written_does_not_count(checkpoints: Path, left: str | None) -> None:
    state = checkpoints / "checkpoint-10" / "trainer_state.json"
    state.unlink()
    if left is not None:
        state.write_text(left)
    assert last_checkpoint(checkpoints) == checkpoints / "checkpoint-4"


def test_nothing_to_go_on_from_is_none(tmp_path: Path) -> None:
    assert last_checkpoint(tmp_path / "none") is None


DIGESTS = {"problems": "digest", "held_out_problems": "watched", "base_model": "base"}


def begin(out: Path, settings: RunSettings = SMALL) -> Path:
    """A run that has left a checkpoint."""
    (out / "checkpoints" / "checkpoint-1").mkdir(parents=True)
    remember(settings, DIGESTS, out)
    return out


def test_a_run_goes_on_with_its_own_settings_only(tmp_path: Path) -> None:
    begin(tmp_path)
    check_folder(SMALL, tmp_path)
    assert remembered(tmp_path) == SMALL
    changed = replace(SMALL, steps=9, policy=replace(SMALL.policy, clip=0.3))
    with pytest.raises(
        TrainingRefused,
        match=r"other settings \(steps was 1 and is 9, policy.clip was 0.2 and is 0.3\)",
    ):
        check_folder(changed, tmp_path)
    with pytest.raises(TrainingRefused, match=r"\(lora was None and is \{'rank': 16"):
        check_folder(replace(SMALL, lora=LoraSettings()), tmp_path)


def test_a_run_may_go_on_elsewhere(tmp_path: Path) -> None:
    begin(tmp_path, replace(SMALL, engine=VllmSettings("server", "http://a:8000")))
    elsewhere = VllmSettings("server", "http://b:8000", memory=0.5)
    check_folder(replace(SMALL, engine=elsewhere, report_to=("wandb",)), tmp_path)
    with pytest.raises(TrainingRefused, match=r"engine.mode was 'server' and is 'colocate'"):
        check_folder(SMALL, tmp_path)


def test_before_the_first_checkpoint_settings_and_problems_may_change(tmp_path: Path) -> None:
    remember(replace(SMALL, steps=6000), DIGESTS, tmp_path)
    check_folder(SMALL, tmp_path)
    check_inputs({"problems": "another"}, tmp_path)
    (tmp_path / "checkpoints" / "runs").mkdir(parents=True)  # where TensorBoard's curves are
    check_folder(SMALL, tmp_path)


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("problems", r"on other problems: those of \[data\] have changed"),
        ("held_out_problems", r"on other problems: those of \[evaluation\] have changed"),
        ("base_model", "from another base model: its files have changed"),
    ],
)
def test_a_run_goes_on_with_what_it_began_with(tmp_path: Path, name: str, what: str) -> None:
    check_inputs(DIGESTS, begin(tmp_path))
    with pytest.raises(TrainingRefused, match=f"holds a run {what} since it began; restore"):
        check_inputs({name: "another"}, tmp_path)
    check_inputs({name: None}, tmp_path)
    stored = json.loads((tmp_path / "settings.json").read_text())
    del stored[name]  # as an earlier version wrote it
    (tmp_path / "settings.json").write_text(json.dumps(stored))
    check_inputs({name: "another"}, tmp_path)


@pytest.mark.parametrize("left", ["{not json", "[1]", ""])
def test_damaged_settings_are_said(tmp_path: Path, left: str) -> None:
    (begin(tmp_path) / "settings.json").write_text(left)
    for look in (remembered, partial(check_folder, SMALL), partial(check_inputs, DIGESTS)):
        with pytest.raises(TrainingRefused, match=r"settings\.json is damaged: give another --out"):
            look(tmp_path)


def test_a_model_is_not_overwritten_by_a_run_that_did_not_write_it(tmp_path: Path) -> None:
    model = tmp_path / "model"
    shutil.copytree(resolve_model("embedded-sft"), model)
    with pytest.raises(TrainingRefused, match="which holds a model, and no training to continue"):
        check_folder(replace(SMALL, model=str(model)), model)
    assert not (model / "settings.json").exists()


def test_settings_that_an_earlier_version_did_not_know_had_their_defaults(tmp_path: Path) -> None:
    begin(tmp_path)
    stored = json.loads((tmp_path / "settings.json").read_text())
    del stored["evaluation"], stored["probe"]["dropout"], stored["budgets"]["at_once"]
    (tmp_path / "settings.json").write_text(json.dumps(stored))
    check_folder(SMALL, tmp_path)
    with pytest.raises(TrainingRefused, match=r"probe.dropout was 0.0 and is 0.1"):
        check_folder(replace(SMALL, probe=ProbeSettings(dropout=0.1)), tmp_path)


def checkpoint_with_probe(out: Path, without: str) -> Path:
    """A checkpoint of step 2 whose probe's state lacks one entry."""
    folder = out / "checkpoints" / "checkpoint-2"
    folder.mkdir(parents=True)
    (folder / "trainer_state.json").write_text('{"global_step": 2}')
    whole = JointProbe(4, ProbeSettings(), seed=0).whole_state()
    torch.save({name: own for name, own in whole.items() if name != without}, folder / "probe.pt")
    return folder


def test_a_probe_that_draws_nothing_continues_without_a_random_state(tmp_path: Path) -> None:
    checkpoint = checkpoint_with_probe(tmp_path, without="draw")
    check_continuation(SMALL, checkpoint)
    JointProbe(4, ProbeSettings(), seed=1).restore(torch.load(checkpoint / "probe.pt"))


@pytest.mark.parametrize(
    ("without", "probe"),
    [
        ("draw", ProbeSettings(dropout=0.1)),
        ("draw", ProbeSettings(minibatch=16)),
        ("optimizer", ProbeSettings()),
    ],
)
def test_a_probe_that_cannot_continue_is_refused_before_a_model_is_loaded(
    tmp_path: Path, problems: DataSettings, without: str, probe: ProbeSettings
) -> None:
    checkpoint_with_probe(tmp_path, without)
    settings = replace(SMALL, data=problems, probe=probe)
    with (
        grader_named("exact") as grader,
        pytest.raises(TrainingRefused, match=f"has no {without}, so .* give another --out"),
    ):
        checked_run(settings, tmp_path, grader)


def test_more_steps_extend_a_run_and_fewer_are_refused(tmp_path: Path) -> None:
    begin(tmp_path, replace(SMALL, steps=5))
    check_folder(replace(SMALL, steps=6), tmp_path)
    with pytest.raises(TrainingRefused, match="holds a run of 5 steps, more than 4"):
        check_folder(replace(SMALL, steps=4), tmp_path)


def test_a_run_whose_lambda_depends_on_the_steps_is_not_extended(tmp_path: Path) -> None:
    rising = replace(SMALL, method="rlcm-rising")
    check_folder(rising, begin(tmp_path, rising))
    with pytest.raises(TrainingRefused, match="λ of rlcm-rising depends on their number"):
        check_folder(replace(rising, steps=5), tmp_path)


def finished(out: Path, settings: RunSettings) -> Path:
    """A run whose checkpoint is that of its last step; the checkpoint's folder."""
    checkpoint = out / "checkpoints" / f"checkpoint-{settings.steps}"
    shutil.copytree(resolve_model("embedded-sft"), checkpoint)
    log = [{"reward": 0.5, "step": 1}, {"eval_accuracy": 0.75, "step": 1}]
    state = {"global_step": settings.steps, "log_history": log}
    (checkpoint / "trainer_state.json").write_text(json.dumps(state))
    return checkpoint


def test_a_run_that_has_ended_is_not_trained_again(
    tmp_path: Path, problems: DataSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise AssertionError("a model is loaded")

    monkeypatch.setattr("training.rl.run.make_trainer", fails)
    settings, out = replace(SMALL, method="grpo", data=problems, steps=1), tmp_path / "run"
    finished(out, settings)
    with grader_named("math") as grader:
        remember(settings, read_inputs(settings, grader).digests, out)
    kept = json.loads((out / "settings.json").read_text())
    kept["session"]["command"] = "rlcm train rl --out run"
    (out / "settings.json").write_text(json.dumps(kept))
    said = io.StringIO()
    train(settings, out, Console(file=said))
    assert "all 1 steps are done: nothing is left to train" in said.getvalue()
    assert check(settings, out)[-1] == "all 1 steps are done: nothing is left to train"
    facts = json.loads((out / "training.json").read_text())
    assert facts["command"] == "rlcm train rl --out run"
    assert [entry["step"] for entry in facts["curves"]] == [1]
    assert [entry["eval_accuracy"] for entry in facts["evaluations"]] == [0.75]
    (out / "model.safetensors").unlink()
    train(settings, out, Console(file=said))
    assert not (out / "model.safetensors").exists(), "a folder that is whole stays as it is"


def test_an_extended_run_that_was_killed_after_its_last_step_is_written(
    tmp_path: Path, problems: DataSettings
) -> None:
    """The folder holds the whole policy of the run before."""
    settings, out = replace(SMALL, method="grpo", data=problems, steps=1), tmp_path / "run"
    finished(out, settings)
    with grader_named("math") as grader:
        remember(settings, read_inputs(settings, grader).digests, out)
    train(settings, out, Console(file=io.StringIO()))
    longer = replace(settings, steps=2)
    finished(out, longer)
    (out / "checkpoints" / "final").mkdir()
    train(longer, out, Console(file=io.StringIO()))
    assert json.loads((out / "training.json").read_text())["settings"]["steps"] == 2
    assert not (out / "checkpoints" / "final").exists()
    assert {path.name for path in tmp_path.iterdir()} == {"run", Path(problems.source).name}


@pytest.fixture
def run_with_checkpoint(tmp_path: Path, problems: DataSettings) -> Path:
    """A run whose checkpoint also holds the optimizer's state."""
    settings, out = replace(SMALL, method="grpo", data=problems), tmp_path / "run"
    checkpoint = finished(out, settings)
    for name in ("optimizer.bin", "pytorch_model_fsdp.bin"):
        (checkpoint / name).write_bytes(b"large")
    with grader_named("math") as grader:
        remember(settings, read_inputs(settings, grader).digests, out)
    return out


def test_an_export_copies_only_what_it_reads(
    tmp_path: Path, run_with_checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied: list[str] = []

    def watched(weights: Path, *rest: Any) -> None:
        copied.extend(sorted(own.name for own in weights.iterdir()))
        write_policy(weights, *rest)

    monkeypatch.setattr("training.rl.checkpoint.write_policy", watched)
    assert export_checkpoint(run_with_checkpoint, "last", tmp_path / "exported") == 1
    assert copied == ["config.json", "model.safetensors"]


@pytest.mark.parametrize(("step", "counts_as_seen"), [("best", True), ("1", True), ("last", False)])
def test_held_out_problems_that_chose_a_checkpoint_cannot_calibrate_it(
    tmp_path: Path, problems: DataSettings, step: str, counts_as_seen: bool
) -> None:
    held_out, out = tmp_path / "held-out.jsonl", tmp_path / "run"
    held_out.write_text('{"problem": "How many moons has Mars?", "answer": "2"}\n')
    evaluation = EvaluationSettings(str(held_out), limit=1, every=1)
    settings = replace(SMALL, method="grpo", data=problems, evaluation=evaluation)
    state = finished(out, settings) / "trainer_state.json"
    state.write_text(json.dumps({**json.loads(state.read_text()), "best_global_step": 1}))
    with grader_named("math") as grader:
        remember(settings, read_inputs(settings, grader).digests, out)
    export_checkpoint(out, step, tmp_path / "exported")
    with pytest.raises(RequestRefused) if counts_as_seen else nullcontext():
        require_untrained(read_problems(held_out), tmp_path / "exported", None)
    held_out.write_text('{"problem": "How many moons has Venus?", "answer": "0"}\n')
    changed = pytest.raises(TrainingRefused, match=r"those of \[evaluation\] have changed")
    with changed if counts_as_seen else nullcontext():
        export_checkpoint(out, step, tmp_path / "again")


def test_problems_to_watch_are_known_without_the_request_of_a_benchmark(
    tmp_path: Path, problems: DataSettings
) -> None:
    rows = [json.loads(line) for line in Path(problems.source).read_text().splitlines()]
    asked = tmp_path / "asked.jsonl"
    rows = [{**row, "problem": row["problem"] + BOXED} for row in rows]
    asked.write_text("".join(json.dumps(row) + "\n" for row in rows))
    settings = replace(SMALL, data=problems, evaluation=EvaluationSettings(str(asked)))
    with (
        grader_named("math") as grader,
        pytest.raises(TrainingRefused, match=rf"{len(rows)} of its problems are in \[data\] too"),
    ):
        read_inputs(settings, grader)


@pytest.mark.parametrize("name", ["chosen_checkpoint", "shutil.copy"])
def test_a_checkpoint_that_the_run_deletes_meanwhile_is_exported_again(
    tmp_path: Path, run_with_checkpoint: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Before anything is copied, and after the first file."""
    before = resolve_name(f"training.rl.checkpoint:{name}")

    def deleted_after(*args: Any) -> Any:
        found = before(*args)
        shutil.rmtree(run_with_checkpoint / "checkpoints/checkpoint-1")
        return found

    monkeypatch.setattr(f"training.rl.checkpoint.{name}", deleted_after)
    with pytest.raises(TrainingRefused, match=r"has deleted .*checkpoint-1 meanwhile, .* again"):
        export_checkpoint(run_with_checkpoint, "last", tmp_path / "exported")
    assert not (tmp_path / "exported").exists()


def test_a_second_start_of_a_run_is_refused(tmp_path: Path, problems: DataSettings) -> None:
    settings, out = replace(SMALL, method="grpo", data=problems), tmp_path / "run"
    with alone(out), pytest.raises(TrainingRefused, match=r"another process trains in .*run: wait"):
        train(settings, out, Console(quiet=True))
    assert not (out / "settings.json").exists()


def test_arguments_of_the_engine_that_vllm_takes_pass() -> None:
    """Also those that it converts itself: nothing is refused that it would take."""
    some = {"max_num_seqs": 7, "enforce_eager": True, "cpu_offload_gb": 1, "dtype": "float32"}
    some |= {"scheduling_policy": "priority", "compilation_config": 0, "hf_overrides": {"a": 1}}
    some |= {"attention_backend": "FLASH_ATTN", "enable_prefix_caching": False}
    check_engine(VllmSettings(arguments=some))


@pytest.mark.parametrize(
    ("hint", "known"),
    [(list[str] | None, True), (dict, True), (list, False), (set[str], False), ("Later", False)],
)
def test_only_values_of_types_that_toml_has_are_checked(hint: object, known: bool) -> None:
    assert is_plain(hint) is known


def test_only_the_first_process_writes_the_settings_of_a_run(
    tmp_path: Path, problems: DataSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, out = replace(SMALL, method="grpo", data=problems), tmp_path / "run"

    def ended(*_: object) -> None:
        raise InterruptedError

    monkeypatch.setattr("training.rl.run.make_trainer", ended)
    for rank, is_written in (("1", False), ("0", True)):
        monkeypatch.setenv("RANK", rank)
        with pytest.raises(InterruptedError):
            train(settings, out, Console(quiet=True))
        assert (out / "settings.json").exists() is is_written


@pytest.mark.parametrize("method", METHODS)
def test_remembered_settings_are_the_settings(tmp_path: Path, method: str) -> None:
    settings = replace(
        SMALL,
        method=method,
        lora=LoraSettings(),
        evaluation=EvaluationSettings("embedded", every=5),
        trainer={"top_k": 5},
    ).completed()
    remember(settings, DIGESTS, tmp_path)
    assert remembered(tmp_path) == settings


def test_a_checkpoint_is_chosen_by_number_last_or_best(checkpoints: Path) -> None:
    run = checkpoints / "run"
    (run / "checkpoints").mkdir(parents=True)
    for step in (2, 4, 10):
        (checkpoints / f"checkpoint-{step}").rename(run / "checkpoints" / f"checkpoint-{step}")
    assert chosen_checkpoint(run, "4")[0].name == "checkpoint-4"
    assert chosen_checkpoint(run, "last")[1] == {"global_step": 10}
    with pytest.raises(TrainingRefused, match="no complete checkpoint 3: its steps are 2, 4, 10"):
        chosen_checkpoint(run, "3")
    for evaluation, why in (
        (None, r"was trained without \[evaluation\]"),
        (EvaluationSettings("embedded", every=20), r"not been evaluated yet \(first at step 20\)"),
    ):
        settings = replace(SMALL, evaluation=evaluation)
        (run / "settings.json").write_text(json.dumps(settings.to_json()))
        with pytest.raises(TrainingRefused, match=why):
            chosen_checkpoint(run, "best")
    state = {"global_step": 10, "best_global_step": 4}
    (run / "checkpoints" / "checkpoint-10" / "trainer_state.json").write_text(json.dumps(state))
    assert chosen_checkpoint(run, "best")[0].name == "checkpoint-4"


@pytest.fixture
def problems(tmp_path: Path) -> DataSettings:
    path = tmp_path / "problems.jsonl"
    lines = (
        f'{{"problem": "A dial shows {at}. A up 9. What does it show now?", "answer": "6"}}\n'
        for at in range(SMALL.rollouts.prompts)
    )
    path.write_text("".join(lines))
    return DataSettings(str(path))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"trainer": {"top_kk": 5}}, r"\[trainer\] sets 'top_kk', .* did you mean top_k"),
        ({"trainer": {"eval_strategy": "sometimes"}}, "TRL refuses these settings"),
        (
            {"policy": replace(SMALL.policy, schedule="linaer")},
            r"schedule in \[policy\] is 'linaer': give one of linear",
        ),
        (
            {"lora": LoraSettings(targets="q_porj")},
            "'q_porj', which matches no layer .* down_proj, .* v_proj",
        ),
        (
            {"lora": LoraSettings(targets=".*attn.*")},
            r"'model\.layers\.0\.self_attn', which is not linear: give .* down_proj",
        ),
        (
            {"lora": LoraSettings(targets=".*q_proj|lm_head")},
            "'lm_head', the output layer, for which there are no adapters",
        ),
        (
            {"trainer": {"chat_template_kwargs": {"enable_thinking": False}}},
            "the service asks with the template alone",
        ),
        (
            {"engine": VllmSettings("server", arguments={"max_num_seqs": 4})},
            r"arguments in \[engine\] is for mode = 'colocate'",
        ),
        (
            {"engine": VllmSettings("server", tensor_parallel=2)},
            r"tensor_parallel in \[engine\] is 2, and is for mode = 'colocate'",
        ),
        ({"engine": VllmSettings(arguments={"seed": 1})}, "sets 'seed': set seed, which seeds"),
        (
            {"lora": LoraSettings(targets="(q")},
            r"targets in \[lora\] is '\(q', which is no regular expression: missing \)",
        ),
        ({"report_to": ("tensorbord",)}, "report_to names 'tensorbord': give some of .*wandb"),
        ({"report_to": (MISSING_REPORTER,)}, f"'{MISSING_REPORTER}', .* install its package"),
        ({"trainer": {"adam_beta1": "x"}}, r"\[trainer\]: adam_beta1 is 'x': give .* type float"),
        ({"trainer": {"adam_beta1": 2.0}}, r"'adamw_torch.*' refuses .*: Invalid beta.* 2.0"),
        ({"data": DataSettings("x" * 5000)}, r"\[data\] source 'x+': .* File name too long"),
        (
            {"trainer": {"mask_truncated_completions": True}},
            "mask_truncated_completions, which hides the states .* from the probe of rlcm",
        ),
        (
            {"method": "c2gspg", "trainer": {"mask_truncated_completions": True}},
            "no sequence probability, the confidence of c2gspg: leave it out",
        ),
        ({"trainer": {"eval_on_start": True}}, "eval_on_start: the probe takes the scale"),
        (
            {"rollouts": replace(SMALL.rollouts, prompts=8)},
            "there are 2 problems to train on, and a step needs 8: lower prompts",
        ),
        ({"trainer": {"top_k": -7}}, r"\[trainer\]: top_k is -7: give a number of -1 or more"),
        ({"trainer": {"min_p": 3.0}}, "min_p is 3.0: give a number from 0 to 1"),
        ({"trainer": {"log_level": "loud"}}, "log_level is 'loud': give one of .*warning"),
        (
            {"trainer": {"importance_sampling_level": "sequence"}},
            "importance_sampling_level, which the method or other tables of the file decide",
        ),
        ({"trainer": {"steps_per_generation": 20}}, "steps_per_generation, but a step's rollouts"),
        ({"trainer": {"remove_unused_columns": True}}, "but rewards need the answers"),
        ({"trainer": {"push_to_hub": True}}, "push_to_hub, but `rlcm push` publishes"),
        ({"trainer": {"load_best_model_at_end": True}}, "but `rlcm train export --step best`"),
        ({"trainer": {"save_only_model": True}}, "but a stopped run could not continue"),
        ({"trainer": {"generation_kwargs": {"n": 4}}}, r"sets n: .* use the table \[rollouts\]"),
        (
            {"trainer": {"generation_kwargs": {"seed": 0}}},
            "sets seed: .* rollouts of a problem are",
        ),
        ({"trainer": {"generation_kwargs": {"logprobs": 5}}}, "sets logprobs: leave it out; the"),
        ({"trainer": {"num_train_epochs": 2}}, "sets num_train_epochs, but `steps` says how long"),
        ({"trainer": {"ignore_data_skip": True}}, "sets ignore_data_skip, but a run that continue"),
        ({"trainer": {"vllm_server_port": 9}}, "sets vllm_server_port, but `server` in"),
        ({"trainer": {"generation_kwargs": {"foo": 1}}}, "vLLM's SamplingParams refuse: .*foo"),
        ({"engine": VllmSettings(arguments={"foo": 1})}, "'foo', which vLLM does not have: leave"),
        ({"engine": VllmSettings(arguments={"max_num_seq": 8})}, "did you mean max_num_seqs"),
        (
            {"engine": VllmSettings(arguments={"max_num_seqs": "x"})},
            r"arguments in \[engine\]: max_num_seqs is 'x': give a value of type int$",
        ),
        (
            {"engine": VllmSettings(arguments={"scheduling_policy": "lifo"})},
            "scheduling_policy is 'lifo': give one of 'fcfs', 'priority'$",
        ),
        (
            {"budgets": replace(SMALL.budgets, at_once=1)},
            r"at_once in \[budgets\] is 1: give 2 or more, as the 2 answers of a budget",
        ),
        ({"engine": VllmSettings(arguments={"model": "x"})}, "sets 'model': set model instead"),
        ({"trainer": {"torch_compile_backend": "nope"}}, "'nope': give one of .*inductor"),
        (
            {"trainer": {"optim": "galore_adamw", "optim_target_modules": ["q_proj"]}},
            r"optim in \[trainer\] needs another package: .*galore",
        ),
        ({"trainer": {"eval_strategy": "steps"}}, r"there is no table \[evaluation\]: give one"),
        (
            {"engine": VllmSettings(tensor_parallel=2)},
            r"tensor_parallel in \[engine\] is 2, which does not divide the 1 processes",
        ),
        ({"trainer": {"dataloader_num_workers": -1}}, "dataloader_num_workers is -1: give .* 0 or"),
        ({"trainer": {"optim": "lomo"}}, r"optim in \[trainer\] needs another package: .*lomo"),
        ({"trainer": {"optim": "adam"}}, "TRL refuses these settings: adam is not a valid"),
        (
            {"policy": replace(SMALL.policy, schedule="cosine_with_min_lr")},
            "schedule .* is 'cosine_with_min_lr', and lr_scheduler_kwargs .* is {}, .* min_lr_rate",
        ),
        (
            {
                "policy": replace(SMALL.policy, schedule="cosine"),
                "trainer": {"lr_scheduler_kwargs": {"num_cycles": "x"}},
            },
            "is 'cosine', and lr_scheduler_kwargs .*'num_cycles': 'x'.* transformers refuses",
        ),
        (
            {"evaluation": EvaluationSettings("none.jsonl")},
            r"\[evaluation\]: \[data\] source 'none.jsonl'",
        ),
        (
            {"evaluation": EvaluationSettings("logiqa")},
            r"\[evaluation\]: .* 'logiqa' is graded with 'choice'",
        ),
        (
            {"trainer": {"num_iterations": 2}, "save_steps": 1, "steps": 2},
            r"num_iterations is 2, which does not divide save_steps \(1\)",
        ),
        (
            {"trainer": {"num_iterations": 2}, "save_steps": 2, "steps": 3},
            r"does not divide steps \(3\), .*: give a multiple of 2 as steps",
        ),
    ],
)
def test_what_cannot_be_is_refused_before_a_model_is_loaded(
    tmp_path: Path, problems: DataSettings, changes: dict[str, Any], message: str
) -> None:
    settings = replace(SMALL, **({"data": problems} | changes))
    with grader_named("exact") as grader, pytest.raises(TrainingRefused, match=message):
        checked_run(settings, tmp_path, grader)


def test_a_check_says_what_a_run_would_do_and_writes_nothing(
    tmp_path: Path, problems: DataSettings
) -> None:
    out = tmp_path / "run"
    lora = LoraSettings(targets=r".*\.(q|v)_proj")
    lines = check(replace(SMALL, data=problems, lora=lora), out)
    assert lines[0] == (
        "RLCM with λ = 0.1, 1 steps from embedded-sft: 8 rollouts a step, of 2 problems"
    )
    assert "at most 256 forced answers a step, at 16 cuts" in lines[2]
    assert not out.exists()


def test_a_policy_is_not_watched_on_the_problems_it_is_trained_on(
    tmp_path: Path, problems: DataSettings
) -> None:
    watched = replace(SMALL, data=problems, evaluation=EvaluationSettings(problems.source, every=1))
    with grader_named("exact") as grader, pytest.raises(TrainingRefused, match=r"2 of its .* too"):
        checked_run(watched, tmp_path, grader)


def test_a_check_says_whether_the_engines_server_answers(
    tmp_path: Path, problems: DataSettings
) -> None:
    asked: list[str] = []

    class Health(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Health) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        settings = replace(SMALL, data=problems, engine=VllmSettings("server", address))
        there = check(settings, tmp_path / "run")
        server.shutdown()
    gone = check(settings, tmp_path / "run")
    assert f"the engine's server answers at {address}" in there
    assert asked == ["/health"]
    assert f"no engine answers at {address} yet: start `trl vllm-serve` before the run" in gone


def test_a_check_refuses_an_out_that_is_no_folder(tmp_path: Path, problems: DataSettings) -> None:
    with pytest.raises(TrainingRefused, match="is a file: give a folder"):
        check(replace(SMALL, data=problems), Path(problems.source) / "run")


def test_a_schedule_with_its_arguments_is_taken(tmp_path: Path, problems: DataSettings) -> None:
    policy = replace(SMALL.policy, schedule="cosine_with_min_lr", warmup_steps=1)
    trainer = {"lr_scheduler_kwargs": {"min_lr": 1e-7}, "adam_beta2": 0.99, "top_k": 5}
    assert check(replace(SMALL, data=problems, policy=policy, trainer=trainer), tmp_path / "run")
