"""What a run is output: read strictly, refused clearly."""

from __future__ import annotations

from pathlib import Path

import pytest

from training.errors import TrainingRefused
from training.rl.settings import RunSettings

CONFIGS = Path(__file__).parents[3] / "configs"


def load(folder: Path, text: str, **changes: object) -> RunSettings:
    path = folder / "run.toml"
    path.write_text(text)
    return RunSettings.load(path, **changes)


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.toml")), ids=lambda path: path.name)
def test_every_config_loads(path: Path) -> None:
    assert RunSettings.load(path).forces


@pytest.mark.parametrize("name", ["r1-distill-qwen-7b", "qwen3-4b-instruct"])
def test_the_papers_settings_are_those_of_its_appendix_b(name: str) -> None:
    settings = RunSettings.load(CONFIGS / f"{name}.toml")
    rollouts, budgets = settings.rollouts, settings.budgets
    assert (rollouts.prompts, rollouts.per_prompt, rollouts.temperature) == (32, 6, 0.8)
    assert rollouts.max_tokens == 8192
    assert (budgets.interval, budgets.samples) == (500, 4)
    assert (settings.method, settings.weight, settings.steps) == ("rlcm", 0.1, 600)
    assert settings.policy.learning_rate == 1e-6
    assert settings.data.source == "grpo-lead"
    assert budgets.thinking == ("none" if name.startswith("qwen3") else None)


def test_the_command_line_wins_over_the_file(tmp_path: Path) -> None:
    settings = load(tmp_path, 'method = "rlcm"\nsteps = 5', method="grpo", steps=None, seed=7)
    assert (settings.method, settings.steps, settings.seed) == ("grpo", 5, 7)


def test_tables_become_what_they_are(tmp_path: Path) -> None:
    settings = load(
        tmp_path,
        """
        report_to = ["tensorboard", "wandb"]
        strength = 1
        [data.columns]
        problem = "question"
        [lora]
        rank = 4
        [trainer]
        top_k = 20
        """,
    )
    assert settings.report_to == ("tensorboard", "wandb")
    assert settings.weight == 1.0
    assert settings.data.columns == {"problem": "question"}
    assert settings.lora is not None
    assert settings.lora.rank == 4
    assert settings.trainer == {"top_k": 20}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[budgets]\nsamples = 0", r"samples in \[budgets\] is 0.*the paper has 4"),
        ("[budgets]\ninterval = 600\n[rollouts]\nmax_tokens = 512", "interval .* is 600.*most 512"),
        ("[budgets]\ninterval = 0", "interval .* is 0: give 1 or more"),
        ("[budgets]\nspacing = 32", "there is no setting 'spacing', only interval, samples"),
        ('[rollouts]\nprompts = "many"', "prompts is 'many': give a value of type int"),
        ("steps = true", "steps is True: give a value of type int"),
        ("strength = -0.1", "λ has to be 0 or more"),
        ('method = "ppo"', "'ppo' is not a method"),
        ("[rollouts]\nper_prompt = 1", "a group has to have 2 or more"),
        ('[data]\nprompt = "Think."', "does not name {problem}"),
        ('[engine]\nmode = "remote"', "give 'colocate' or 'server'"),
        ("steps = ", "is not valid TOML"),
    ],
)
def test_impossible_values_are_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(TrainingRefused, match=message):
        load(tmp_path, text)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TrainingRefused, match="there is no file"):
        RunSettings.load(tmp_path / "none.toml")


@pytest.mark.parametrize("text", ['method = "grpo"', 'method = "rlcm"\nstrength = 0'])
def test_what_is_not_used_is_not_forced_and_need_not_fit(tmp_path: Path, text: str) -> None:
    settings = load(tmp_path, f"{text}\n[budgets]\nsamples = 0\ninterval = 10000")
    assert not settings.forces
    assert load(tmp_path, f"{text}\n[probe]\nalways = true").forces
