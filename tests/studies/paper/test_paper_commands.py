import tomllib
from pathlib import Path

from typer.testing import CliRunner

from studies.paper.__main__ import app
from studies.paper.result import read_results
from studies.paper.runs import paper_runs
from tests.studies.paper.made_results import with_domains


def test_a_page_is_written_and_named(kept: Path, tmp_path: Path) -> None:
    page = tmp_path / "paper.md"
    done = CliRunner().invoke(app, ["report", "--results", str(kept), "--page", str(page)])
    assert done.exit_code == 0, done.output
    assert done.stdout == f"{page}\n"
    assert "<!-- begin claims -->" in page.read_text()


def test_every_run_is_listed_with_what_is_done(kept: Path) -> None:
    done = CliRunner().invoke(app, ["run", "--list", "--results", str(kept)])
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert [line.removesuffix(" (done)") for line in lines] == [run.name for run in paper_runs()]
    assert sum(line.endswith(" (done)") for line in lines) == len(list(kept.iterdir()))


def test_results_of_another_benchmark_are_not_taken_for_these(kept: Path) -> None:
    asked = ["run", "--list", "--data", "gsm8k", "--results", str(kept)]
    done = CliRunner().invoke(app, asked)
    assert done.exit_code != 0
    assert "made under another design" in str(done.exception)


def test_help_names_both_commands() -> None:
    done = CliRunner().invoke(app, ["--help"])
    assert done.exit_code == 0
    assert " run " in done.stdout
    assert " report " in done.stdout


def test_the_installed_program_has_no_command_of_the_studies() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    declared = [value for group in project["entry-points"].values() for value in group.values()]
    assert declared
    assert not [value for value in declared if value.startswith("studies")]


def test_the_runs_of_all_methods_are_listed_with_what_is_done(kept: Path) -> None:
    done = CliRunner().invoke(
        app, ["all", "--list", "--methods", "base,grpo", "--results", str(kept)]
    )
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[:3] == ["base-0 (done)", "grpo-0 (done)", "base-1"]
    assert len(lines) == 6


def test_the_page_of_every_seed_is_written_from_its_own_results(kept: Path, tmp_path: Path) -> None:
    page, results = tmp_path / "all.md", tmp_path / "results"
    for result in read_results(kept).values():
        with_domains(result).write(results)
    done = CliRunner().invoke(
        app, ["report", "--every-seed", "--results", str(results), "--page", str(page)]
    )
    assert done.exit_code == 0, done.output
    assert "<!-- begin domain -->" in page.read_text()
