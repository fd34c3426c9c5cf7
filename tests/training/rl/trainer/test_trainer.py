"""The trainer on the embedded model: what it reads, rewards, and leaves alone."""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from rlcm_serve.engine.model_files import ModelFiles
from rlcm_serve.engine.worker.probe import PROBE_FOLDER, Probe
from rlcm_serve.errors import RequestRefused
from rlcm_serve.recording.trained import require_untrained
from tests.training.rl.rewards.whole_reward import whole_reward
from tests.training.rl.small import SMALL, small_run, small_trainer
from training.errors import TrainingRefused
from training.rl.rewards.group_rewards import ranking
from training.rl.rewards.methods import METHODS
from training.rl.rewards.rewards import GradedRollout
from training.rl.run import finish
from training.rl.settings import BudgetSettings, ProbeSettings
from training.rl.trainer.batch import Batch
from training.rl.trainer.trainer import RLCMTrainer

pytestmark = pytest.mark.training


class Watched:
    """Keeps every batch of a trainer."""

    def __init__(self, trainer: RLCMTrainer) -> None:
        self.batches: list[Batch] = []
        under_way = trainer._under_way

        def keep() -> Batch:
            batch = under_way()
            if not any(batch is known for known in self.batches):
                self.batches.append(batch)
            return batch

        trainer._under_way = keep  # type: ignore[method-assign]  # to look on


def weights(trainer: RLCMTrainer) -> list[Tensor]:
    return [parameter.detach().clone() for parameter in trainer.model.parameters()]


def first_log(trainer: RLCMTrainer) -> dict[str, Any]:
    log: dict[str, Any] = trainer.state.log_history[0]
    return log


def test_states_at_the_cuts_are_those_of_a_fresh_forward_of_each_prefix(tmp_path: Path) -> None:
    trainer = small_trainer(tmp_path)
    fresh = [parameter.clone() for parameter in trainer.model.parameters()]
    watched = Watched(trainer)
    trainer.train()
    (batch,) = watched.batches
    with torch.no_grad():  # the states are of the weights before the step
        for parameter, before in zip(trainer.model.parameters(), fresh, strict=True):
            parameter.copy_(before)
    trainer.model.eval()
    compared = 0
    for rollout, states_BH in enumerate(batch.states_in_order()):
        for budget, state_H in zip(batch.cuts(rollout), states_BH, strict=True):
            prefix = [*batch.prompts[rollout], *batch.completions[rollout][:budget]]
            with torch.no_grad():
                expected = trainer.model.base_model(torch.tensor([prefix])).last_hidden_state[0, -1]
            torch.testing.assert_close(state_H, expected, atol=1e-5, rtol=0)
            compared += 1
    assert compared > 3 * len(batch.completions)


def test_budgets_come_before_the_thinking_closes(tmp_path: Path) -> None:
    trainer = small_trainer(tmp_path)
    watched = Watched(trainer)
    trainer.train()
    (batch,) = watched.batches
    close = trainer.recipe.thinking.think_end
    assert any(close in completion for completion in batch.completions)
    for completion, own, graded in zip(batch.completions, batch.budgets, batch.graded, strict=True):
        end = completion.index(close) if close in completion else len(completion)
        assert own == tuple(range(16, end + 1, 16))
        assert len(own) == len(graded.target_B) == len(graded.confidence_B)
    assert len(batch.forced) == 2 * sum(map(len, batch.budgets))
    shares = [share for graded in batch.graded for share in graded.target_B]
    assert set(shares) == {0, 0.5, 1}


def test_the_probe_leaves_the_policys_step_bitwise_as_it_is(tmp_path: Path) -> None:
    """It reads and learns (here much), and the policy's weights after the step are the same."""
    found = []
    for learning_rate in (0.0, 0.05):
        settings = ProbeSettings(learning_rate=learning_rate, weight_decay=0, updates=3)
        trainer = small_trainer(tmp_path, probe=settings)
        before = weights(trainer)
        trainer.train()
        after = weights(trainer)
        assert any(not torch.equal(*pair) for pair in zip(before, after, strict=True))
        assert trainer.probe is not None
        found.append((after, trainer.probe.inner.weight.clone()))
    (plain, idle), (probed, trained) = found
    assert all(torch.equal(*pair) for pair in zip(plain, probed, strict=True))
    assert not torch.equal(idle, trained)


def test_rewards_and_advantages_are_those_of_the_equations(tmp_path: Path) -> None:
    trainer = small_trainer(tmp_path)
    watched = Watched(trainer)
    trainer.train()
    (batch,) = watched.batches
    rewards = torch.tensor([whole_reward(METHODS["rlcm"], own, 0.1) for own in batch.graded])
    groups = rewards.view(2, 4)
    expected = (groups - groups.mean(1, keepdim=True)) / (groups.std(1, keepdim=True) + 1e-4)
    torch.testing.assert_close(
        torch.tensor(list(trainer._logs["advantages"])), expected.flatten(), atol=1e-4, rtol=1e-4
    )
    assert first_log(trainer)["reward"] == pytest.approx(rewards.mean().item(), abs=1e-5)
    right = [own.is_right for own in batch.graded]
    assert first_log(trainer)["accuracy"] == pytest.approx(sum(right) / len(right))


@pytest.mark.parametrize("changes", [{"method": "grpo"}, {"method": "rlcm", "strength": 0.0}])
def test_what_is_not_used_is_not_forced(tmp_path: Path, changes: dict[str, Any]) -> None:
    trainer = small_trainer(tmp_path, **changes)
    watched = Watched(trainer)
    trainer.train()
    assert trainer.probe is None
    assert watched.batches[0].forced == []
    log = first_log(trainer)
    assert "time/forced answers" not in log
    assert log["time/overhead"] == 1


def test_lambda_0_is_grpo_bitwise(tmp_path: Path) -> None:
    found = []
    for changes in ({"method": "grpo"}, {"method": "rlcm", "strength": 0.0}):
        trainer = small_trainer(tmp_path, **changes)
        trainer.train()
        assert first_log(trainer)["grad_norm"] > 0
        found.append(weights(trainer))
    assert all(torch.equal(*pair) for pair in zip(*found, strict=True))


def test_padding_on_the_left_moves_no_log_probability(tmp_path: Path) -> None:
    """Beyond rounding: positions count from the prompt's first token."""
    trainer = small_trainer(tmp_path)
    draw = torch.Generator().manual_seed(0)
    ids = torch.randint(10, 400, (2, 300), generator=draw)
    mask = torch.ones_like(ids)
    with torch.no_grad():
        plain = trainer._get_per_token_logps_and_entropies(trainer.model, ids, mask, 250)[0]
        padded_ids, padded_mask = (torch.nn.functional.pad(each, (200, 0)) for each in (ids, mask))
        padded_mask[0, :200] = 1  # the other row is longer, so the columns cannot be dropped
        padded = trainer._get_per_token_logps_and_entropies(
            trainer.model, padded_ids, padded_mask, 250
        )[0]
    torch.testing.assert_close(padded[1], plain[1], atol=2e-5, rtol=0)


@pytest.mark.parametrize("name", [*METHODS])
def test_every_method_takes_a_step_and_logs_its_curves(tmp_path: Path, name: str) -> None:
    trainer = small_trainer(tmp_path, method=name)
    before = weights(trainer)
    trainer.train()
    log = first_log(trainer)
    for term in METHODS[name].terms:
        assert f"rewards/{term.name}/mean" in log
    assert any(not torch.equal(*pair) for pair in zip(before, weights(trainer), strict=True))
    assert ("probe/bce" in log) == METHODS[name].reads_probe
    assert ("confidence/sequence" in log) == (name == "c2gspg")
    assert ("confidence/stated" in log) == name.startswith("rlcr")


@pytest.mark.parametrize("name", [name for name, own in METHODS.items() if own.reads_probe])
def test_without_lambda_only_terms_that_read_no_probe_are_left(tmp_path: Path, name: str) -> None:
    trainer = small_trainer(tmp_path, method=name, strength=0.0)
    assert trainer.probe is None
    trainer.train()
    read, *others = METHODS[name].terms
    assert f"rewards/{read.name}/mean" in first_log(trainer)
    assert not [term for term in others if f"rewards/{term.name}/mean" in first_log(trainer)]


def test_the_authors_probe_learns_before_its_reading_is_a_reward(tmp_path: Path) -> None:
    """It reads the mean of four states at a quarter, half and three quarters of each trace."""
    trainer = small_trainer(tmp_path, method="rlcm-authors")
    watched = Watched(trainer)
    trainer.train()
    (batch,) = watched.batches
    assert trainer.probe is not None
    after = [trainer.probe.confidence(states) for states in batch.states_in_order()]
    for length, own, graded, read in zip(
        batch.lengths, batch.budgets, batch.graded, after, strict=True
    ):
        assert own == tuple(round(length * share) for share in (0.25, 0.5, 0.75))
        assert graded.confidence_B == pytest.approx(read[:-1].tolist(), abs=1e-6)
    assert trainer.probe.inner.out_features == 40  # a quarter of 160


def test_states_are_averaged_over_the_tokens_before_a_cut(tmp_path: Path) -> None:
    trainer = small_trainer(tmp_path, probe=ProbeSettings(states=4))
    watched = Watched(trainer)
    model = deepcopy(trainer.model).eval()  # before the step
    trainer.train()
    (batch,) = watched.batches
    prefix = [*batch.prompts[0], *batch.completions[0][: batch.budgets[0][0]]]
    with torch.no_grad():
        hidden_TH = model.base_model(torch.tensor([prefix])).last_hidden_state[0]
    torch.testing.assert_close(
        batch.states_in_order()[0][0], hidden_TH[-4:].mean(0), atol=1e-5, rtol=0
    )


def test_a_policy_whose_probe_the_service_cannot_read_is_exported_without_one(
    tmp_path: Path,
) -> None:
    prepared = small_run(tmp_path, method="rlcm-authors")
    trainer = small_trainer(tmp_path, method="rlcm-authors")
    trainer.train()
    finish(trainer, prepared, tmp_path)
    assert not (tmp_path / PROBE_FOLDER).exists()
    assert json.loads((tmp_path / "training.json").read_text())["has_probe"] is False
    assert "`rlcm train probe` makes one" in (tmp_path / "README.md").read_text()


def test_c2gspgs_policy_gradient_is_grpos(tmp_path: Path) -> None:
    """Each batch is used once, so ratios are 1: by sequences or by tokens is the same gradient."""
    found = []
    for changes in ({"method": "grpo"}, {"method": "c2gspg", "strength": 0.0}):
        trainer = small_trainer(tmp_path, **changes)
        trainer.train()
        found.append((weights(trainer), first_log(trainer)["grad_norm"]))
    assert found[0][1] == pytest.approx(found[1][1], rel=1e-4)
    for grpo, c2gspg in zip(found[0][0], found[1][0], strict=True):
        torch.testing.assert_close(grpo, c2gspg, atol=1e-4, rtol=0)


def test_the_embedded_model_states_its_confidence_when_asked(tmp_path: Path) -> None:
    trainer = small_trainer(tmp_path, method="rlcr")
    watched = Watched(trainer)
    trainer.train()
    stated = [own for own in watched.batches[0].graded if own.stated is not None]
    assert stated
    assert any(own.is_formatted for own in stated)


def test_an_interval_longer_than_every_trace_is_refused_before_a_step(tmp_path: Path) -> None:
    trainer = small_trainer(
        tmp_path,
        rollouts=replace(SMALL.rollouts, max_tokens=1200),
        budgets=BudgetSettings(interval=1200, samples=2),
    )
    before = weights(trainer)
    with pytest.raises(
        TrainingRefused, match=r"interval is 1200 tokens in \[budgets\], and the longest"
    ):
        trainer.train()
    assert all(torch.equal(*pair) for pair in zip(before, weights(trainer), strict=True))


def test_states_that_are_no_numbers_end_the_run_before_the_probe_learns(tmp_path: Path) -> None:
    trainer = small_trainer(tmp_path, trainer={"vllm_importance_sampling_correction": False})
    read = trainer._read_states

    def broken(batch: Batch) -> None:
        read(batch)
        batch.states[0][0, 0] = torch.inf

    trainer._read_states = broken  # type: ignore[method-assign]
    with pytest.raises(TrainingRefused, match="states of 1 rollouts in step 1 are NaN or infinite"):
        trainer.train()
    assert trainer.probe is not None
    assert all(own.isfinite().all() for own in trainer.probe.parameters())


def test_the_result_is_a_folder_that_the_service_takes(tmp_path: Path) -> None:
    prepared = small_run(tmp_path)
    trainer = small_trainer(tmp_path)
    trainer.train()
    finish(trainer, prepared, tmp_path)
    files = ModelFiles.read(tmp_path)
    assert files.probe is not None
    assert files.probe.checkpoint_interval == 16
    assert files.tokenizer_digest() == prepared.files.tokenizer_digest()
    assert files.generation == prepared.files.generation
    assert files.config["dtype"] == "float32"
    assert files.config["use_cache"] is True
    hidden = torch.randn(5, files.probe.hidden_size)
    assert trainer.probe is not None
    torch.testing.assert_close(
        Probe.load(tmp_path / PROBE_FOLDER).confidence(hidden), trainer.probe.confidence(hidden)
    )
    with pytest.raises(RequestRefused, match="trained the probe"):
        require_untrained(prepared.problems.problems[:1], None, tmp_path / PROBE_FOLDER)
    with pytest.raises(RequestRefused, match="1 of 1 problems trained the model"):
        require_untrained(prepared.problems.problems[:1], tmp_path, None)
    facts = json.loads((tmp_path / "training.json").read_text())
    assert facts["data"]["digest"] == prepared.problems.digest
    assert facts["settings"]["method"] == "rlcm"
    assert len(facts["curves"]) == 1
    assert "| rollouts that are right |" in (tmp_path / "README.md").read_text()


def test_a_rollout_is_compared_with_those_of_its_own_problem(tmp_path: Path) -> None:
    """A step has two problems, four rollouts each."""
    trainer = small_trainer(tmp_path, method="rlcm-ranking")
    watched = Watched(trainer)
    trainer.train()
    (batch,) = watched.batches
    values = [value for first in (0, 4) for value in ranking(batch.graded[first : first + 4])]
    assert first_log(trainer)["rewards/ranking/mean"] == pytest.approx(fmean(values), abs=1e-6)


def test_a_rising_lambda_grows_with_the_steps(tmp_path: Path) -> None:
    trainer = small_trainer(tmp_path, method="rlcm-rising", steps=2)
    seen = []
    counted = trainer._calculate_rewards

    def watched(*args: Any) -> Any:
        found = counted(*args)
        seen.append(trainer.reward_weights.tolist())
        return found

    trainer._calculate_rewards = watched  # type: ignore[method-assign]
    trainer.train()
    assert seen == [[1, 0], pytest.approx([1, 0.1])]


def test_a_group_that_spans_two_ranks_is_whole_on_each(monkeypatch: pytest.MonkeyPatch) -> None:
    every = [GradedRollout(True, final_confidence=at / 12) for at in range(12)]
    ranks = every[:6], every[6:]
    monkeypatch.setattr("training.rl.trainer.trainer.gather_object", lambda own: every)
    for number, own in enumerate(ranks):
        rank: Any = SimpleNamespace(
            model=SimpleNamespace(training=True),
            num_generations=4,
            accelerator=SimpleNamespace(process_index=number),
        )
        groups = RLCMTrainer._groups(rank, own)
        assert [rollouts[place] for rollouts, place in groups] == own
        first = 6 * number
        wholes = [every[at - at % 4 : at - at % 4 + 4] for at in range(first, first + 6)]
        assert [rollouts for rollouts, _ in groups] == wholes


def test_the_seed_of_a_run_seeds_what_its_engine_samples(tmp_path: Path) -> None:
    """vLLM's worker seeds the process by itself, whatever the seed of the run."""
    first: list[float] = []
    for seed in (1, 2, 1):
        small_trainer(tmp_path, seed=seed)
        first.append(float(torch.rand(1)))
    assert first[0] == first[2] != first[1]
