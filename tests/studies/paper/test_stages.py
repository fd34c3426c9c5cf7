import json
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest

from rlcm_serve.evaluation.measuring.measures import Controlled, Origin
from rlcm_serve.evaluation.sources import Source
from studies.paper.commands import Stages
from studies.paper.result import Result, read_results
from studies.paper.runs import repeated_runs, run_named
from studies.paper.stages import PROBE_PROBLEMS, Running, Study, _curves
from tests.rlcm_serve.evaluation.measured import MeasuredRun, measured_run
from training.errors import TrainingRefused

CONFIG = """
model = "{model}"
[data]
source = "embedded"
limit = 120
[budgets]
interval = 32
[rollouts]
max_tokens = 512
"""


class World:
    """A study whose stages are done by a program that takes a moment.

    Attributes:
        study: of it.
    """

    def __init__(self, folder: Path) -> None:
        self._bin = folder / "bin"
        self._bin.mkdir()
        program = Path(__file__).with_name("fake_rlcm.py").read_text()
        (self._bin / "rlcm").write_text(f"#!{sys.executable}\n{program}")
        (self._bin / "rlcm").chmod(0o755)
        model = folder / "model"
        (model / "probe").mkdir(parents=True)
        (model / "probe" / "config.json").write_text("of the published model")
        (model / "config.json").write_text("{}")
        config = folder / "config.toml"
        config.write_text(CONFIG.format(model=model))
        self.study = Study(config, "embedded", folder / "out", folder / "results", threads=1)

    @property
    def python(self) -> str:
        """Beside it lies the program."""
        return str(self._bin / "python")

    def running(self, name: str) -> Running:
        """A run of the study."""
        return Running(self.study, run_named(name))

    def fail(self, stage: str | None) -> None:
        """From now on this stage fails; None for none."""
        (self._bin / "failing").write_text(stage or "")

    def calls(self) -> list[str]:
        """The first words of all commands so far."""
        path = self._bin / "calls.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return [" ".join(json.loads(line)[:2]) for line in lines]

    def last_call(self) -> list[str]:
        """All words of the last command."""
        words: list[str] = json.loads((self._bin / "calls.jsonl").read_text().splitlines()[-1])
        return words


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    made = World(tmp_path)
    sources = {"rlcr": Source.VERBALIZED, "c2gspg": Source.SEQUENCE_PROBABILITY}

    def evaluated(folder: str) -> object:
        name = Path(folder).parent.name
        own = sources.get(name.split("-")[0], Source.PROBE)
        others = tuple(source for source in Source if source is not own)
        return measured_run(benchmarks=("embedded",), sources=(own, *others), n_problems=6)

    monkeypatch.setattr("studies.paper.commands.sys.executable", made.python)
    monkeypatch.setattr("studies.paper.stages.Run", SimpleNamespace(load=evaluated))
    parts = {f"embedded/{at}": "dial, level 1" for at in range(6)}
    monkeypatch.setattr("studies.paper.stages.load", lambda name: SimpleNamespace(parts=parts))
    return made


def finished(world: World, name: str) -> Result:
    world.running(name).finish()
    return read_results(world.study.results)[name]


@pytest.mark.parametrize(
    ("name", "stages"),
    [
        ("base-0", ["train probe", "eval --data"]),
        ("grpo-0", ["train rl", "train probe", "eval --data"]),
        ("rlcm-0.1-0", ["train rl", "eval --data"]),
        ("rlcr-1-0", ["train rl", "eval --data"]),
        ("c2gspg-0.01-0", ["train rl", "eval --data"]),
    ],
)
def test_a_post_hoc_probe_is_fitted_where_none_was_trained_beside(
    world: World, name: str, stages: list[str]
) -> None:
    result = finished(world, name)
    assert world.calls() == stages
    assert (result.training is not None) == ("train rl" in stages)
    assert (result.probe is not None) == ("train probe" in stages)


def test_the_base_model_is_copied_without_its_own_probe(world: World) -> None:
    world.fail("probe")
    running = world.running("base-0")
    with pytest.raises(TrainingRefused):
        running.finish()
    assert (running.folder / "config.json").read_text() == "{}"
    assert not (running.folder / "probe" / "config.json").exists()


def test_what_is_done_is_not_done_again(world: World) -> None:
    first = finished(world, "grpo-0")
    calls = world.calls()
    assert finished(world, "grpo-0") == first
    assert world.calls() == calls


@pytest.mark.parametrize("stage", ["training", "probe", "evaluation"])
def test_a_stage_that_fails_names_its_log_and_the_next_try_goes_on_there(
    world: World, stage: str
) -> None:
    stages = ["training", "probe", "evaluation"]
    world.fail(stage)
    running = world.running("grpo-0")
    log = world.study.out / f"grpo-0.{stage}.log"
    with pytest.raises(TrainingRefused, match=rf"ended with 1: .*{log.name} says why"):
        running.finish()
    assert "the machine is out of luck" in log.read_text()
    assert not world.study.results.exists()
    failed_at = stages.index(stage) + 1
    assert len(world.calls()) == failed_at
    world.fail(None)
    running.finish()
    assert world.study.is_done(running.run)
    assert world.calls()[failed_at:] == ["train rl", "train probe", "eval --data"][failed_at - 1 :]
    assert log.read_text().count(f"{stage} begins") == 2  # the log of both


def test_seconds_of_all_tries_add_up(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 1000, 10))
    monkeypatch.setattr(
        "studies.paper.commands.time", SimpleNamespace(monotonic=lambda: next(clock))
    )
    world.fail("evaluation")
    with pytest.raises(TrainingRefused):
        finished(world, "rlcm-0.1-0")
    world.fail(None)
    assert finished(world, "rlcm-0.1-0").evaluation.seconds == 20


def test_a_stage_that_was_killed_after_it_was_done_is_asked_again(world: World) -> None:
    """What it made is there; whether all of it is, the stage itself can tell."""
    running = world.running("rlcm-0.1-0")
    running.finish()
    note = running.folder / "evaluation.stage.json"
    note.write_text(json.dumps({**json.loads(note.read_text()), "done": False}))
    running.finish()
    assert world.calls() == ["train rl", "eval --data", "eval --data"]


def test_a_stage_of_another_command_is_refused(world: World) -> None:
    finished(world, "rlcm-0.1-0")
    other = Running(replace(world.study, benchmark="embedded-dial"), run_named("rlcm-0.1-0"))
    with pytest.raises(TrainingRefused, match=r"evaluation of another command .*--data embedded "):
        other.finish()


def test_two_processes_do_not_do_the_same_run(world: World) -> None:
    running = world.running("rlcm-0.1-0")
    with (
        running.stages.alone(),
        pytest.raises(TrainingRefused, match="under way in another process"),
    ):
        running.finish()
    running.finish()


def test_the_commit_is_that_of_the_code_that_began(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits = iter(["one", "two", "three"])
    monkeypatch.setattr("studies.paper.commands.commit", lambda: next(commits))
    assert finished(world, "rlcm-0.1-0").evaluation.commit == "one"


def test_curves_with_a_step_that_is_no_number_are_left_out(world: World) -> None:
    steps = [{"accuracy": 0.5, "grad_norm": float("nan")}, {"accuracy": 0.6, "grad_norm": 0.1}]
    assert _curves(steps) == {"accuracy": (0.5, 0.6)}


def test_a_result_says_how_it_was_made(world: World) -> None:
    result = finished(world, "rlcm-0.3-0")
    assert (result.name, result.method, result.strength, result.seed) == (
        "rlcm-0.3-0", "rlcm", 0.3, 0,
    )  # fmt: skip
    assert result.training is not None
    assert (result.training.command, result.training.seconds) == ("rlcm train rl", 5.0)
    assert result.settings == {"steps": 2}
    assert result.evaluation.command.startswith("rlcm eval --data embedded --model ")
    assert "--rollouts 4 " in result.evaluation.command


def test_curves_are_those_that_every_step_has_in_five_digits(world: World) -> None:
    curves = finished(world, "rlcm-0.1-0").curves
    assert curves == {"accuracy": (0.5, 0.12346), "step_time": (2.0, 3.0)}


def test_of_all_sources_only_the_runs_own_is_kept(world: World) -> None:
    result = finished(world, "c2gspg-0.01-0")
    (benchmark,) = result.measures.benchmarks
    assert {each.source for each in benchmark.sources} == {Source.SEQUENCE_PROBABILITY}
    assert {each.source for each in benchmark.controlled} == {Source.SEQUENCE_PROBABILITY}
    assert {each.source for each in benchmark.frontiers} == {Source.SEQUENCE_PROBABILITY}
    assert benchmark.indicators == ()


@pytest.mark.parametrize(
    ("name", "source", "request_"),
    [
        ("base-0", "probe", None),
        ("rlcr-1-0", "verbalised", " Say how confident you are."),
        ("c2gspg-0.01-0", "sequence-probability", None),
    ],
)
def test_an_evaluation_asks_for_the_methods_own_confidence(
    world: World, name: str, source: str, request_: str | None
) -> None:
    finished(world, name)
    words = world.last_call()
    options = dict(pairwise(words))
    assert options["--confidence"] == source
    assert options.get("--request") == request_


def test_training_is_told_the_seed_and_lambda(world: World) -> None:
    world.fail("training")
    with pytest.raises(TrainingRefused):
        finished(world, "rlcm-0.1-2")
    words = world.last_call()
    assert words[words.index("--seed") + 1] == "2"
    assert words[words.index("--strength") + 1] == "0.1"


def test_probe_problems_are_the_same_for_a_seed_whatever_the_method(world: World) -> None:
    def drawn(name: str) -> str:
        return (world.study.out / name / "probe-problems.jsonl").read_text()

    for name in ("base-0", "base-1", "grpo-0"):
        finished(world, name)
    assert drawn("base-0") == drawn("grpo-0")
    assert drawn("base-0") != drawn("base-1")
    rows = [json.loads(line) for line in drawn("base-0").splitlines()]
    assert len({row["id"] for row in rows}) == PROBE_PROBLEMS
    assert all(set(row) == {"id", "problem", "answer"} for row in rows)


def test_a_policy_and_probe_of_the_other_study_are_only_evaluated(world: World) -> None:
    same = world.study.out / "other"
    folder = same / "rlcm-1"
    study = replace(world.study, probe_problems=Path("probe.jsonl"), same=same)
    begun = Running(study, run_named("rlcm-0.1-1"))
    folder.mkdir(parents=True)
    Stages(folder).rlcm("training", ["train", "rl", "--out", folder])
    assert begun.folder == study.out / "rlcm-0.1-1", "there is no probe yet"
    Stages(folder).stage("probe", ["train", "probe", "--model", folder])
    assert begun.folder == study.out / "rlcm-0.1-1", "a run keeps the folder that it began in"
    before = len(world.calls())
    Running(study, run_named("rlcm-0.1-1")).finish()
    assert world.calls()[before:] == ["eval --data"]
    assert dict(pairwise(world.last_call()))["--model"] == str(folder)
    result = read_results(world.study.results)["rlcm-0.1-1"]
    assert result.probe is not None
    assert result.probe.command == f"rlcm train probe --model {folder}"


def test_a_run_with_another_lambda_is_not_taken_from_the_other_study(world: World) -> None:
    same = world.study.out / "other"
    study = replace(world.study, probe_problems=Path("probe.jsonl"), same=same)
    (same / "rlcm-0").mkdir(parents=True)
    Stages(same / "rlcm-0").stage("probe", ["train", "probe", "--model", same / "rlcm-0"])
    assert Running(study, run_named("rlcm-0.1-0")).folder == same / "rlcm-0"
    assert Running(study, run_named("rlcm-0.3-0")).folder == study.out / "rlcm-0.3-0"


@pytest.mark.parametrize("name", ["base-0", "grpo-1", "rlcm-0.1-2", "rlcr-1-1"])
def test_a_study_with_one_probe_for_all_makes_it_for_every_method_that_a_probe_reads(
    world: World, name: str
) -> None:
    data = world.study.out / "probe.jsonl"
    world.study = replace(world.study, probe_problems=data, temperature=1.0, rollouts=16)
    running = Running(world.study, run_named(name, repeated_runs()))
    running.finish()
    evaluation = dict(pairwise(world.last_call()))
    assert (evaluation["--temperature"], evaluation["--rollouts"]) == ("1.0", "16")
    result = read_results(world.study.results)[name]
    if name.startswith("rlcr"):
        assert result.probe is None
        assert "--probe" not in evaluation
        return
    assert result.probe is not None
    probe = dict(pairwise(result.probe.command.split()))
    assert evaluation["--probe"] == probe["--out"] == str(running.folder / "posthoc")
    assert (probe["--data"], probe["--temperature"], probe["--inputs"]) == (
        str(data),
        "1.0",
        "state",
    )


def test_problems_out_of_domain_stand_apart_and_exits_are_certified_at_regret(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def evaluated(_: str) -> object:
        names = ("trained-kinds", "out-of-domain")
        return measured_run(benchmarks=names, sources=(Source.PROBE,), n_problems=6)

    def fitted(recorded: object, alphas: tuple[float, ...], risks: tuple[str, ...]) -> object:
        assert recorded == "trained-kinds"
        origin = Origin(fitted_on=3)
        return (Controlled(Source.PROBE, origin, risk, alpha) for risk in risks for alpha in alphas)

    monkeypatch.setattr(MeasuredRun, "recorded", lambda _, name: name, raising=False)
    monkeypatch.setattr("studies.paper.stages.Run", SimpleNamespace(load=evaluated))
    monkeypatch.setattr("studies.paper.stages.fit_sources", fitted)
    parts = {f"{name}/{n}": name for name in ("trained-kinds", "out-of-domain") for n in range(6)}
    monkeypatch.setattr("studies.paper.stages.load", lambda _: SimpleNamespace(parts=parts))
    world.study = replace(world.study, out_of_domain="tale.jsonl", regret=(0.1, 0.2))
    result = finished(world, "grpo-0")
    words = world.last_call()
    assert [words[at + 1] for at, word in enumerate(words) if word == "--data"] == [
        world.study.benchmark,
        "tale.jsonl",
    ]
    (benchmark,) = result.measures.benchmarks
    assert benchmark.name == "trained-kinds"
    assert [one.alpha for one in benchmark.controlled if one.risk == "regret"] == [0.1, 0.2]
    assert set(result.rollouts.parts) == {"trained-kinds"}
    assert result.out_of_domain is not None
    assert set(result.out_of_domain.parts) == {"out-of-domain"}


def test_a_result_of_another_design_is_refused(world: World) -> None:
    running = world.running("grpo-0")
    running.finish()
    assert world.study.is_done(running.run)
    other = replace(world.study, design="0123456789ab")
    with pytest.raises(TrainingRefused, match=r"grpo-0\.json was made under another design"):
        other.is_done(running.run)
