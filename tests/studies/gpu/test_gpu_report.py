"""The report of a GPU resumes, says what is missing and why, and passes nothing off as a GPU's."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from studies.gpu.__main__ import measure
from studies.gpu.machine import Machine
from studies.gpu.page import page
from studies.gpu.parts import LONGEST, PARTS, RESULT, TINY_PARTS, Part
from studies.gpu.report import Outcome, Report, State, run
from studies.gpu.training_speed import summary
from studies.serving.made_models import SHAPES, make_model

A_GPU = Machine("NVIDIA H100", "13.0", "2.13.0", "0.31.0", "", "abc1234")
ROW = {
    "batch": 64,
    "probe": "state",
    "tokens_per_s": 5000.4,
    "ratio": 0.991,
    "ratio_min": 0.95,
    "ratio_max": 1.02,
    "cpu_time": None,
}
OVERHEAD = {"model": "7B", "tokens": 256, "rounds": 5, "engine": {"device": "cuda"}, "rows": [ROW]}
TESTS = {"tests": 3, "failures": 0, "errors": 0, "skipped": 1}
STEP = {"time/rollouts": 2.0, "time/update": 1.0, "time/overhead": 1.5}
TRAINING = summary([STEP | {"time/update": 60.0}, STEP, STEP])


def result_of(part: Part) -> Any:
    return {"tests": TESTS, "training": TRAINING}.get(part.name, OVERHEAD)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Any:
    def set_to(found: Machine) -> None:
        monkeypatch.setattr(Machine, "of_this", lambda: found)

    set_to(A_GPU)
    return set_to


class Runs:
    """Stands for running parts: notes their names, and fails those that it is told to."""

    def __init__(self, *failing: str) -> None:
        self.names: list[str] = []
        self.failing = failing

    def __call__(self, part: Part, folder: Path) -> Outcome:
        self.names.append(part.name)
        if part.name in self.failing:
            return Outcome(State.FAILED, "out of memory", 12.0)
        return Outcome(State.DONE, "", 100.0, result_of(part))


def test_a_report_goes_on_with_what_is_missing_and_names_it(
    tmp_path: Path, machine: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = Runs("overhead-7B-few"), Runs()
    repaired = replace(A_GPU, commit="def5678")
    assert measure(tmp_path, PARTS, PARTS, is_rehearsal=False, run_part=first) == 1
    assert first.names == [part.name for part in PARTS]
    assert "missing: overhead-7B-few" in capsys.readouterr().out
    shown = (tmp_path / "report.md").read_text()
    assert "| overhead-7B-few | failed | out of memory |" in shown
    machine(repaired)
    assert measure(tmp_path, PARTS, PARTS, is_rehearsal=False, run_part=second) == 0
    assert second.names == ["overhead-7B-few"]
    shown = (tmp_path / "report.md").read_text()
    assert "## Missing" not in shown
    assert shown.count("at commit abc1234.") == len(PARTS) - 1
    assert shown.count("at commit def5678.") == 1
    assert "GPU: NVIDIA H100. CUDA 13.0, torch 2.13.0, " in shown
    assert "| 64 | state | 5000 | 0.991 (0.950 to 1.020) |  |" in shown
    assert "2 of 3 tests passed, 1 were skipped." in shown
    assert "0.333 steps per second (3.00 s, median of 2)" in shown


def test_a_part_that_was_cut_off_leaves_those_before_it(tmp_path: Path, machine: Any) -> None:
    def cut_off(part: Part, folder: Path) -> Outcome:
        if part is PARTS[2]:
            raise KeyboardInterrupt
        return Outcome(State.DONE, "", 1.0, result_of(part))

    with pytest.raises(KeyboardInterrupt):
        measure(tmp_path, PARTS, PARTS, is_rehearsal=False, run_part=cut_off)
    rest = Runs()
    measure(tmp_path, PARTS, PARTS, is_rehearsal=False, run_part=rest)
    assert rest.names == [part.name for part in PARTS[2:]]


def test_without_a_gpu_nothing_runs_and_the_page_says_so(tmp_path: Path, machine: Any) -> None:
    machine(replace(A_GPU, gpu="", cuda=""))
    runs = Runs()
    assert measure(tmp_path, PARTS, PARTS, is_rehearsal=False, run_part=runs) == 1
    assert runs.names == []
    shown = (tmp_path / "report.md").read_text()
    assert shown.count("| not run | there is no CUDA device |") == len(PARTS)


def test_an_older_vllm_runs_only_what_needs_no_hooks(tmp_path: Path, machine: Any) -> None:
    machine(replace(A_GPU, vllm="0.20.0", lacks="vLLM 0.20.0 lacks x"))
    runs = Runs()
    measure(tmp_path, PARTS, PARTS, is_rehearsal=False, run_part=runs)
    assert runs.names == ["training"]
    assert "| tests | not run | vLLM 0.20.0 lacks x |" in (tmp_path / "report.md").read_text()


def test_figures_of_two_machines_are_not_mixed(tmp_path: Path, machine: Any) -> None:
    measure(tmp_path, PARTS, PARTS[:1], is_rehearsal=False, run_part=Runs())
    machine(replace(A_GPU, gpu="NVIDIA H200"))
    with pytest.raises(ValueError, match="give another folder with --out"):
        measure(tmp_path, PARTS, PARTS, is_rehearsal=False, run_part=Runs())


def test_a_rehearsal_is_called_one(tmp_path: Path, machine: Any) -> None:
    machine(replace(A_GPU, gpu=""))
    assert measure(tmp_path, TINY_PARTS, TINY_PARTS, is_rehearsal=True, run_part=Runs()) == 0
    assert "None of its figures says anything about a GPU" in (tmp_path / "report.md").read_text()
    machine(A_GPU)
    with pytest.raises(ValueError, match="a rehearsal"):
        measure(tmp_path, PARTS, PARTS, is_rehearsal=False, run_part=Runs())


def test_a_run_of_nine_minutes_begins_no_part_that_does_not_fit(
    tmp_path: Path, machine: Any
) -> None:
    runs = Runs()
    measure(tmp_path, PARTS, PARTS, is_rehearsal=False, seconds=540, run_part=runs)
    assert runs.names == [PARTS[0].name]
    assert all(part.seconds <= LONGEST for part in PARTS)


def python(code: str) -> Part:
    return Part("made", "Made", ("-c", code, RESULT))


WRITES = "import sys, pathlib; pathlib.Path(sys.argv[1]).write_text('{\"rows\": []}')"


def test_a_part_is_a_process_that_leaves_results_fails_or_is_ended(tmp_path: Path) -> None:
    done = run(python(WRITES), tmp_path)
    assert (done.state, done.result) == (State.DONE, {"rows": []})
    failed = run(python(f"{WRITES}; sys.exit(3)"), tmp_path)
    assert failed.state is State.FAILED
    assert "status 3" in failed.why
    assert run(python("pass"), tmp_path).state is State.FAILED
    slow = run(python("import time; time.sleep(60)"), tmp_path, limit=0.5)
    assert (slow.state, "longer than 0.5 s" in slow.why) == (State.FAILED, True)


def test_the_page_follows_from_the_file_alone(tmp_path: Path, machine: Any) -> None:
    measure(tmp_path, PARTS, PARTS[:2], is_rehearsal=False, run_part=Runs())
    again = Report.resumed(tmp_path, A_GPU, is_rehearsal=False)
    assert page(again, PARTS) == (tmp_path / "report.md").read_text()


def parameters(config: dict[str, Any]) -> int:
    """Of a Qwen2 model, without norms and biases."""
    hidden, head = config["hidden_size"], config["hidden_size"] // config["num_attention_heads"]
    attention = 2 * hidden * hidden + 2 * hidden * head * config["num_key_value_heads"]
    layer = attention + 3 * hidden * config["intermediate_size"]
    embedded = config["vocab_size"] * hidden * (1 if config["tie_word_embeddings"] else 2)
    return int(config["num_hidden_layers"] * layer + embedded)


def test_shapes_have_the_published_numbers_of_parameters() -> None:
    billions = {name: parameters(SHAPES[name]) / 1e9 for name in ("0.5B", "1.5B", "7B")}
    assert billions == pytest.approx({"0.5B": 0.494, "1.5B": 1.543, "7B": 7.615}, abs=0.002)


@pytest.mark.parametrize("shape", SHAPES)
def test_heads_have_a_size_that_vllm_serves_on_a_cpu_too(shape: str) -> None:
    assert SHAPES[shape]["hidden_size"] // SHAPES[shape]["num_attention_heads"] in (32, 64, 128)


def test_a_made_model_has_a_probe_of_its_size_and_two_spare_ids(tmp_path: Path) -> None:
    from rlcm_serve.engine.model_files import ModelFiles

    files = ModelFiles.read(make_model(tmp_path / "made", "0.5B"))
    assert files.probe is not None
    assert files.probe.hidden_size == 896
    assert json.loads((files.folder / "config.json").read_text())["vocab_size"] == files.vocabulary
