import json
import subprocess
import sys
from importlib.metadata import entry_points, version
from pathlib import Path

import pytest

import rlcm_serve
from rlcm_serve.cli import main
from tests.rlcm_serve.command_line import Rlcm
from training.tasks.problems import FAMILIES, LEVELS, Split, split_of

RLCM = Path(sys.executable).with_name("rlcm")


def installed(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs `rlcm` in a folder with packages of the same names; importing one would end it."""
    for package in ("training", "calibration", "rlcm_serve"):
        (folder / package).mkdir()
        (folder / package / "__init__.py").write_text("raise SystemExit('the wrong package')")
    return subprocess.run(
        [RLCM, *arguments], cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )


def test_help_names_every_command_in_a_folder_that_has_its_own_training(tmp_path: Path) -> None:
    done = installed(tmp_path, "--help")
    assert done.returncode == 0, done.stderr
    commands = (
        "serve",
        "config",
        "solve",
        "collect",
        "fit",
        "extend",
        "labels",
        "verify",
        "replay",
        "plan",
        "report",
    )
    for command in (*commands, "report-data", "keys", "train", "examples"):
        assert f" {command} " in done.stdout


def test_examples_as_jsonl_are_labelled_problems_of_their_split(tmp_path: Path) -> None:
    done = installed(tmp_path, "examples", "--jsonl", "--split", "calibration", "--count", "40")
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert len({row["id"] for row in rows}) == 40
    assert all(row["answer"].lstrip("-").isdigit() for row in rows)
    assert all(split_of(row["problem"]) is Split.CALIBRATION for row in rows)


@pytest.mark.parametrize(
    ("command", "paragraph"),
    [
        ("fit", "are beside it. Ends with status 3 if no level is certified; the certificate says"),
        ("serve", "a line of the settings file (max_n = 8). Options override variables, variables"),
        ("train check-probe", "with that of a forward pass of transformers. With a profile, the"),
    ],
)
def test_help_breaks_lines_where_the_terminal_does(
    rlcm: Rlcm, monkeypatch: pytest.MonkeyPatch, command: str, paragraph: str
) -> None:
    monkeypatch.setattr("typer.rich_utils.MAX_WIDTH", 300)
    _, out, _ = rlcm(f"{command} --help")
    (line,) = (line for line in out.splitlines() if paragraph in line)
    assert line.startswith(" ")
    assert line[1] != " "


def test_an_error_of_the_installed_command_is_one_line_and_status_1(tmp_path: Path) -> None:
    done = installed(tmp_path, "fit", "no.parquet", "--out", "y")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "error: no.parquet: no such file or directory\n"


def test_examples_are_of_every_family_and_level(rlcm: Rlcm) -> None:
    status, out, _ = rlcm("examples")
    assert status == 0
    kinds = [line.split(":")[0] for line in out.splitlines()]
    assert sorted(kinds) == sorted(f"{family} {level}" for family in FAMILIES for level in LEVELS)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("collect --data no.jsonl --out y", "there is no file no.jsonl: give an existing one"),
        ("regrade no.parquet --data x --out y", "no.parquet: no such file or directory"),
        ("collect --data x --out y --confidence tea", "confidence is 'tea': give one of probe, "),
        ("solve --file no.jsonl", "no.jsonl: no such file or directory"),
        ("solve --file folder.jsonl", "folder.jsonl is a folder: give a file"),
        ("solve --confidence tea 1+1", "confidence is 'tea': give one of probe, "),
        ("collect --data empty.jsonl --out y", "empty.jsonl holds no problem"),
        ("solve x --model ./none", "no model folder './none'"),
        ("solve x --alpha 2 --no-certificate", "alpha is 2.0"),
        ("solve x --certificate c.json --no-certificate", "give --certificate or --no-certificate"),
        ("solve x --out a.jsonl", "--out is for --file: leave it out, or give a file"),
        ("solve x --ray 2", "--ray is for --file"),
        ("solve x --concurrency 2", "--concurrency is for --file"),
        ("collect --data empty.jsonl --out empty.jsonl", "out is empty.jsonl, which is read here"),
        ("fit empty.jsonl --out empty.jsonl", "out is empty.jsonl, which is read here"),
        ("fit no --order empty.jsonl --out empty.jsonl", "out is empty.jsonl, which is read here"),
        ("fit no --pool empty.jsonl --out empty.jsonl", "out is empty.jsonl, which is read here"),
        ("reread no --probe p --inputs empty.jsonl --out empty.jsonl", "which is read here"),
        (
            "fit empty.jsonl --out folder.jsonl",
            "out is folder.jsonl, which is a folder: give a file",
        ),
        ("extend x.json empty.jsonl --out empty.jsonl", "out is empty.jsonl, which is read here"),
        ("regrade no.parquet --data empty.jsonl --out empty.jsonl", "which is read here"),
        ("train probe --model some/where/else --data x", "no model folder"),
        ("fit empty.jsonl --out y", "not Parquet"),
    ],
)
def test_an_error_is_one_line_and_status_1(rlcm: Rlcm, command: str, message: str) -> None:
    Path("empty.jsonl").touch()
    Path("folder.jsonl").mkdir()
    status, out, err = rlcm(command)
    assert (status, out) == (1, "")
    (line,) = err.splitlines()
    assert line.startswith("error: ")
    assert message in line


@pytest.mark.parametrize(
    "command",
    [
        "examples --split exam",
        "examples --count 0",
        "collect --rollouts 0",
        "train probe --interval 0",
        "fit x --alpha few --out z",
        "fit x",
        "fit --out z",
        "fit x --n 0 --out z",
        "verify c.json",
        "replay c.json",
    ],
)
def test_a_wrong_option_is_a_usage_error(rlcm: Rlcm, command: str) -> None:
    status, _, err = rlcm(command)
    assert status == 2
    assert "Usage" in err


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("fit x --alpha few --out z", "Invalid value for '--alpha': it is 'few': give a number"),
        ("collect --rollouts 0", "'--rollouts': it is '0': give 1 or more"),
        ("train rl --steps 1.5", "'--steps': it is '1.5': give a whole number"),
    ],
)
def test_the_wrong_value_of_an_option_is_named(rlcm: Rlcm, command: str, said: str) -> None:
    _, _, err = rlcm(command)
    assert said in " ".join(err.replace("│", " ").split())


@pytest.mark.parametrize("command", ["serve", "ray serve", "collect --data x --out y", "doctor"])
@pytest.mark.parametrize("option", ["--tensor-parallel-size", "--max-model-len", "--seed"])
def test_an_option_of_vllm_is_said_to_go_after_two_dashes(
    rlcm: Rlcm, command: str, option: str
) -> None:
    status, _, err = rlcm(f"{command} {option} 2")
    assert status == 2
    said = " ".join(err.replace("│", " ").split())
    assert f"No such option: {option}." in said
    assert "Options of vLLM go after `--`." in said


def test_an_option_that_is_nearly_one_of_ours_is_taken_for_it(rlcm: Rlcm) -> None:
    _, _, err = rlcm("serve --modle embedded")
    assert "Did you mean --model" in " ".join(err.replace("│", " ").split())


def test_a_programming_error_keeps_its_traceback(
    rlcm: Rlcm, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(*arguments: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("training.tasks.problems.sample_problems", wrong)
    monkeypatch.setattr(sys, "argv", ["rlcm", "examples", "--count", "1"])
    with pytest.raises(ZeroDivisionError):
        main()


def test_commands_of_other_packages_come_through_entry_points() -> None:
    names = {entry.name: entry.value for entry in entry_points(group="rlcm.commands")}
    assert names == {
        "examples": "training.commands:examples",
        "push": "training.commands:push",
        "train": "training.commands:app",
    }


@pytest.mark.parametrize("others", [True, False])
def test_a_replaced_package_is_named_in_one_sentence(tmp_path: Path, others: bool) -> None:
    (tmp_path / "calibration").mkdir()
    (tmp_path / "calibration" / "__init__.py").write_text("from sklearn import nothing\n")
    if others:
        about = tmp_path / "uncertainty_calibration-0.1.4.dist-info"
        about.mkdir()
        (about / "METADATA").write_text("Name: uncertainty-calibration\nVersion: 0.1.4\n")
        (about / "top_level.txt").write_text("calibration\n")
        (about / "RECORD").write_text("calibration/__init__.py,,\n")
    start = f"import sys; sys.path.insert(0, {str(tmp_path)!r})"
    code = f"{start}; from rlcm_serve.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "--help"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ")
    assert "package 'calibration'" in line
    assert str(tmp_path) in line
    assert ("uninstall uncertainty-calibration" in line) is others


def test_the_version_is_that_of_the_distribution(rlcm: Rlcm) -> None:
    assert rlcm("--version") == (0, f"rlcm-serve {version('rlcm-serve')}\n", "")
    assert rlcm_serve.__version__ == version("rlcm-serve")


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("solve x --certificate no.json", "there is no certificate no.json: correct the path"),
        ("serve --port 0 --certificate no.json", "there is no certificate no.json: correct the"),
        ("solve x --certificate cut.json", "cut.json is not JSON"),
        ("solve x --profile nope", "profile is 'nope', which is not served here"),
        ("solve x --profile ./nope", "cannot read the profile nope: No such file or directory"),
    ],
)
def test_what_cannot_be_served_under_is_refused_before_the_engine_starts(
    rlcm: Rlcm, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: str, said: str
) -> None:
    async def start(_: object) -> None:
        pytest.fail("the engine starts")

    monkeypatch.setattr("rlcm_serve.engine.vllm_engine.VllmEngine.start", start)
    monkeypatch.setenv("RLCM_STATE", str(tmp_path / "state"))
    Path("cut.json").write_text("{")
    status, _, err = rlcm(command)
    assert status == 1
    assert said in err
