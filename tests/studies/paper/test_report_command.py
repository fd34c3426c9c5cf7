from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from rlcm_serve import cli
from training.commands import examples

PAPER = EntryPoint("report.paper", "studies.paper.report.command:paper", "rlcm.commands")


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> typer.Typer:
    """As it is where the package is installed with this entry point."""
    plain = EntryPoint("examples", "training.commands:examples", "rlcm.commands")
    monkeypatch.setattr(cli, "entry_points", lambda group: [plain, PAPER])
    return cli.build_app()


def test_the_project_declares_the_command() -> None:
    import tomllib

    project = Path(__file__).parents[3] / "pyproject.toml"
    declared = tomllib.loads(project.read_text())["project"]["entry-points"]["rlcm.commands"]
    assert declared[PAPER.name] == PAPER.value


def test_a_page_is_written_and_named(app: typer.Typer, kept: Path, tmp_path: Path) -> None:
    page = tmp_path / "paper.md"
    told = ["report", "paper", "--results", str(kept), "--page", str(page)]
    done = CliRunner().invoke(app, told)
    assert done.exit_code == 0, done.output
    assert done.stdout == f"{page}\n"
    assert "<!-- begin claims -->" in page.read_text()


def test_help_names_both_reports(app: typer.Typer) -> None:
    done = CliRunner().invoke(app, ["report", "--help"])
    assert done.exit_code == 0
    assert "rlcm report CERTIFICATE TRACES --out FOLDER" in done.stdout
    assert " certificate " in done.stdout
    assert " paper " in done.stdout


@pytest.mark.parametrize(
    "told",
    [
        ["c.json", "t.parquet", "--out", "page"],
        ["--out", "page", "c.json", "t.parquet"],
        ["certificate", "c.json", "t.parquet", "--out", "page"],
    ],
)
def test_other_words_are_a_certificate_as_ever(app: typer.Typer, told: list[str]) -> None:
    done = CliRunner().invoke(app, ["report", *told])
    assert isinstance(done.exception, FileNotFoundError)
    assert done.exception.filename == "c.json"


def test_without_words_the_certificate_is_missed(app: typer.Typer) -> None:
    done = CliRunner().invoke(app, ["report"])
    assert done.exit_code == 2
    assert "Missing argument" in done.output


def test_other_commands_stay_where_they_were(app: typer.Typer) -> None:
    assert examples in [command.callback for command in app.registered_commands]
    assert [command.name for command in app.registered_commands].count("paper") == 0
    assert len(cli.build_app().registered_groups) == len(app.registered_groups)
