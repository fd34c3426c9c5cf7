"""What a run is output: read strictly, refused clearly."""

from __future__ import annotations

from pathlib import Path

import pytest

from training.errors import TrainingRefused
from training.rl.rewards.methods import METHODS
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
def test_the_papers_settings_are_those_of_its_appendix_b_and_of_its_code(name: str) -> None:
    settings = RunSettings.load(CONFIGS / f"{name}.toml")
    rollouts, budgets = settings.rollouts, settings.budgets
    assert (rollouts.prompts, rollouts.per_prompt, rollouts.temperature) == (32, 6, 0.8)
    assert (rollouts.max_tokens, budgets.answer_tokens) == (8000, 32)
    assert (budgets.interval, budgets.samples) == (500, 4)
    steps = 240 if name.startswith("qwen3") else 600
    assert (settings.method, settings.weight, settings.steps) == ("rlcm", 0.1, steps)
    policy = settings.policy
    assert (policy.learning_rate, policy.warmup_steps, policy.loss) == (1e-6, 10, "dapo")
    assert policy.schedule == "constant_with_warmup"
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
        (
            "[budgets]\nfractions = [0.5]\n[rollouts]\nmax_tokens = 400",
            "interval .* is 500 .* at most 400.* nor the service's readings",
        ),
        ("[budgets]\ninterval = 0", "interval .* is 0: give 1 or more"),
        ("[budgets]\nspacing = 32", "there is no setting 'spacing', only interval, fractions"),
        ('[rollouts]\nprompts = "many"', "prompts is 'many': give a value of type int"),
        ("steps = true", "steps is True: give a value of type int"),
        ("strength = -0.1", "λ has to be 0 or more"),
        ('method = "grpo"\nstrength = 0.1', "strength is 0.1, but grpo has no term that it weighs"),
        ("[budgets]\nfractions = [0.5, 1.5]", r"fractions in \[budgets\] are \(0.5, 1.5\)"),
        ("[budgets]\nfractions = [0.00001]", "at least one of the 8192 tokens of a rollout"),
        ("[probe]\ndropout = 1", r"dropout in \[probe\] is 1.0: give 0 or more, and less than 1"),
        ('[budgets]\nfractions = ["half"]', r"fractions\[0\] is 'half': give .* type float"),
        ("[evaluation]\nlimit = 4", "run.toml: evaluation: 'source' is missing: give a value"),
        ('report_to = ["tensorboard", 3]', r"report_to\[1\] is 3: give a value of type str"),
        ('report_to = "wandb"', "report_to is 'wandb': give a value of type array"),
        ("[data]\ncolumns = {problem = 3}", r"columns.problem is 3: give .* type str"),
        ("data = 3", "data is 3: give a value of type table"),
        ("[[lora]]\nrank = 4", r"lora is \[\{'rank': 4\}\]: give a value of type table$"),
        ('model = ""', "model is '': give 'embedded', a folder"),
        ('[engine]\nmode = "server"\nserver = "gpu1"', "server .* is 'gpu1': .* such as 'http"),
        ('[engine]\nmode = "server"\nserver = "http://a:99999"', "server .* is .*: give an"),
        ('[engine]\nmode = "server"\nserver = "http://"', "server .* is 'http://': give an"),
        ("[rollouts]\nper_prompt = 0", "per_prompt is 0: a group has to have 2 or more"),
        ("seed = -5", "seed is -5: give 0 or more, below 4294967296"),
        ("seed = 4294967296", "seed is 4294967296: give 0 or more, below"),
        ("strength = inf", "strength is inf: give a finite number"),
        ("strength = nan", "strength is nan: give a finite number"),
        ("steps = 100000000000000000000", "steps is 1.*0: give a finite number below"),
        ("[engine.arguments]\nsince = 2026-01-01", "arguments.since is datetime.*: give a value"),
        ("[lora]\ndropout = -0.1", r"dropout in \[lora\] is -0.1: give 0 or more"),
        ("[probe]\nweight_decay = -1", r"weight_decay in \[probe\] is -1.0: give 0 or more"),
        (
            '[policy]\nschedule = "constant_with_warmup"\nwarmup_steps = -1',
            r"warmup_steps in \[policy\] is -1: give 0 or more",
        ),
        ('[probe]\nactivation = "tanh"', "activation .* is 'tanh': give 'gelu' or 'relu'"),
        ("[probe]\nminibatch = 0", "minibatch .* is 0: give 1 or more"),
        ("[rollouts]\ntemperature = 0", r"temperature in \[rollouts\] is 0.0: give more than 0"),
        ("[rollouts]\ntop_p = 1.5", "top_p .* is 1.5: give more than 0 and at most 1"),
        ("[policy]\nlearning_rate = -1e-6", "learning_rate .* is -1e-06: give more than 0"),
        ("[data]\nlimit = 0", r"limit in \[data\] is 0: give 1 or more"),
        ("[lora]\nrank = 0", "rank .* is 0: give 1 or more"),
        (
            '[evaluation]\nsource = "embedded"\nevery = 10',
            "save_steps is 20.* every = 10: give save_steps that divide it",
        ),
        (
            'save_steps = 20\n[evaluation]\nsource = "embedded"\nevery = 10',
            "every evaluation has its checkpoint",
        ),
        (
            'steps = 10\n[evaluation]\nsource = "embedded"',
            "every = 20, and the run 10 steps, so none would be made",
        ),
        ("[policy]\nwarmup_steps = 5", "'constant' has no warm-up: give schedule = 'constant_with"),
        ('[policy]\nloss = "ppo"', "loss .* is 'ppo': give 'grpo' or 'dapo'"),
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


@pytest.mark.parametrize("config", ["r1-distill-qwen-7b", "qwen3-4b-instruct"])
def test_c2gspg_weights_sequences_equally(config: str) -> None:
    """These files have the mean over all tokens, which weights a sequence by its length."""
    path = CONFIGS / f"{config}.toml"
    assert RunSettings.load(path, method="rlcm").policy.loss == "dapo"
    assert RunSettings.load(path, method="c2gspg").policy.loss == "grpo"


def test_the_authors_method_brings_their_budgets_and_probe(tmp_path: Path) -> None:
    text = "[probe]\nwidth = 256\nupdates = 4\nalways = true\n[budgets]\nsamples = 4"
    settings = load(tmp_path, text, method="rlcm-authors")
    assert settings.budgets.fractions == (0.25, 0.5, 0.75)
    assert settings.budgets.samples == 4
    probe = settings.probe
    assert (probe.width, probe.updates, probe.minibatch, probe.states) == (None, 16, 16, 4)
    assert (probe.learns_first, probe.is_standardised, probe.always) == (True, False, True)
    assert load(tmp_path, text, method="rlcm").probe.updates == 4


def test_an_interval_that_nothing_uses_need_not_fit(tmp_path: Path) -> None:
    text = "[budgets]\ninterval = 600\n[rollouts]\nmax_tokens = 512"
    assert not load(tmp_path, text, method="rlcm-authors").probe.is_servable


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TrainingRefused, match="there is no file"):
        RunSettings.load(tmp_path / "none.toml")
    with pytest.raises(TrainingRefused, match="is a folder: give a TOML file"):
        RunSettings.load(tmp_path)


@pytest.mark.parametrize("text", ['method = "grpo"', 'method = "rlcm"\nstrength = 0'])
def test_what_is_not_used_is_not_forced_and_need_not_fit(tmp_path: Path, text: str) -> None:
    settings = load(tmp_path, f"{text}\n[budgets]\nsamples = 0\ninterval = 10000")
    assert not settings.forces
    assert load(tmp_path, f"{text}\n[probe]\nalways = true").forces


@pytest.mark.parametrize("config", sorted(Path("configs").glob("*.toml")), ids=str)
@pytest.mark.parametrize("name", METHODS)
def test_with_a_config_that_ships_every_method_has_its_own_lambda(config: Path, name: str) -> None:
    assert RunSettings.load(config, method=name).strength is None
